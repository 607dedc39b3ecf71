"""The reference of a forward pass: inputs, expected outputs, and how far rounding alone may go.

For the latter, the reference is computed again with inputs and weights that are off by one unit in
the last place of the tested precision. A model that amplifies rounding shows it there.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from probes.adapter import ModelError
from probes.checking.deviation import (
    Deviation,
    measure,
    root_mean_square,
    sample,
    top_of,
)
from probes.checking.mask_values import find_masked, unmasked
from probes.checking.rules import Rules
from probes.partial_file import replace_when_complete

NO_DEVIATION = Deviation()
#: Two calls of the reference with one input differ by more than these shares of the RMS and of
#: eager PyTorch's error only if the model draws random numbers: in higher precision, rounding stays
#: far below.
RANDOM_SHARE = 1e-5
EAGER_SHARE = 0.25


@dataclasses.dataclass(frozen=True)
class ExpectedOutput:
    """One output of the model for one input set."""

    #: The sampled values of the reference: `(elements,) float64`.
    values: Any
    shape: tuple[int, ...]
    #: False for integers and booleans.
    is_float: bool
    #: Of eager PyTorch in the tested precision.
    eager: Deviation
    #: The largest deviation of reference outputs with perturbed inputs and weights.
    envelope: Deviation = NO_DEVIATION
    #: The largest class of each row, `(rows,) int64`, and eager's share of the same ones; None
    #: where the last dimension is neither classes nor a vocabulary.
    top: Any = None
    eager_top1: float | None = None

    @property
    def scale(self) -> float:
        """The root mean square of the reference, in which mask values count as 0."""
        return root_mean_square(unmasked(self.values))


@dataclasses.dataclass(frozen=True)
class Reference:
    """What the reference worker provides for all others, for one batch size."""

    #: The precision of the reference, such as `float64`.
    name: str
    #: By input set, the model's arguments as numpy arrays.
    inputs: list[list[Any]]
    #: By input set, the model's outputs.
    outputs: list[list[ExpectedOutput]]
    #: Whether eager PyTorch returns other outputs when an input is repeated.
    is_random: bool = False
    #: How many perturbations the envelope has.
    perturbations: int = 0

    def rounding(self, index: int, rules: Rules) -> list[float]:
        """Return by input set the error of output `index` that rounding accounts for.

        It is eager's largest over the input sets, or the envelope over `Rules.eager_times`, because
        the rule allows that many times as much.
        """
        of_sets = [outputs[index] for outputs in self.outputs]
        eager = max((each.eager.rmse / (each.scale or 1.0) for each in of_sets), default=0.0)
        eager *= few_elements_factor(of_sets, rules)
        return [
            max(eager * (each.scale or 1.0), each.envelope.rmse / rules.eager_times)
            for each in of_sets
        ]


def few_elements_factor(of_sets: Sequence[ExpectedOutput], rules: Rules) -> float:
    """Return how many times as large eager PyTorch's error may be as it shows in these elements.

    `of_sets` is one output for each input set. A few elements may be nearly exact by chance.
    """
    elements = sum(each.values.size for each in of_sets)
    return 1.0 + rules.few_elements / elements if elements else 1.0


def create_reference(
    name: str,
    exact: Iterable[list[Any]],
    produced: Iterable[list[Any]],
    inputs: list[list[Any]],
    class_counts: Collection[int] = (),
) -> Reference:
    """Return the reference called `name` with the errors of eager PyTorch.

    `exact` are the reference's outputs and `produced` eager PyTorch's, both by input set and output
    as numpy arrays of any shape and dtype. The last dimension of an output is classes if its size
    is in `class_counts`. Raise `ModelError` where there is no output, or one has NaN, infinity or
    nothing but mask values.
    """
    outputs = [
        [
            _expect(name, wanted, got, class_counts)
            for wanted, got in zip(precise, eager, strict=True)
        ]
        for precise, eager in zip(exact, produced, strict=True)
    ]
    if not all(outputs):
        fix = "let forward return tensors, also in dictionaries, tuples, lists or dataclasses"
        raise ModelError("the model returns no tensor", fix)
    return Reference(name, inputs, outputs)


def _expect(name: str, wanted: Any, got: Any, class_counts: Collection[int]) -> ExpectedOutput:
    values = sample(wanted)
    if values.size and find_masked(values).all():
        raise ModelError(
            "the model masks all values of an output",
            "give it weights and inputs for which some values are not masked",
        )
    if not math.isfinite(root_mean_square(unmasked(values))):
        raise ModelError(
            f"the model returns NaN or infinity even in {name}",
            "give it weights and inputs that it can compute with; a softmax of nothing but -inf, as"
            " in a row that is masked completely, is NaN",
        )
    eager = measure(sample(got), values, wanted.shape)
    if not eager.is_finite:
        raise ModelError(
            "eager PyTorch returns NaN or infinity in this precision",
            "choose another with --dtype, such as bfloat16",
        )
    is_float = wanted.dtype.kind == "f"
    is_rows = is_float and wanted.ndim > 1 and wanted.size > 0
    has_classes = is_rows and wanted.shape[-1] in class_counts
    top = top_of(wanted) if has_classes else None
    return ExpectedOutput(
        values,
        tuple(wanted.shape),
        is_float,
        eager,
        top=top,
        eager_top1=float((top_of(got) == top).mean()) if has_classes and wanted.size else None,
    )


def widen(outputs: Sequence[ExpectedOutput], rounded: Sequence[Any]) -> list[ExpectedOutput]:
    """Return `outputs` with an envelope that contains `rounded`, numpy arrays by output.

    Arrays of other shapes or with NaN are ignored.
    """
    widened = []
    for expected, array in zip(outputs, rounded, strict=True):
        found = (
            measure(sample(array), expected.values, expected.shape)
            if tuple(array.shape) == expected.shape
            else NO_DEVIATION
        )
        envelope = expected.envelope.or_larger(found) if found.is_finite else expected.envelope
        widened.append(dataclasses.replace(expected, envelope=envelope))
    return widened


def save_reference(reference: Reference, file: pathlib.Path) -> None:
    """Write `reference` as a numpy archive without pickles, atomically."""
    import numpy as np  # noqa: PLC0415 - the core is importable without any stack

    arrays: dict[str, Any] = {
        "name": np.array(reference.name),
        "sets": np.array(len(reference.inputs)),
        "random": np.array(reference.is_random),
        "perturbations": np.array(reference.perturbations),
    }
    for number, (arguments, outputs) in enumerate(
        zip(reference.inputs, reference.outputs, strict=True)
    ):
        arrays |= {f"input-{number}-{index}": array for index, array in enumerate(arguments)}
        for index, output in enumerate(outputs):
            arrays |= {
                f"expected-{number}-{index}": output.values,
                f"shape-{number}-{index}": np.array(output.shape, dtype="int64"),
                f"float-{number}-{index}": np.array(output.is_float),
                f"eager-{number}-{index}": np.array(dataclasses.astuple(output.eager)),
                f"envelope-{number}-{index}": np.array(dataclasses.astuple(output.envelope)),
            }
            if output.top is not None:
                arrays |= {
                    f"top-{number}-{index}": output.top,
                    f"eager-top-{number}-{index}": np.array(output.eager_top1),
                }
    with replace_when_complete(file) as partial:
        np.savez(partial, **arrays)


def load_reference(file: pathlib.Path) -> Reference:
    import numpy as np  # noqa: PLC0415

    with np.load(file, allow_pickle=False) as archive:
        sets = range(int(archive["sets"]))
        return Reference(
            str(archive["name"]),
            [numbered(archive, f"input-{number}-") for number in sets],
            [_load_outputs(archive, number) for number in sets],
            bool(archive["random"]),
            int(archive["perturbations"]),
        )


def numbered(archive: Any, prefix: str) -> list[Any]:
    """Return the arrays whose names are `prefix` and a number, in order."""
    return [archive[f"{prefix}{index}"] for index in range(_count(archive, prefix))]


def _count(archive: Any, prefix: str) -> int:
    return sum(name.startswith(prefix) for name in archive.files)


def _load_outputs(archive: Any, number: int) -> list[ExpectedOutput]:
    found = []
    for index in range(_count(archive, f"expected-{number}-")):
        suffix = f"{number}-{index}"
        has_classes = f"top-{suffix}" in archive.files
        found.append(
            ExpectedOutput(
                values=archive[f"expected-{suffix}"],
                shape=tuple(map(int, archive[f"shape-{suffix}"])),
                is_float=bool(archive[f"float-{suffix}"]),
                eager=Deviation(*map(float, archive[f"eager-{suffix}"])),
                envelope=Deviation(*map(float, archive[f"envelope-{suffix}"])),
                top=archive[f"top-{suffix}"] if has_classes else None,
                eager_top1=float(archive[f"eager-top-{suffix}"]) if has_classes else None,
            )
        )
    return found


def measure_rounding(reference: Reference, subject: Any, limits: Mapping[str, Any]) -> Reference:
    """Return the reference with its envelope, and with whether the model is random.

    A subject without `perturbed` has no envelope. `limits` are those of `rubric/accuracy.toml`.
    """
    start = perf_counter()
    if is_random(reference, subject):
        return dataclasses.replace(reference, is_random=True)
    if not hasattr(subject, "perturbed"):
        return reference
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
    return dataclasses.replace(reference, outputs=outputs, perturbations=perturbations)


def is_random(reference: Reference, subject: Any) -> bool:
    """Return whether the model returns other outputs for the first input set when it runs again."""
    _, again = subject.reference(reference.inputs[:1])
    for expected, array in zip(reference.outputs[0], next(iter(again)), strict=True):
        if tuple(array.shape) != expected.shape:
            return True
        found = measure(sample(array), expected.values, expected.shape)
        if expected.is_float and found.rmse > max(
            RANDOM_SHARE * expected.scale, EAGER_SHARE * expected.eager.rmse
        ):
            return True
        if not expected.is_float and found.differing:
            return True
    return False
