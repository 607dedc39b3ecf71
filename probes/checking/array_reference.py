"""The reference of a forward pass: inputs, expected outputs, and how far rounding alone may go.

For the latter, the reference is computed again with inputs and weights that are off by one unit in
the last place of the tested precision. A model that amplifies rounding shows it there.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from probes.adapter import Findings, ModelError
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
from probes.wire.checks import Uncomparable

NO_DEVIATION, NOTHING_FOUND = Deviation(), Findings()
#: Integers of which rounding changes more than this share are compared as numbers: hardly any
#: other share would be too large.
MOST_CHANGED = 0.5
#: Typical errors above this share of the output are none that rounding may be allowed: three times
#: as much is the typical error of zeros. Turned choices change few elements.
MOST_ROUNDING = 0.15


@dataclasses.dataclass(frozen=True)
class Keys:
    """The values that an output, their places, orders or chooses from."""

    #: By what has an order of its own, `(rows, values) float64`.
    rows: Any
    #: The axis of the output that has the places of a row; None if it has one for each row.
    axis: int | None

    def replace_equal(self, places: Any, wanted: Any) -> Any:
        """Return `places` with those of `wanted` where both have equal values."""
        import numpy as np  # noqa: PLC0415 - the core is importable without any stack

        axis = -1 if self.axis is None else self.axis
        moved, target = (
            np.moveaxis(each[..., None] if self.axis is None else each, axis, -1)
            for each in (places, wanted)
        )
        count = self.rows.shape[1]
        mine, right = (each.reshape(len(self.rows), -1).astype("int64") for each in (moved, target))
        is_place = (mine >= 0) & (mine < count)
        found, expected = (
            np.take_along_axis(self.rows, each.clip(0, count - 1), 1) for each in (mine, right)
        )
        is_twice = (np.diff(np.sort(mine, 1), axis=1) == 0).any(1, keepdims=True)
        is_same = (is_place & (found == expected) & ~is_twice).reshape(moved.shape)
        replaced = np.moveaxis(np.where(is_same, target, moved), -1, axis)
        return replaced[..., 0] if self.axis is None else replaced


#: Returns by output which elements depend on the order of equal values, as booleans or as the keys
#: of an output of places, for inputs and outputs.
FindTies = Callable[[list[Any], list[Any]], list[Any] | None]


@dataclasses.dataclass(frozen=True)
class ExpectedOutput:
    """One output of the model for one input set."""

    #: The sampled values of the reference: `(elements,) float64`.
    values: Any
    shape: tuple[int, ...]
    #: False for integers and booleans whose differences are counted.
    is_float: bool
    #: Of eager PyTorch in the tested precision.
    eager: Deviation
    #: The largest deviation of reference outputs with perturbed inputs and weights.
    envelope: Deviation = NO_DEVIATION
    #: The largest class of each row, `(rows,) int64`, and eager's share of the same ones; None
    #: where the last dimension is neither classes nor a vocabulary.
    top: Any = None
    eager_top1: float | None = None
    #: Which values are not compared: those that depend on the order of equal ones or on random
    #: numbers; None without any.
    left_out: Any = None
    #: Of places of values, some of which are equal.
    keys: Keys | None = None

    def align(self, array: Any) -> Any:
        """Return the sample of an output with the reference's values where others are right."""
        import numpy as np  # noqa: PLC0415 - the core is importable without any stack

        if self.keys and array.shape == self.shape:
            array = self.keys.replace_equal(array, self.values.reshape(self.shape))
        values = sample(array)
        return values if self.left_out is None else np.where(self.left_out, self.values, values)

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
    #: Why nothing of an output is compared, by its number.
    uncompared: dict[int, Uncomparable] = dataclasses.field(default_factory=dict)
    #: Types of values among the outputs that cannot be compared.
    unseen: tuple[str, ...] = ()
    #: Whether a call of the model draws random numbers.
    draws: bool = False
    #: How many perturbations the envelope has.
    perturbations: int = 0

    def compared(self) -> Reference:
        """Return the reference without the outputs that are not compared."""
        outputs = [self.keep_compared(outputs) for outputs in self.outputs]
        return dataclasses.replace(self, outputs=outputs, uncompared={})

    def keep_compared(self, outputs: Sequence[Any]) -> list[Any]:
        return [
            each
            for index, each in enumerate(outputs)
            if self.uncompared.get(index) in {None, "partly-random"}
        ]

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


def find_no_ties(inputs: list[Any], outputs: list[Any]) -> None:
    """Return None: the order of equal values decides nothing."""


def create_reference(
    name: str,
    exact: Iterable[list[Any]],
    produced: Iterable[list[Any]],
    inputs: list[list[Any]],
    class_counts: Collection[int] = (),
    findings: Findings = NOTHING_FOUND,
    find_ties: FindTies = find_no_ties,
) -> Reference:
    """Return the reference called `name` with the errors of eager PyTorch.

    `exact` are the reference's outputs and `produced` eager PyTorch's, both by input set and output
    as numpy arrays of any shape and dtype. The last dimension of an output is classes if its size
    is in `class_counts`. Raise `ModelError` where there is no output, or one has NaN, infinity or
    nothing but mask values.
    """
    whole = {index for index, elements in findings.random.items() if elements is None}
    outputs = []
    for arguments, precise, eager in zip(inputs, exact, produced, strict=True):
        masks = find_ties(arguments, precise) or [False] * len(precise)
        expected = [
            _expect(
                name,
                _start(wanted, mask, findings.random.get(index)),
                (wanted, got),
                class_counts,
                is_random=index in whole,
            )
            for index, (wanted, got, mask) in enumerate(zip(precise, eager, masks, strict=True))
        ]
        outputs.append(expected)
    if not all(outputs):
        fix = "let forward return tensors, also in dictionaries, tuples, lists or dataclasses"
        types = f" but {', '.join(findings.unseen)}" if findings.unseen else ""
        raise ModelError(f"the model returns no tensor{types}", fix)
    reference = Reference(name, inputs, outputs, unseen=findings.unseen, draws=findings.draws)
    found = {
        index: reason
        for index, of_sets in enumerate(zip(*outputs, strict=True))
        if (reason := _why_uncompared(of_sets, index, findings))
    }
    return dataclasses.replace(reference, uncompared=found)


def _why_uncompared(
    of_sets: Sequence[ExpectedOutput], index: int, findings: Findings
) -> Uncomparable | None:
    """Return why an output is not compared, given its value for each input set."""
    if index in findings.random and findings.random[index] is None:
        return "random"
    if not any(each.values.size for each in of_sets):
        return "empty"
    if all(each.left_out is not None and each.left_out.all() for each in of_sets):
        return "random" if index in findings.random else "tied"
    if any(not each.eager.is_finite for each in of_sets):
        return "rounding"
    return "partly-random" if index in findings.random else None


def _start(wanted: Any, tied: Any, random: Any) -> ExpectedOutput:
    """Return what is expected of an output, before eager PyTorch's is compared."""
    left_out: Any = False if isinstance(tied, Keys) else tied
    left_out = left_out | (False if random is None else random)
    return ExpectedOutput(
        sample(wanted),
        tuple(wanted.shape),
        wanted.dtype.kind == "f",
        NO_DEVIATION,
        left_out=sample(left_out) > 0 if left_out is not False and left_out.any() else None,
        keys=tied if isinstance(tied, Keys) else None,
    )


def _expect(
    name: str,
    expected: ExpectedOutput,
    of_precisions: tuple[Any, Any],
    class_counts: Collection[int],
    *,
    is_random: bool,
) -> ExpectedOutput:
    """Return what is expected, given the output in the precision `name` and eager PyTorch's."""
    (wanted, got), values = of_precisions, expected.values
    if is_random:
        return expected
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
    if got.shape != wanted.shape:
        return dataclasses.replace(expected, eager=Deviation(rmse=math.inf))
    eager = measure(expected.align(got), values, wanted.shape)
    if not eager.is_finite:
        raise ModelError(
            "eager PyTorch returns NaN or infinity in this precision",
            "choose another with --dtype, such as bfloat16",
        )
    is_rows = expected.is_float and wanted.ndim > 1 and wanted.size > 0
    has_classes = is_rows and wanted.shape[-1] in class_counts
    top = top_of(wanted) if has_classes else None
    return dataclasses.replace(
        expected,
        eager=eager,
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
            measure(expected.align(array), expected.values, expected.shape)
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
        "facts": np.array(
            json.dumps([[*reference.uncompared.items()], reference.unseen, reference.draws])
        ),
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
            if output.left_out is not None:
                arrays[f"left-out-{number}-{index}"] = output.left_out
            if output.keys is not None:
                axis = -1 if output.keys.axis is None else output.keys.axis
                arrays |= {
                    f"keys-{number}-{index}": output.keys.rows,
                    f"axis-{number}-{index}": np.array(axis),
                }
    with replace_when_complete(file) as partial:
        np.savez(partial, **arrays)


def load_reference(file: pathlib.Path) -> Reference:
    import numpy as np  # noqa: PLC0415

    with np.load(file, allow_pickle=False) as archive:
        sets = range(int(archive["sets"]))
        uncompared, unseen, draws = json.loads(str(archive["facts"]))
        return Reference(
            str(archive["name"]),
            [numbered(archive, f"input-{number}-") for number in sets],
            [_load_outputs(archive, number) for number in sets],
            dict(uncompared),
            tuple(unseen),
            draws,
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
        has_classes, is_partial, has_keys = (
            f"{kind}-{suffix}" in archive.files for kind in ("top", "left-out", "keys")
        )
        axis = int(archive[f"axis-{suffix}"]) if has_keys else -1
        found.append(
            ExpectedOutput(
                values=archive[f"expected-{suffix}"],
                shape=tuple(map(int, archive[f"shape-{suffix}"])),
                is_float=bool(archive[f"float-{suffix}"]),
                eager=Deviation(*map(float, archive[f"eager-{suffix}"])),
                envelope=Deviation(*map(float, archive[f"envelope-{suffix}"])),
                top=archive[f"top-{suffix}"] if has_classes else None,
                eager_top1=float(archive[f"eager-top-{suffix}"]) if has_classes else None,
                left_out=archive[f"left-out-{suffix}"] if is_partial else None,
                keys=Keys(archive[f"keys-{suffix}"], None if axis < 0 else axis)
                if has_keys
                else None,
            )
        )
    return found


def measure_rounding(reference: Reference, subject: Any, limits: Mapping[str, Any]) -> Reference:
    """Return the reference with its envelope.

    A subject without `perturbed` has none. `limits` are those of `rubric/accuracy.toml`. Where the
    reference has the tested precision, eager PyTorch has no error, and the envelope stands for it.
    """
    start = perf_counter()
    outputs = list(reference.outputs)
    perturbations = 0
    for seed in range(limits["seeds"] if hasattr(subject, "perturbed") else 0):
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
        share = max(each.eager.or_larger(each.envelope).differing for each in of_sets)
        if not of_sets[0].is_float and share > MOST_CHANGED:
            for of_set in outputs:
                of_set[index] = dataclasses.replace(of_set[index], is_float=True)
        typical = (
            each.eager.or_larger(each.envelope).typical / each.scale
            for each in (of_set[index] for of_set in outputs)
            if each.is_float and each.scale
        )
        if max(typical, default=0.0) > MOST_ROUNDING:
            uncompared.setdefault(index, "rounding")
    return dataclasses.replace(
        reference, outputs=outputs, perturbations=perturbations, uncompared=uncompared
    )
