"""The rule for correct outputs, at its threshold and in cases that a laxer rule would accept."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import numpy as np
import pytest

from probes.checking import correctness
from probes.checking.correctness import Reference

ELEMENTS = 4096
#: Error of eager PyTorch in the tests; the outputs have unit variance.
EAGER = 1e-3


def outputs(number: int, elements: int = ELEMENTS) -> Any:
    return np.random.default_rng([7, number]).standard_normal(elements)


def make_reference(expected: list[list[Any]], eager: float = EAGER) -> Reference:
    """Return a reference against which eager PyTorch has the error `eager` in every output."""
    produced = [[output + eager for output in outputs] for outputs in expected]
    return correctness.create_reference(
        "float64", expected, produced, [[np.zeros(1)]] * len(expected)
    )


def check(
    reference: Reference, produced: list[list[Any]], dtype: str = "float32"
) -> tuple[str, str]:
    """Return the verdict and the reason."""
    record, reason = correctness.check_outputs(reference, produced, dtype, 1)
    return record.verdict, reason or ""


def allowed(output: Any, dtype: str, multiplier: float, eager: float = EAGER) -> float:
    """Return the allowed error by the documented formula."""
    tolerance = {"float64": 1e-6, "float32": 1e-4, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
    return multiplier * eager + tolerance / 10 * math.sqrt((output**2).mean())


@pytest.mark.parametrize(
    ("dtype", "multiplier"),
    [("float64", 2.0), ("float32", 2.0), ("float16", 3.0), ("bfloat16", 3.0)],
)
@pytest.mark.parametrize(("share", "verdict"), [(0.999, "equivalent"), (1.001, "wrong")])
def test_an_output_passes_up_to_the_allowed_error(
    dtype: str, multiplier: float, share: float, verdict: str
) -> None:
    expected_output = outputs(0)
    produced = [[expected_output + share * allowed(expected_output, dtype, multiplier)]]
    record, reason = correctness.check_outputs(
        make_reference([[expected_output]]), produced, dtype, 16
    )
    assert record.verdict == verdict
    assert (reason is None) == (verdict == "equivalent")
    assert record.rmse == pytest.approx(share * allowed(expected_output, dtype, multiplier))
    assert record.rmse_eager == pytest.approx(EAGER)
    assert record.allowed == pytest.approx(allowed(expected_output, dtype, multiplier))
    assert record.max_abs == pytest.approx(record.rmse)
    assert (record.batch_size, record.reference, record.compared_elements) == (
        16,
        "float64",
        ELEMENTS,
    )


@pytest.mark.parametrize(("share", "verdict"), [(0.999, "equivalent"), (1.001, "wrong")])
def test_rounding_is_allowed_where_eager_is_exact(share: float, verdict: str) -> None:
    expected_output = outputs(0)
    produced = [[expected_output + share * allowed(expected_output, "float32", 2.0, eager=0.0)]]
    assert check(make_reference([[expected_output]], eager=0.0), produced)[0] == verdict


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e9])
@pytest.mark.parametrize(("share", "verdict"), [(0.999, "equivalent"), (1.001, "wrong")])
def test_the_scale_of_a_model_does_not_change_the_verdict(
    scale: float, share: float, verdict: str
) -> None:
    expected_output = outputs(0)
    produced = expected_output + share * allowed(expected_output, "float32", 2.0)
    assert (
        check(
            make_reference([[expected_output * scale]], eager=EAGER * scale), [[produced * scale]]
        )[0]
        == verdict
    )


@pytest.mark.parametrize(("elements", "multiplier"), [(10, 10.0), (999, 10.0), (1000, 2.0)])
@pytest.mark.parametrize(("share", "verdict"), [(0.999, "equivalent"), (1.001, "wrong")])
def test_a_small_output_may_have_a_larger_error(
    elements: int, multiplier: float, share: float, verdict: str
) -> None:
    expected_output = outputs(0, elements)
    produced = [[expected_output + share * allowed(expected_output, "float32", multiplier)]]
    assert check(make_reference([[expected_output]]), produced)[0] == verdict


def test_an_output_of_zeros_must_be_exact() -> None:
    zeros = np.zeros(ELEMENTS)
    assert check(make_reference([[zeros]], eager=0.0), [[zeros]])[0] == "equivalent"
    assert check(make_reference([[zeros]], eager=0.0), [[zeros + 1e-30]])[0] == "wrong"


def test_one_wrong_output_among_correct_ones_is_wrong() -> None:
    expected = [[outputs(0), outputs(1)], [outputs(2), outputs(3)]]
    produced = [[outputs(0), outputs(1)], [outputs(2), outputs(3) + 1.0]]
    verdict, reason = check(make_reference(expected), produced)
    assert verdict == "wrong"
    assert "1.00e+00" in reason
    assert check(make_reference(expected), expected)[0] == "equivalent"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_single_non_finite_element_is_wrong(bad: float) -> None:
    produced = outputs(0)
    produced[17] = bad
    assert check(make_reference([[outputs(0)]]), [[produced]]) == (
        "wrong",
        "it returns NaN or infinity",
    )


@pytest.mark.parametrize(
    "produced",
    [[outputs(0)[:-1]], [outputs(0), outputs(0)], []],
    ids=["fewer elements", "one more", "none"],
)
def test_outputs_of_other_shapes_are_wrong(produced: list[Any]) -> None:
    verdict, reason = check(make_reference([[outputs(0)]]), [produced])
    assert verdict == "wrong"
    assert "other shapes" in reason


def test_the_same_output_for_every_input_is_wrong() -> None:
    verdict, reason = check(
        make_reference([[outputs(0)], [outputs(1)]]), [[outputs(0)], [outputs(0)]]
    )
    assert (verdict, reason) == ("wrong", "it returns the same output for every input")


def test_the_same_output_is_correct_for_a_constant_model() -> None:
    assert (
        check(make_reference([[outputs(0)], [outputs(0)]]), [[outputs(0)], [outputs(0)]])[0]
        == "equivalent"
    )


def test_a_small_output_is_compared_completely() -> None:
    array: Any = np.arange(24, dtype="float32").reshape(2, 3, 4)
    sampled = correctness.sample(array)
    assert sampled.dtype == np.float64
    assert sampled.tolist() == list(range(24))


@pytest.mark.parametrize(
    "shape",
    [
        (2048, 1024),
        (2048, 768),  # three times a power of two, like many hidden sizes
        (16, 128, 3072),
        (1500, 1280),
        (300, 30522),
        (35, 45045),  # 3 * 5 * 7 * 9 * 11 * 13
        (1049, 1051),
    ],
    ids=str,
)
def test_a_large_output_is_sampled_in_every_row_and_column(
    shape: tuple[int, ...],
) -> None:
    *_, columns = shape
    rows = math.prod(shape) // columns
    positions: Any = np.arange(rows * columns, dtype="float64").reshape(shape)
    sampled = correctness.sample(positions)
    assert correctness.MAX_ELEMENTS / 4 < sampled.size <= correctness.MAX_ELEMENTS
    assert np.unique(sampled % columns).size == columns
    assert np.unique(sampled // columns).size == rows


@pytest.mark.parametrize("column", [0, 1, 2, 767])
def test_one_wrong_column_of_a_large_output_is_wrong(column: int) -> None:
    expected_output = np.random.default_rng(3).standard_normal((2048, 768)).astype("float32")
    produced = expected_output.copy()
    produced[:, column] += 1.0
    assert check(make_reference([[expected_output]]), [[produced]])[0] == "wrong"


def large_reference() -> Reference:
    """Return a reference with more than ten input sets, each with more than ten outputs."""
    inputs = [[np.arange(3) + number, np.float32(number)] for number in range(12)]
    expected = [
        [outputs(10 * number + index, elements=5) for index in range(11)] for number in range(12)
    ]
    return Reference(
        "float64",
        inputs,
        expected,
        [[0.1 * number + index for index in range(11)] for number in range(12)],
    )


def test_a_reference_is_loaded_as_it_was_saved(tmp_path: pathlib.Path) -> None:
    saved = large_reference()
    correctness.save_reference(saved, tmp_path / "reference-1.npz")
    loaded = correctness.load_reference(tmp_path / "reference-1.npz")
    assert (loaded.name, loaded.eager_errors) == (saved.name, saved.eager_errors)
    for loaded_sets, saved_sets in (
        (loaded.inputs, saved.inputs),
        (loaded.expected, saved.expected),
    ):
        for loaded_arrays, saved_arrays in zip(loaded_sets, saved_sets, strict=True):
            for one, other in zip(loaded_arrays, saved_arrays, strict=True):
                assert one.dtype == other.dtype
                assert np.array_equal(one, other)
    assert [file.name for file in tmp_path.iterdir()] == ["reference-1.npz"]


def test_a_reference_is_replaced_atomically(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "reference-1.npz"
    file.write_bytes(b"an older one")
    with file.open("rb") as open_file:
        correctness.save_reference(large_reference(), file)
        assert open_file.read() == b"an older one"
    assert correctness.load_reference(file).name == "float64"


def test_a_reference_that_cannot_be_written_completely_does_not_exist(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(file: pathlib.Path, **arrays: Any) -> None:
        file.write_bytes(b"half")
        raise OSError(len(arrays), "No space left on device")

    monkeypatch.setattr(np, "savez", fill_the_disk)
    with pytest.raises(OSError, match="No space"):
        correctness.save_reference(large_reference(), tmp_path / "reference-1.npz")
    assert not (tmp_path / "reference-1.npz").exists()


def test_a_reference_with_pickled_objects_is_refused(tmp_path: pathlib.Path) -> None:
    arrays = {
        "name": np.array("float64"),
        "sets": np.array(1),
        "errors-0": np.array([0.0]),
        "input-0-0": np.array([print], dtype=object),
    }
    np.savez(tmp_path / "reference-1.npz", **arrays)
    with pytest.raises(ValueError, match="allow_pickle"):
        correctness.load_reference(tmp_path / "reference-1.npz")
