"""Check the outputs of a forward pass before any timing: an incorrect program is not timed.

The reference is the model in higher precision (`float64`, or `float32` where that does not fit).
An output is exact if rounding in the tested precision accounts for its error, as estimated
from eager PyTorch's own error and by perturbing inputs and weights (`rubric/accuracy.toml`).
Outputs that are less exact, but within the user's tolerance, are close. Structural faults are never
close: other shapes, NaN, and outputs that belong to another input or another row.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from probes.check_events import Accuracy, Checked
from probes.checking import identity
from probes.checking.array_reference import ExpectedOutput, Reference, luck_of_few
from probes.checking.deviation import Deviation, cosine, excess_of_top, measure, sample
from probes.checking.integers import allowed_difference
from probes.checking.rules import Rules, allowed_error

#: Verdicts from the best to the worst. `unchecked`: there is nothing to compare, because the
#: outputs are constant or random.
VERDICTS = ("equivalent", "near", "wrong")


@dataclasses.dataclass(frozen=True)
class OutputCheck:
    """One output of one input set against its reference, with what is allowed."""

    #: One of `VERDICTS`.
    verdict: str
    #: What keeps it from being exact, or empty: see `probes.check_events.Accuracy`.
    fault: str
    #: Its figure over the allowed one, of the measure that is exceeded most.
    share_of_allowed: float
    found: Deviation
    expected: ExpectedOutput
    allowed: float
    cosine: float | None
    #: Share of rows with the same largest class; None without classes.
    top1: float | None
    #: `top1`, where classes that the tolerance cannot tell apart count as the same.
    top1_or_tie: float | None

    @property
    def relative_error(self) -> float | None:
        """RMS of the error over that of the reference; integers: the share that differs."""
        if not self.expected.is_float:
            return self.found.differing
        return self.found.rmse / self.expected.scale if self.expected.scale else None


def check_outputs(
    reference: Reference, produced: Iterable[Sequence[Any]], rules: Rules, batch_size: int
) -> tuple[Checked, str | None]:
    """Compare the outputs of each input set with the reference.

    `produced` has, by input set and output, numpy arrays of the model's shapes in any dtype. Return
    the record and, for wrong outputs, the reason.
    """
    checks: list[OutputCheck] = []
    samples: list[list[Any]] = []
    for number, outputs in enumerate(produced):
        expected = reference.outputs[number]
        if [tuple(array.shape) for array in outputs] != [each.shape for each in expected]:
            shapes = ", ".join(str(array.shape) for array in outputs)
            reason = f"it returns outputs of other shapes than the model: {shapes}"
            return _record(reference, batch_size, checks, "wrong", "shape"), reason
        samples.append([sample(array) for array in outputs])
        checks += [
            check_output(reference, (number, index), array, rules)
            for index, array in enumerate(outputs)
        ]
        if not all(each.found.is_finite for each in checks):
            reason = "it returns NaN or infinity where the model does not"
            return _record(reference, batch_size, (), "wrong", "not-finite"), reason
    checks = pool_integers(reference, checks, rules)
    if reference.is_random:
        return _record(reference, batch_size, checks, "unchecked", "random-model"), None
    if fault := identity.find_fault(reference, samples, rules):
        reason = identity.REASONS[fault]
        return _record(reference, batch_size, checks, "wrong", fault), reason
    worst = find_worst(checks)
    if worst.verdict != "equivalent" and identity.is_same_for_all(reference, samples):
        reason = identity.REASONS["same-output"]
        return _record(reference, batch_size, checks, "wrong", "same-output"), reason
    if worst.verdict == "equivalent" and identity.is_constant(reference):
        return _record(reference, batch_size, checks, "unchecked", "constant-output"), None
    record = _record(reference, batch_size, checks, worst.verdict, worst.fault)
    return record, _reason(worst, reference.name) if worst.verdict == "wrong" else None


def find_worst(checks: Sequence[OutputCheck]) -> OutputCheck:
    """Return the check with the worst verdict and, of these, the largest excess."""
    return max(checks, key=lambda each: (VERDICTS.index(each.verdict), each.share_of_allowed))


def check_output(
    reference: Reference, place: tuple[int, int], array: Any, rules: Rules
) -> OutputCheck:
    """Compare the output at `place`, a number of an input set and of an output.

    `array` is a numpy array of the reference's shape, in any dtype.
    """
    number, index = place
    expected = reference.outputs[number][index]
    values = sample(array)
    found = measure(values, expected.values, expected.shape)
    of_sets = [outputs[index] for outputs in reference.outputs]
    top1, top1_or_tie = compare_classes(array, expected, rules)
    rounding = reference.rounding(index, rules)[number]
    allowed = allowed_error(expected.scale, rounding, rules)
    if expected.is_float:
        limits = {
            "error": (found.rmse, allowed),
            "row-error": (found.row, allowed_row_error(of_sets, rules)),
            "typical-error": (
                found.typical / (expected.scale or 1.0),
                allowed_typical_error(of_sets, rules),
            ),
        }
    else:
        most = allowed_difference(of_sets, rules, values.size)
        limits = {"integers": (found.differing, most)}
    check = OutputCheck(
        "equivalent",
        "",
        0.0,
        found,
        expected,
        allowed,
        cosine(values, expected.values),
        top1,
        top1_or_tie,
    )
    return _judge(check, limits, rules)


def _judge(
    check: OutputCheck, limits: Mapping[str, tuple[float, float]], rules: Rules
) -> OutputCheck:
    """Return the check with its verdict. `limits` has a figure and the allowed one by fault."""
    shares = {fault: _share(value, limit) for fault, (value, limit) in limits.items()}
    fault, share = max(shares.items(), key=lambda pair: pair[1])
    verdict = "equivalent" if share <= 1.0 else "near" if is_close(check, rules) else "wrong"
    return dataclasses.replace(
        check, verdict=verdict, fault=fault if share > 1.0 else "", share_of_allowed=share
    )


def pool_integers(
    reference: Reference, checks: Sequence[OutputCheck], rules: Rules
) -> list[OutputCheck]:
    """Return the checks, by input set and output, with integers judged over all input sets.

    A single set may have too few of them to judge.
    """
    count = len(reference.outputs[0])
    pooled = list(checks)
    for index in range(count):
        of_sets = checks[index::count]
        elements = sum(each.expected.values.size for each in of_sets)
        if of_sets[0].expected.is_float or not elements:
            continue
        differing = sum(each.found.differing * each.expected.values.size for each in of_sets)
        share = differing / elements
        allowed = allowed_difference([each.expected for each in of_sets], rules)
        pooled[index::count] = [
            _judge(
                dataclasses.replace(each, found=dataclasses.replace(each.found, differing=share)),
                {"integers": (share, allowed)},
                rules,
            )
            for each in of_sets
        ]
    return pooled


def compare_classes(
    array: Any, expected: ExpectedOutput, rules: Rules
) -> tuple[float | None, float | None]:
    """Return the shares of rows with the same largest class, without and with near ties.

    Both are None if the last dimension is not classes.
    """
    if expected.top is None:
        return None, None
    excess = excess_of_top(array, expected.top)
    # The values of both classes may be off by the tolerance.
    near_tie = 2 * rules.tolerance * expected.scale
    return float((excess == 0).mean()), float((excess <= near_tie).mean())


def allowed_row_error(of_sets: Sequence[ExpectedOutput], rules: Rules) -> float:
    """Return the largest error of a row, as a share, of an exact output.

    `of_sets` is the output for each input set.
    """
    eager = max(each.eager.row for each in of_sets) * luck_of_few(of_sets, rules)
    envelope = max(each.envelope.row for each in of_sets)
    # Eager has no error at all if the reference has the same precision: rounding is not known then.
    share = rules.row_share if eager else max(rules.row_share, rules.share_of_rms)
    return max(rules.row_eager_times * eager + share, envelope)


def allowed_typical_error(of_sets: Sequence[ExpectedOutput], rules: Rules) -> float:
    """Return the largest typical error of an exact output, over the RMS of the reference.

    `of_sets` is the output for each input set.
    """
    if rules.typical_eager_times is None:
        return math.inf
    eager = max(each.eager.typical / (each.scale or 1.0) for each in of_sets)
    eager *= luck_of_few(of_sets, rules)
    envelope = max(each.envelope.typical / (each.scale or 1.0) for each in of_sets)
    return max(rules.typical_eager_times * eager, envelope) + rules.share_of_rms


def is_close(check: OutputCheck, rules: Rules) -> bool:
    """Return whether an output that is not exact is within the user's tolerance."""
    error, expected = check.relative_error, check.expected
    if error is None or not error <= rules.tolerance:
        return False
    if not expected.is_float:
        return True
    if not check.found.row <= rules.row_tolerance:
        return False
    if check.top1_or_tie is None or expected.eager_top1 is None:
        return True
    return check.top1_or_tie >= min(rules.least_top1, expected.eager_top1)


def _share(value: float, limit: float) -> float:
    if not math.isfinite(value):
        return math.inf
    return value / limit if limit else math.inf if value else 0.0


def _reason(worst: OutputCheck, name: str) -> str:
    if worst.fault == "integers":
        return f"{worst.found.differing * 100:.2f} % of its integers differ from those of {name}"
    if worst.fault == "row-error":
        allowed = worst.found.row / worst.share_of_allowed
        return (
            f"the error of a row, {worst.found.row:.2e} of its size against {name}, is above the"
            f" allowed {allowed:.2e}"
        )
    if worst.fault == "typical-error":
        typical = worst.found.typical / (worst.expected.scale or 1.0)
        return (
            f"its typical error, {typical:.2e} of the size of the output against {name}, is above"
            f" the allowed {typical / worst.share_of_allowed:.2e}"
        )
    return (
        f"its error {worst.found.rmse:.2e} (root mean square against {name}) is above the"
        f" allowed {worst.allowed:.2e}"
    )


def _record(
    reference: Reference,
    batch_size: int,
    checks: Sequence[OutputCheck],
    verdict: str,
    fault: str,
) -> Checked:
    worst = find_worst(checks) if checks else None
    return Checked(
        batch_size,
        verdict,
        reference.name,
        rmse=worst.found.rmse if worst else None,
        rmse_eager=worst.expected.eager.rmse if worst else None,
        allowed=worst.allowed if worst else None,
        max_abs=worst.found.worst if worst else None,
        compared_elements=sum(int(each.expected.values.size) for each in checks),
        accuracy=summarise(reference, checks, fault),
    )


def summarise(reference: Reference, checks: Sequence[OutputCheck], fault: str) -> Accuracy:
    """Return the worst of each figure over input sets and outputs."""
    floats = [each for each in checks if each.expected.is_float and each.expected.scale]
    outputs = len(reference.outputs[0])
    eager = [each.expected.eager.rmse / each.expected.scale for each in floats]
    return Accuracy(
        fault=fault,
        relative_error=_largest(each.relative_error for each in checks),
        relative_error_eager=max(eager, default=None),
        ratio_to_eager=_largest(
            _ratio_to_eager(checks[index::outputs]) for index in range(outputs)
        ),
        cosine=min((each.cosine for each in floats if each.cosine is not None), default=None),
        worst_element=_largest(each.found.worst / each.expected.scale for each in floats),
        worst_row=_largest(each.found.row for each in floats),
        top1=_mean(each.top1 for each in checks),
        top1_eager=_mean(each.expected.eager_top1 for each in checks),
        envelope=_largest(each.expected.envelope.rmse / each.expected.scale for each in floats)
        if reference.perturbations
        else None,
        perturbations=reference.perturbations,
    )


def _ratio_to_eager(of_sets: Sequence[OutputCheck]) -> float | None:
    """Return the largest error of one output over the largest one of eager PyTorch.

    In a single input set, a small output of eager PyTorch may be exact by chance.
    """
    floats = [each for each in of_sets if each.expected.is_float and each.expected.scale]
    eager = max((each.expected.eager.rmse / each.expected.scale for each in floats), default=0.0)
    return max(each.found.rmse / each.expected.scale for each in floats) / eager if eager else None


def _largest(values: Iterable[float | None]) -> float | None:
    return max((each for each in values if each is not None and math.isfinite(each)), default=None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if known else None
