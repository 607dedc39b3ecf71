"""Call a program again with one input, and compare its outputs with those of the first call.

Results may differ by what rounding accounts for, because some kernels add in varying order. A
difference beyond that means that operations race, and no output of the program can be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from probes.checking.array_reference import Reference
from probes.checking.deviation import Deviation, measure, sample
from probes.checking.integers import allowed_difference
from probes.checking.output_check import allowed_row_error
from probes.checking.rules import Rules, allowed_error

#: Returns what is wrong with outputs, given those of the first call; None if nothing is.
Compare = Callable[[Sequence[Any], Sequence[Any]], str | None]


def repeat(
    call: Callable[[], Sequence[Any]], compare: Compare, limits: Mapping[str, Any]
) -> tuple[int, str | None]:
    """Call until the limits of `rubric/accuracy.toml` or a difference.

    `call` returns numpy arrays by output. Return the number of calls and the difference, if any.
    One call before them does not count: a program that returns the output of the call before is
    wrong, but does not vary.
    """
    start = perf_counter()
    call()
    first = [array.copy() for array in call()]
    calls = 1
    while not _is_enough(calls, perf_counter() - start, limits):
        difference = compare(call(), first)
        calls += 1
        if difference:
            return calls, f"call {calls} with the same input {difference}"
    return calls, None


def _is_enough(calls: int, seconds: float, limits: Mapping[str, Any]) -> bool:
    if calls < limits["calls"]:
        return bool(calls >= limits["least_calls"] and seconds > limits["most_seconds"])
    return bool(calls >= limits["most_calls"] or seconds > limits["seconds"])


def compare_arrays(reference: Reference, rules: Rules) -> Compare:
    """Return a comparison of outputs for the first input set of `reference`."""

    def compare(outputs: Sequence[Any], first: Sequence[Any]) -> str | None:
        for index, (array, start) in enumerate(zip(outputs, first, strict=True)):
            if array.shape != start.shape:
                return "returns another shape"
            if (array == start).all():
                continue
            found = measure(sample(array), sample(start), array.shape)
            if not found.is_finite or _is_beyond(found, reference, index, rules):
                return f"differs by {found.worst:.2e} in output {index}"
        return None

    return compare


def _is_beyond(found: Deviation, reference: Reference, index: int, rules: Rules) -> bool:
    """Return whether a difference between two calls is more than rounding accounts for."""
    expected = reference.outputs[0][index]
    of_sets = [outputs[index] for outputs in reference.outputs]
    if not expected.is_float:
        return found.differing > allowed_difference(of_sets, rules, expected.values.size)
    rounding = reference.rounding(index, rules)[0]
    worst = max(each.eager.or_larger(each.envelope).worst for each in of_sets)
    return (
        found.rmse > allowed_error(expected.scale, rounding, rules)
        or found.row > allowed_row_error(of_sets, rules)
        or found.worst > allowed_error(expected.scale, worst, rules)
    )
