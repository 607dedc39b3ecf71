"""The reference of a forward pass: inputs, expected outputs, and how far rounding alone may go.

For the latter, the reference is computed again with inputs and weights that are off by one unit in
the last place of the tested precision. A model that amplifies rounding shows it there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from probes.accuracy import Uncomparable
from probes.adapter import Findings, ModelError
from probes.arrays import np
from probes.checking.deviation import (
    Deviation,
    find_masked,
    root_mean_square,
    sample,
    top_of,
    unmasked,
)
from probes.checking.stored_reference import (
    NO_DEVIATION,
    NO_FINDINGS,
    ExpectedOutput,
    Keys,
    Reference,
)

#: Integers are compared as numbers if rounding changes more than this share of them: hardly any
#: other share would be too large.
MOST_CHANGED = 0.5
#: Largest typical error, as a share of the output, that is accepted as rounding: the typical error
#: of zeros is three times as much. Turned choices change few elements.
MOST_ROUNDING = 0.15
#: Reason and next step where outputs have no counterparts in those of other calls.
OTHER_COUNT = (
    "how many values the model returns depends on the values of its inputs",
    "let forward return a fixed number of tensors instead of lists, such as padded ones",
)
#: The deviation of an output of another shape.
OTHER_SHAPE = Deviation(rmse=math.inf)


def create_reference(
    name: str,
    exact: Iterable[list[Any]],
    produced: Iterable[list[Any]],
    inputs: list[list[Any]],
    class_counts: Collection[int] = (),
    findings: Findings = NO_FINDINGS,
    find_ties: Callable[[list[Any], list[Any]], list[Any] | None] = lambda _inputs, _outputs: None,
) -> Reference:
    """Return the reference called `name` with the errors of eager PyTorch.

    `exact` are the reference's outputs and `produced` eager PyTorch's, both by input set and output
    as numpy arrays of any shape and dtype. The last dimension of an output is classes if its size
    is in `class_counts`. `find_ties` is that of a `probes.adapter.Subject`. Raise `ModelError`
    where there is no output, their number varies, or one has NaN, infinity or only mask values.
    """
    outputs = []
    samples = []
    counts = set()
    for arguments, precise, eager in zip(inputs, exact, produced, strict=True):
        counts |= {len(precise), len(eager)}
        if len(counts) > 1:
            raise ModelError(*OTHER_COUNT)
        masks = find_ties(arguments, precise) or [False] * len(precise)
        expected = [
            _expect(name, wanted, got, mask, findings.random.get(index, False), class_counts)
            for index, (wanted, got, mask) in enumerate(zip(precise, eager, masks, strict=True))
        ]
        outputs.append(expected)
        samples.append([output.align(got) for output, got in zip(expected, eager, strict=True)])
    for index, of_sets in enumerate(zip(*outputs, strict=True)):
        if findings.random.get(index, False) is not None:
            # Over all input sets: one set of few elements may be near zero by chance.
            every = np.concatenate([unmasked(output.values) for output in of_sets])
            scale = root_mean_square(every)
            for of_set, aligned in zip(outputs, samples, strict=True):
                output = dataclasses.replace(of_set[index], least_scale=scale)
                of_set[index] = _measure_eager(output, aligned[index])
    if any(all(output.is_value for output in of_set) for of_set in outputs):
        fix = "let forward return tensors, also in dictionaries, tuples, lists or dataclasses"
        types = f" but {', '.join(findings.unseen)}" if findings.unseen else ""
        raise ModelError(f"the model returns no tensor{types}", fix)
    return Reference(
        name,
        inputs,
        outputs,
        {
            index: reason
            for index, of_sets in enumerate(zip(*outputs, strict=True))
            if (reason := _why_uncompared(of_sets, index, findings))
        },
        # Without a seed of the model's, the outputs that depend on the numbers differ.
        dataclasses.replace(
            findings, random={}, outputs=None, draws=findings.draws and not findings.random
        ),
    )


def _why_uncompared(
    of_sets: Sequence[ExpectedOutput], index: int, findings: Findings
) -> Uncomparable | None:
    if index in findings.random and findings.random[index] is None:
        return "random"
    if not any(output.values.size for output in of_sets):
        return "empty"
    if all(output.left_out is not None and output.left_out.all() for output in of_sets):
        return "random" if index in findings.random else "tied"
    if any(not output.eager.is_finite for output in of_sets):
        return "rounding"
    return "partly-random" if index in findings.random else None


def _expect(
    name: str, wanted: Any, got: Any, tied: Any, random: Any, class_counts: Collection[int]
) -> ExpectedOutput:
    """Return what is expected, given the output in the precision `name` and eager PyTorch's.

    `tied` and `random` are elements as booleans, or False. The whole output is random if that is
    None.
    """
    keys = tied if isinstance(tied, Keys) else None
    left_out: Any = (tied if keys is None else False) | (False if random is None else random)
    expected = ExpectedOutput(
        sample(wanted),
        tuple(wanted.shape),
        wanted.dtype.kind == "f",
        # Errors are shares of a scale that is not known yet.
        NO_DEVIATION if got.shape == wanted.shape or random is None else OTHER_SHAPE,
        left_out=sample(left_out) > 0 if left_out is not False and left_out.any() else None,
        keys=keys,
        is_value=isinstance(wanted, np.generic),
    )
    values = expected.values
    if random is None:
        return expected
    if values.size and find_masked(values).all():
        raise ModelError(
            "the model masks all values of an output",
            "give it weights and inputs for which some values are not masked",
        )
    if not math.isfinite(root_mean_square(unmasked(values))):
        raise ModelError(
            f"the model returns NaN even in {name}",
            "give it weights and inputs that it can compute with; a softmax of nothing but -inf, as"
            " in a row that is masked completely, is NaN; where NaN marks missing values, return"
            " another value, as with torch.nan_to_num",
        )
    if got.shape != wanted.shape:
        return expected
    is_rows = expected.is_float and wanted.ndim > 1 and wanted.size > 0
    has_classes = is_rows and wanted.shape[-1] in class_counts
    top = top_of(wanted) if has_classes else None
    return dataclasses.replace(
        expected,
        top=top,
        eager_top1=float((top_of(got) == top).mean()) if has_classes and wanted.size else None,
    )


def _measure_eager(expected: ExpectedOutput, aligned: Any) -> ExpectedOutput:
    if not expected.eager.is_finite:
        return expected
    eager = expected.measure(aligned)
    if not eager.is_finite:
        raise ModelError(
            "eager PyTorch returns NaN or infinity in this precision",
            "choose another with --dtype, such as bfloat16",
        )
    return dataclasses.replace(expected, eager=eager)


def widen(outputs: Sequence[ExpectedOutput], rounded: Sequence[Any]) -> list[ExpectedOutput]:
    """Extend the envelopes to `rounded`, except for outputs of other shapes or with NaN."""
    if len(rounded) != len(outputs):
        raise ModelError(*OTHER_COUNT)
    widened = []
    for expected, array in zip(outputs, rounded, strict=True):
        is_same_shape = tuple(array.shape) == expected.shape
        deviation = expected.measure(expected.align(array)) if is_same_shape else NO_DEVIATION
        envelope = (
            expected.envelope.or_larger(deviation) if deviation.is_finite else expected.envelope
        )
        widened.append(dataclasses.replace(expected, envelope=envelope))
    return widened


def measure_rounding(reference: Reference, subject: Any, limits: Mapping[str, Any]) -> Reference:
    """Return the reference with its envelope, which a subject that cannot be perturbed lacks.

    Where the reference has the tested precision, it stands for the error of eager PyTorch.
    """
    start = perf_counter()
    outputs = list(reference.outputs)
    perturbations = 0
    for seed in range(limits["seeds"]):
        # The next one takes as long as those before it.
        spent = perf_counter() - start
        if spent * (perturbations + 2) / (perturbations + 1) > limits["seconds"]:
            break
        number = seed % len(outputs)
        rounded = subject.perturbed(reference.inputs[number], seed)
        if rounded is None:
            break
        outputs[number] = widen(outputs[number], rounded)
        perturbations += 1
    if reference.name == subject.dtype:
        outputs = [
            [
                dataclasses.replace(each, eager=each.eager.or_larger(each.envelope))
                for each in of_set
            ]
            for of_set in outputs
        ]
    uncompared = dict(reference.uncompared)
    for index, of_sets in enumerate(zip(*outputs, strict=True)):
        errors = [each.eager.or_larger(each.envelope) for each in of_sets]
        is_float = of_sets[0].is_float or max(each.differing for each in errors) > MOST_CHANGED
        for of_set in outputs:
            of_set[index] = dataclasses.replace(of_set[index], is_float=is_float)
        scaled = [(error.typical, each.scale) for error, each in zip(errors, of_sets, strict=True)]
        typical = [error / scale for error, scale in scaled if is_float and scale]
        if max(typical, default=0.0) > MOST_ROUNDING:
            uncompared.setdefault(index, "rounding")
    return dataclasses.replace(
        reference, outputs=outputs, perturbations=perturbations, uncompared=uncompared
    )
