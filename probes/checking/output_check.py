"""Judge one output of one input set by its reference: exact, close or wrong.

A program is also called again with one input. Results may differ by rounding, because some
kernels add in varying order. A difference beyond that means that operations race, and
no output of the program can be trusted.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from probes.accuracy import AccuracyClass, Fault
from probes.checking.deviation import Deviation, cosine, excess_of_top, measure, sample
from probes.checking.rules import Rules, allowed_error
from probes.checking.stored_reference import ExpectedOutput, Reference

#: Returns what is wrong with outputs, given those of the first call; None if nothing is.
Compare = Callable[[Sequence[Any], Sequence[Any]], str | None]


@dataclasses.dataclass(frozen=True)
class OutputCheck:
    """One output of one input set against its reference, with what is allowed."""

    accuracy_class: AccuracyClass
    #: What keeps it from being exact, or empty: see `probes.accuracy.Accuracy`.
    fault: Fault
    #: The figure of the measure that is exceeded most, and its share of the allowed one.
    figure: float
    share_of_allowed: float
    deviation: Deviation
    expected: ExpectedOutput
    allowed: float
    cosine: float | None
    #: Share of rows with the same largest class; None without classes.
    top1: float | None
    #: `top1`, where classes whose values nearly tie count as the same.
    top1_or_tie: float | None

    @property
    def relative_error(self) -> float | None:
        """RMS of the error over that of the reference; integers: the share that differs."""
        if not self.expected.is_float:
            return self.deviation.differing
        return self.deviation.rmse / self.expected.scale if self.expected.scale else None


def check_output(
    reference: Reference, place: tuple[int, int], array: Any, rules: Rules
) -> OutputCheck:
    """Compare one output with the reference.

    `place` is the number of the input set and of the output; `array` has the expected shape.
    """
    number, index = place
    expected = reference.outputs[number][index]
    values = expected.align(array)
    deviation = expected.measure(values)
    limits = reference.limits(index, rules)
    top1: float | None = None
    top1_or_tie: float | None = None
    if expected.top is not None:
        excess = excess_of_top(array, expected.top)
        near_tie = rules.tie_times * rules.tolerance * expected.scale
        top1, top1_or_tie = float((excess == 0).mean()), float((excess <= near_tie).mean())
    allowed = limits.error(number)
    if expected.is_float:
        typical = deviation.typical / (expected.scale or 1.0)
        figures: Mapping[Fault, tuple[float, float]] = {
            "error": (deviation.rmse, allowed),
            "row-error": (deviation.row, limits.row_error),
            "typical-error": (typical, limits.typical_error),
            "small-error": limits.small_error(number, deviation),
        }
    else:
        figures = {"integers": (deviation.differing, limits.difference(values.size))}
    similarity = cosine(values, expected.values)
    of_classes = top1, top1_or_tie
    check = OutputCheck(
        "exact", "", 0.0, 0.0, deviation, expected, allowed, similarity, *of_classes
    )
    return judge(check, figures, rules)


def judge(
    check: OutputCheck, limits: Mapping[Fault, tuple[float, float]], rules: Rules
) -> OutputCheck:
    """Return the check with its class. `limits` has a figure and the allowed one by fault."""
    shares = {fault: _share(value, limit) for fault, (value, limit) in limits.items()}
    fault, share = max(shares.items(), key=lambda pair: pair[1])
    accuracy_class: AccuracyClass = "exact"
    if share > 1.0:
        accuracy_class = "close" if is_close(check, rules) else "incorrect"
    if accuracy_class == "close" and shares.get("small-error", 0.0) > 1.0:
        accuracy_class, fault, share = "incorrect", "small-error", shares["small-error"]
    return dataclasses.replace(
        check,
        accuracy_class=accuracy_class,
        fault=fault if accuracy_class != "exact" else "",
        figure=limits[fault][0],
        share_of_allowed=share,
    )


def is_close(check: OutputCheck, rules: Rules) -> bool:
    error, expected = check.relative_error, check.expected
    if error is None or not error <= rules.tolerance:
        return False
    if not expected.is_float:
        return True
    if not check.deviation.row <= rules.row_tolerance:
        return False
    if check.top1_or_tie is None or expected.eager_top1 is None:
        return True
    return check.top1_or_tie >= min(rules.least_top1, expected.eager_top1)


def _share(value: float, limit: float) -> float:
    if not math.isfinite(value):
        return math.inf
    return value / limit if limit else math.inf if value else 0.0


def repeat(
    call: Callable[[], Sequence[Any]], compare: Compare, limits: Mapping[str, Any]
) -> tuple[int, str | None]:
    """Call until an output differs, or the limits of `rubric/accuracy.toml` are reached.

    `call` returns numpy arrays by output. Return the number of calls and the difference, if any.
    One call before them does not count: a program that returns the output of the call before is
    wrong, but does not vary.
    """
    start = perf_counter()
    call()
    first = [array.copy() for array in call()]
    calls = 1
    while True:
        seconds = perf_counter() - start
        if calls < limits["calls"]:
            is_enough = calls >= limits["least_calls"] and seconds > limits["most_seconds"]
        else:
            is_enough = calls >= limits["most_calls"] or seconds > limits["seconds"]
        if is_enough:
            return calls, None
        difference = compare(call(), first)
        calls += 1
        if difference:
            return calls, f"call {calls} with the same input {difference}"


def compare_arrays(
    reference: Reference, rules: Rules, outputs: Sequence[Any], first: Sequence[Any]
) -> str | None:
    for index, (array, start) in enumerate(zip(outputs, first, strict=True)):
        if index in reference.uncompared:
            continue
        if array.shape != start.shape:
            return "returns another shape"
        if (array == start).all():
            continue
        scale = reference.outputs[0][index].scale
        deviation = measure(sample(array), sample(start), array.shape, scale)
        if not deviation.is_finite or _exceeds_rounding(deviation, reference, index, rules):
            return f"differs by {deviation.worst:.2e} in output {index}"
    return None


def _exceeds_rounding(deviation: Deviation, reference: Reference, index: int, rules: Rules) -> bool:
    expected, limits = reference.outputs[0][index], reference.limits(index, rules)
    if not expected.is_float:
        return deviation.differing > limits.difference(expected.values.size)
    worst = max(each.eager.or_larger(each.envelope).worst for each in limits.of_sets)
    return (
        deviation.rmse > limits.error(0)
        or deviation.row > limits.row_error
        or deviation.worst > allowed_error(expected.scale, worst, rules)
        or operator.gt(*limits.small_error(0, deviation))
    )
