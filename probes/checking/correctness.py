"""Check the outputs of a forward pass before any timing: a wrong program gets no time.

The reference is the model in higher precision (`float64`, or `float32` where that does not fit). An
output passes if its root mean square error against the reference is at most `multiplier` times that
of eager PyTorch in the tested precision, plus a tenth of the tolerance times the root mean square
of the reference. The rule is that of PyTorch's compiler tests (`torch/_dynamo/utils.py`, `same`);
the scaled tolerance is added because an absolute one accepts anything from a model with small
values.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from probes.adapter import ModelError
from probes.partial_file import replace_when_complete
from probes.protocol import Correctness

#: Multiplier and tolerance by tested precision. The multipliers are those of PyTorch's compiler
#: tests.
RULES = {
    "float64": (2.0, 1e-6),
    "float32": (2.0, 1e-4),
    "float16": (3.0, 1e-3),
    "bfloat16": (3.0, 1e-2),
}
#: The error of a small output varies more, so PyTorch's rule allows more.
FEW_ELEMENTS = 1000
FEW_ELEMENTS_MULTIPLIER = 10.0
#: The number of elements that are compared. A larger output is sampled with a fixed stride.
MAX_ELEMENTS = 1 << 20


@dataclasses.dataclass(frozen=True)
class Reference:
    """What the reference worker provides for all others, for one batch size."""

    #: The precision of the reference, such as `float64`.
    name: str
    #: By input set, the model's arguments as numpy arrays.
    inputs: list[list[Any]]
    #: By input set and output, the sampled expected values: `(elements,) float64`.
    expected: list[list[Any]]
    #: By input set and output, eager PyTorch's root mean square error in the tested precision.
    eager_errors: list[list[float]]


def sample(array: Any) -> Any:
    """Return at most `MAX_ELEMENTS` values of `array` as `(elements,) float64`.

    The stride is coprime to the size, so that it meets every row and every column.
    """
    flat = array.reshape(-1)
    if flat.size > MAX_ELEMENTS:
        stride = flat.size // MAX_ELEMENTS + 1
        while math.gcd(stride, flat.size) > 1:
            stride += 1
        flat = flat[::stride]
    return flat.astype("float64")


def root_mean_square(array: Any) -> float:
    """Return the root mean square of a float64 array; 0 for an empty one."""
    return math.sqrt(float((array * array).mean())) if array.size else 0.0


def create_reference(
    name: str, exact: Iterable[list[Any]], produced: Iterable[list[Any]], inputs: list[list[Any]]
) -> Reference:
    """Return the reference called `name` with the errors of eager PyTorch.

    `exact` are the reference's outputs and `produced` eager PyTorch's, both by input set and output
    as numpy arrays of any shape and dtype. Raise `ModelError` where one of them is not finite.
    """
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
    """Write `reference` as a numpy archive without pickles, atomically."""
    import numpy as np  # noqa: PLC0415 - the core is importable without any stack

    arrays: dict[str, Any] = {
        "name": np.array(reference.name),
        "sets": np.array(len(reference.inputs)),
    }
    for number, (arguments, outputs, errors) in enumerate(
        zip(reference.inputs, reference.expected, reference.eager_errors, strict=True)
    ):
        arrays |= {f"input-{number}-{index}": array for index, array in enumerate(arguments)}
        arrays |= {f"expected-{number}-{index}": array for index, array in enumerate(outputs)}
        arrays[f"errors-{number}"] = np.array(errors)
    with replace_when_complete(file) as partial:
        np.savez(partial, **arrays)


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
        archive[f"{prefix}{index}"]
        for index in range(sum(name.startswith(prefix) for name in archive.files))
    ]


@dataclasses.dataclass(frozen=True)
class OutputError:
    """The error of one output against its reference, with what is allowed."""

    #: `rmse` over `allowed`; above 1 the output is wrong.
    share_of_allowed: float
    rmse: float
    eager_rmse: float
    allowed: float
    max_abs: float


def check_outputs(
    reference: Reference, produced: Iterable[Sequence[Any]], dtype: str, batch_size: int
) -> tuple[Correctness, str | None]:
    """Compare the outputs of each input set with the reference.

    `produced` has, by input set and output, numpy arrays of the model's shapes in any dtype. Return
    the record and, for wrong outputs, the reason.
    """
    errors: list[OutputError] = []
    first_outputs: list[Any] = []
    compared = 0
    for outputs, expected, eager in zip(
        produced, reference.expected, reference.eager_errors, strict=True
    ):
        samples = [sample(output) for output in outputs]
        if [array.size for array in samples] != [target.size for target in expected]:
            shapes = ", ".join(str(output.shape) for output in outputs)
            reason = f"it returns outputs of other shapes than the model: {shapes}"
            return _record("wrong", reference, batch_size, compared), reason
        compared += sum(array.size for array in samples)
        first_outputs.append(samples[0])
        errors += [
            measure_error(*each, dtype) for each in zip(samples, expected, eager, strict=True)
        ]
        if not all(math.isfinite(error.rmse) for error in errors):
            return _record("wrong", reference, batch_size, compared), "it returns NaN or infinity"
    worst = max(errors, key=lambda error: error.share_of_allowed)
    if worst.share_of_allowed <= 1.0:
        return _record("equivalent", reference, batch_size, compared, worst), None
    record = _record("wrong", reference, batch_size, compared, worst)
    first, *others = first_outputs
    if others and all((other == first).all() for other in others):
        return record, "it returns the same output for every input"
    return record, (
        f"its error {worst.rmse:.2e} (root mean square against {reference.name}) is above the"
        f" allowed {worst.allowed:.2e}"
    )


def measure_error(values: Any, target: Any, eager_error: float, dtype: str) -> OutputError:
    """Return the error of one output and what the rule allows in `dtype`.

    `values` and `target` are `(elements,) float64`; `eager_error` is eager PyTorch's root mean
    square error.
    """
    difference = values - target
    allowed = allowed_error(target, eager_error, dtype)
    rmse = root_mean_square(difference)
    share = rmse / allowed if allowed else math.inf if rmse else 0.0
    max_abs = float(abs(difference).max()) if difference.size else 0.0
    return OutputError(share, rmse, eager_error, allowed, max_abs)


def allowed_error(target: Any, eager_error: float, dtype: str) -> float:
    """Return the root mean square error that the rule allows against `target` in `dtype`.

    `target` is `(elements,) float64`; `eager_error` is eager PyTorch's error against it.
    """
    multiplier, tolerance = RULES[dtype]
    if target.size < FEW_ELEMENTS:
        multiplier = FEW_ELEMENTS_MULTIPLIER
    return multiplier * eager_error + tolerance / 10 * root_mean_square(target)


def _record(
    verdict: str,
    reference: Reference,
    batch_size: int,
    compared: int,
    worst: OutputError | None = None,
) -> Correctness:
    return Correctness(
        batch_size,
        verdict,
        reference.name,
        rmse=worst.rmse if worst else None,
        rmse_eager=worst.eager_rmse if worst else None,
        allowed=worst.allowed if worst else None,
        max_abs=worst.max_abs if worst else None,
        compared_elements=compared,
    )
