"""Is an output right? Decided before any timing: a fast wrong answer must never get a time.

The reference is the model in higher precision (`float64`, or `float32` when that does not fit). An
output passes if its root mean square error against the reference is at most `multiplier` times that
of eager PyTorch in the tested precision, plus a tenth of the tolerance scaled by the reference's
own root mean square. The rule is that of PyTorch's compiler tests (`torch/_dynamo/utils.py`,
`same`), with the scale added so that models with small values are not waved through.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from probes.adapter import ModelError
from probes.protocol import Correctness

#: Multiplier and tolerance by tested precision; the multipliers are those of PyTorch's own compiler
#: tests.
RULES = {
    "float64": (2.0, 1e-6),
    "float32": (2.0, 1e-4),
    "float16": (3.0, 1e-3),
    "bfloat16": (3.0, 1e-2),
}
#: Averages over few elements scatter: PyTorch's rule allows more there.
FEW_ELEMENTS = 1000
FEW_ELEMENTS_MULTIPLIER = 10.0
#: Elements of one output that are kept for comparison; more are sampled with a fixed stride over
#: the whole output.
MOST_ELEMENTS = 1 << 20


@dataclasses.dataclass(frozen=True)
class Reference:
    """What the baseline worker leaves for all others, for one batch size."""

    name: str
    inputs: list[list[Any]]
    #: Expected outputs by input set, sampled and flat, in float64.
    expected: list[list[Any]]
    #: Eager PyTorch's error in the tested precision, by input set and output.
    eager_errors: list[list[float]]


def sample(array: Any) -> Any:
    """Return `array` flat in float64, thinned to at most `MOST_ELEMENTS` by a stride that meets every row and column."""
    flat = array.reshape(-1)
    if flat.size > MOST_ELEMENTS:
        stride = flat.size // MOST_ELEMENTS + 1
        # A stride that shares a factor with a row's length falls in step with it and meets some
        # columns never.
        while math.gcd(stride, flat.size) > 1:
            stride += 1
        flat = flat[::stride]
    return flat.astype("float64")


def root_mean_square(array: Any) -> float:
    """Return the root mean square of a float64 array."""
    return math.sqrt(float((array * array).mean())) if array.size else 0.0


def create_reference(
    name: str, exact: Iterable[list[Any]], produced: Iterable[list[Any]], inputs: list[list[Any]]
) -> Reference:
    """Keep the `exact` outputs of the reference called `name`, and how far what eager PyTorch `produced` is from them."""
    expected, errors = [], []
    for precise, outputs in zip(exact, produced, strict=True):
        wanted = [sample(output) for output in precise]
        if not all(math.isfinite(root_mean_square(target)) for target in wanted):
            raise ModelError(
                f"the model returns NaN or infinity even in {name}",
                "give it weights and inputs that it can compute with",
            )
        expected.append(wanted)
        errors.append(
            [
                root_mean_square(sample(got) - target)
                for got, target in zip(outputs, wanted, strict=True)
            ]
        )
    if not all(math.isfinite(error) for outputs in errors for error in outputs):
        raise ModelError(
            "eager PyTorch returns NaN or infinity in this precision",
            "choose another with --dtype, such as bfloat16",
        )
    return Reference(name, inputs, expected, errors)


def save_reference(reference: Reference, file: pathlib.Path) -> None:
    """Write `reference` as a numpy archive without pickles, whole or not at all."""
    import numpy as np  # noqa: PLC0415 - the core is importable without any stack

    arrays: dict[str, Any] = {
        "name": np.array(reference.name),
        "sets": np.array(len(reference.inputs)),
    }
    for number, (arguments, outputs, errors) in enumerate(
        zip(reference.inputs, reference.expected, reference.eager_errors, strict=True)
    ):
        arrays |= {f"input-{number}-{place}": array for place, array in enumerate(arguments)}
        arrays |= {f"expected-{number}-{place}": array for place, array in enumerate(outputs)}
        arrays[f"errors-{number}"] = np.array(errors)
    beside = file.with_suffix(".part.npz")
    np.savez(beside, **arrays)
    beside.rename(file)


def load_reference(file: pathlib.Path) -> Reference:
    """Read what `save_reference` wrote."""
    import numpy as np  # noqa: PLC0415

    with np.load(file, allow_pickle=False) as archive:
        inputs, expected, errors = [], [], []
        for number in range(int(archive["sets"])):
            inputs.append(_numbered(archive, f"input-{number}-"))
            expected.append(_numbered(archive, f"expected-{number}-"))
            errors.append([float(error) for error in archive[f"errors-{number}"]])
        return Reference(str(archive["name"]), inputs, expected, errors)


def _numbered(archive: Any, prefix: str) -> list[Any]:
    return [
        archive[f"{prefix}{place}"]
        for place in range(sum(name.startswith(prefix) for name in archive.files))
    ]


@dataclasses.dataclass(frozen=True)
class Error:
    """How far one output is from its reference, and how far it may be; ordered by how far beyond."""

    share_of_allowed: float
    rmse: float
    eager: float
    allowed: float
    max_abs: float


def judge(
    reference: Reference, produced: Iterable[Sequence[Any]], dtype: str, batch_size: int
) -> tuple[Correctness, str | None]:
    """Compare the outputs of each input set with the reference; return the record and, when one is wrong, the reason in words."""
    errors: list[Error] = []
    firsts: list[Any] = []
    compared = 0
    for outputs, wanted, eager in zip(
        produced, reference.expected, reference.eager_errors, strict=True
    ):
        if [sample(output).size for output in outputs] != [target.size for target in wanted]:
            shapes = ", ".join(str(output.shape) for output in outputs)
            return _record(
                "wrong", reference, batch_size, compared
            ), f"it returns outputs of other shapes than the model: {shapes}"
        got = [sample(output) for output in outputs]
        compared += sum(array.size for array in got)
        firsts.append(got[0])
        errors += [measure_error(*each, dtype) for each in zip(got, wanted, eager, strict=True)]
        if not all(math.isfinite(error.rmse) for error in errors):
            return _record("wrong", reference, batch_size, compared), "it returns NaN or infinity"
    worst = max(errors, key=lambda error: error.share_of_allowed)
    if worst.share_of_allowed <= 1.0:
        return _record("equivalent", reference, batch_size, compared, worst), None
    record = _record("wrong", reference, batch_size, compared, worst)
    if len(firsts) > 1 and all((other == firsts[0]).all() for other in firsts[1:]):
        return record, "it returns the same output for every input"
    return (
        record,
        f"its error {worst.rmse:.2e} (root mean square against {reference.name}) is above the allowed {worst.allowed:.2e}",
    )


def measure_error(got: Any, target: Any, eager: float, dtype: str) -> Error:
    """Return the error of one output beside what this module's rule allows in `dtype`."""
    difference = got - target
    allowed = allowed_error(target, eager, dtype)
    rmse = root_mean_square(difference)
    share = rmse / allowed if allowed else math.inf if rmse else 0.0
    return Error(
        share, rmse, eager, allowed, float(abs(difference).max()) if difference.size else 0.0
    )


def allowed_error(target: Any, eager: float, dtype: str) -> float:
    """Return how far an output may be from `target`, from which eager PyTorch in `dtype` is `eager` off."""
    multiplier, tolerance = RULES[dtype]
    if target.size < FEW_ELEMENTS:
        multiplier = FEW_ELEMENTS_MULTIPLIER
    return multiplier * eager + tolerance / 10 * root_mean_square(target)


def _record(
    verdict: str, reference: Reference, batch_size: int, compared: int, worst: Error | None = None
) -> Correctness:
    if worst is None:
        return Correctness(batch_size, verdict, reference.name, None, None, None, None, compared)
    return Correctness(
        batch_size,
        verdict,
        reference.name,
        worst.rmse,
        worst.eager,
        worst.allowed,
        worst.max_abs,
        compared,
    )
