"""Check the outputs of a forward pass before any timing: an incorrect program is not timed.

The reference is the model in higher precision (`float64`, or `float32` where that does not fit).
An output is exact if rounding in the tested precision accounts for its error, as estimated
from eager PyTorch's own error and by perturbing inputs and weights (`rubric/accuracy.toml`).
Outputs that are less exact, but within the user's tolerance, are close. Structural faults are never
close: other shapes, NaN, and outputs that belong to another input or another row.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from probes.accuracy import CLASSES, Accuracy, AccuracyClass, Checked, Fault
from probes.checking import identity
from probes.checking.output_check import OutputCheck, check_output, judge
from probes.checking.rules import Rules
from probes.checking.stored_reference import Reference
from probes.shape import Shape

NOT_FINITE = "it returns NaN or infinity where the model does not"
#: Why outputs are not compared that may have other shapes.
SHAPELESS = {"random", "rounding"}


def check_outputs(
    reference: Reference, produced: Iterable[Sequence[Any]], rules: Rules, shape: Shape
) -> tuple[Checked, str | None]:
    """Compare the outputs of each input set with the reference.

    `produced` has, by input set and output, numpy arrays of the model's shapes in any dtype. Return
    the record and, for wrong outputs, the reason.
    """
    whole, reference = reference, reference.compared()
    checks: list[OutputCheck] = []
    samples: list[list[Any]] = []

    def record(
        accuracy_class: AccuracyClass, fault: Fault, checks: Sequence[OutputCheck]
    ) -> Checked:
        checked = Checked(shape, accuracy_class, reference.name)
        if checks:
            worst = find_worst(checks)
            checked = dataclasses.replace(
                checked,
                rmse=worst.deviation.rmse,
                rmse_eager=worst.expected.eager.rmse,
                allowed=worst.allowed,
                compared_elements=sum(check.expected.compared_elements for check in checks),
            )
        accuracy = dataclasses.replace(
            summarise(reference, checks, fault),
            uncompared=dict(collections.Counter(whole.uncompared.values())),
            outputs=len(whole.outputs[0]),
            unseen=whole.findings.unseen,
            changed_states=whole.findings.changed_states,
        )
        return dataclasses.replace(checked, accuracy=accuracy)

    for number, returned in enumerate(produced):
        every = whole.with_values(number, returned)
        if structural := _find_structural_fault(whole, number, every):
            return record("incorrect", structural[0], checks), structural[1]
        outputs = whole.keep_compared(every)
        samples.append(
            [
                expected.align(array)
                for expected, array in zip(reference.outputs[number], outputs, strict=True)
            ]
        )
        checks += [
            check_output(reference, (number, index), array, rules)
            for index, array in enumerate(outputs)
        ]
        if not all(check.deviation.is_finite for check in checks):
            return record("incorrect", "not-finite", []), NOT_FINITE
    checks = pool_integers(reference, checks, rules) if checks else []
    accuracy_class, fault, reason = _judge_all(whole, reference, checks, samples, rules)
    return record(accuracy_class, fault, checks), reason


def _judge_all(
    whole: Reference,
    reference: Reference,
    checks: Sequence[OutputCheck],
    samples: Sequence[Sequence[Any]],
    rules: Rules,
) -> tuple[AccuracyClass, Fault, str | None]:
    if not checks:
        return "unchecked", "uncompared", None
    if fault := identity.find_fault(reference, samples, rules):
        return "incorrect", fault, identity.REASONS[fault]
    worst = find_worst(checks)
    if worst.accuracy_class != "exact" and identity.is_same_for_all(reference, samples):
        return "incorrect", "same-output", identity.REASONS["same-output"]
    if worst.accuracy_class == "incorrect":
        return "incorrect", worst.fault, _reason(worst, reference.name, rules)
    if whole.uncompared or whole.findings.unseen:
        return "unchecked", "uncompared", None
    if worst.accuracy_class == "exact" and identity.is_constant(reference):
        return "unchecked", "constant-output", None
    return worst.accuracy_class, worst.fault, None


def _find_structural_fault(
    reference: Reference, number: int, outputs: Sequence[Any]
) -> tuple[Fault, str] | None:
    """Return the fault of outputs of other shapes, or with NaN among those not compared."""
    shapes = [tuple(array.shape) for array in outputs]
    if len(outputs) != len(reference.outputs[number]) or any(
        shape != output.shape
        for index, (shape, output) in enumerate(zip(shapes, reference.outputs[number], strict=True))
        if reference.uncompared.get(index) not in SHAPELESS
    ):
        returned = ", ".join(map(str, shapes))
        return "shape", f"it returns outputs of other shapes than the model: {returned}"
    floats = (outputs[index] for index in reference.uncompared if outputs[index].dtype.kind == "f")
    if any((array != array).any() for array in floats):  # noqa: PLR0124 - NaN
        return "not-finite", NOT_FINITE
    return None


def find_worst(checks: Sequence[OutputCheck]) -> OutputCheck:
    return max(checks, key=lambda one: (CLASSES.index(one.accuracy_class), one.share_of_allowed))


def pool_integers(
    reference: Reference, checks: Sequence[OutputCheck], rules: Rules
) -> list[OutputCheck]:
    """Judge integers over all input sets, because a single one may have too few of them."""
    count = len(reference.outputs[0])
    pooled = list(checks)
    for index in range(count):
        of_sets = checks[index::count]
        elements = sum(check.expected.values.size for check in of_sets)
        if of_sets[0].expected.is_float or not elements:
            continue
        differing = sum(check.deviation.differing * check.expected.values.size for check in of_sets)
        share = differing / elements
        allowed = reference.limits(index, rules).difference()
        pooled[index::count] = [
            judge(
                dataclasses.replace(
                    check, deviation=dataclasses.replace(check.deviation, differing=share)
                ),
                {"integers": (share, allowed)},
                rules,
            )
            for check in of_sets
        ]
    return pooled


def _reason(worst: OutputCheck, name: str, rules: Rules) -> str:
    """Return what keeps an output from being close, or exact if nothing else is accepted."""
    error, is_float = worst.relative_error, worst.expected.is_float
    if rules.tolerance and is_float and error is not None and not error <= rules.tolerance:
        size = f"its error, a share of the size of the output against {name}"
        return f"{size}, is {error:.2e}; {rules.tolerance:.2e} is allowed"
    if rules.tolerance and is_float and worst.deviation.row > rules.row_tolerance:
        row = f"the error of a row, a share of its size against {name}"
        return f"{row}, is {worst.deviation.row:.2e}; {rules.row_tolerance:.2e} is allowed"
    has_classes = worst.top1_or_tie is not None and worst.fault != "small-error"
    if rules.tolerance and is_float and has_classes:
        return f"the largest class is that of {name} in {worst.top1_or_tie:.0%} of the rows only"
    measured = {
        "error": f"its error, the root mean square against {name}",
        "row-error": f"the error of a row, a share of its size against {name}",
        "typical-error": f"its typical error, a share of the size of the output against {name}",
        "small-error": f"the error of its small values, a share of their size against {name}",
        "integers": f"the share of its integers that differ from those of {name}",
    }[worst.fault]
    left_out = (
        ", besides those that are not compared" if worst.expected.left_out is not None else ""
    )
    allowed = worst.figure / worst.share_of_allowed
    return f"{measured}{left_out}, is {worst.figure:.2e}; {allowed:.2e} is allowed"


def summarise(reference: Reference, checks: Sequence[OutputCheck], fault: Fault) -> Accuracy:
    """Return the worst of each figure over input sets and outputs, but the mean of `top1`."""
    floats = [check for check in checks if check.expected.is_float and check.expected.scale]
    outputs = len(reference.outputs[0])
    envelope = _largest(check.expected.envelope.rmse / check.expected.scale for check in floats)
    return Accuracy(
        fault=fault,
        relative_error=_largest(check.relative_error for check in checks),
        relative_error_eager=max(map(_eager_error, floats), default=None),
        ratio_to_eager=_largest(
            _ratio_to_eager(checks[index::outputs]) for index in range(outputs)
        ),
        cosine=min((check.cosine for check in floats if check.cosine is not None), default=None),
        worst_element=_largest(check.deviation.worst / check.expected.scale for check in floats),
        top1=_mean(check.top1 for check in checks),
        envelope=envelope if reference.perturbations else None,
    )


def _eager_error(check: OutputCheck) -> float:
    return check.expected.eager.rmse / check.expected.scale


def _ratio_to_eager(of_sets: Sequence[OutputCheck]) -> float | None:
    """Divide the largest errors over all input sets: eager may be exact in one by chance."""
    floats = [check for check in of_sets if check.expected.is_float and check.expected.scale]
    eager = max(map(_eager_error, floats), default=0.0)
    if not eager:
        return None
    return max(check.deviation.rmse / check.expected.scale for check in floats) / eager


def _largest(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return max(known, default=None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
