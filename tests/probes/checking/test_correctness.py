"""The rule that decides whether an output is right, at its threshold and in the cases that a laxer rule would wave through."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import numpy as np
import pytest

from probes.checking import correctness
from probes.checking.correctness import Reference

ELEMENTS = 4096
#: Error of eager PyTorch in the tests, as a share of the outputs' size.
EAGER = 1e-3


def outputs(number: int, elements: int = ELEMENTS) -> Any:
    return np.random.default_rng([7, number]).standard_normal(elements)


def refer(expected: list[list[Any]], eager: float = EAGER) -> Reference:
    """A reference against which eager PyTorch is `eager` off in every output."""
    produced = [[output + eager for output in outputs] for outputs in expected]
    return correctness.create_reference(
        "float64", expected, produced, [[np.zeros(1)]] * len(expected)
    )


def judge(
    reference: Reference, produced: list[list[Any]], dtype: str = "float32"
) -> tuple[str, str]:
    """Return the verdict and the reason."""
    record, reason = correctness.judge(reference, produced, dtype, 1)
    return record.verdict, reason or ""


def allowed(output: Any, dtype: str, multiplier: float, eager: float = EAGER) -> float:
    """The rule as the documentation words it."""
    tolerance = {"float64": 1e-6, "float32": 1e-4, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
    return multiplier * eager + tolerance / 10 * math.sqrt((output**2).mean())


@pytest.mark.parametrize(
    ("dtype", "multiplier"),
    [("float64", 2.0), ("float32", 2.0), ("float16", 3.0), ("bfloat16", 3.0)],
)
@pytest.mark.parametrize(("share", "verdict"), [(0.999, "equivalent"), (1.001, "wrong")])
def test_an_output_passes_up_to_what_the_rule_allows(
    dtype: str, multiplier: float, share: float, verdict: str
) -> None:
    right = outputs(0)
    produced = [[right + share * allowed(right, dtype, multiplier)]]
    record, reason = correctness.judge(refer([[right]]), produced, dtype, 16)
    assert record.verdict == verdict
    assert (reason is None) == (verdict == "equivalent")
    assert record.rmse == pytest.approx(share * allowed(right, dtype, multiplier))
    assert record.rmse_eager == pytest.approx(EAGER)
    assert record.allowed == pytest.approx(allowed(right, dtype, multiplier))
    assert record.max_abs == pytest.approx(record.rmse)
    assert (record.batch_size, record.reference, record.compared_elements) == (
        16,
        "float64",
        ELEMENTS,
    )


@pytest.mark.parametrize(("share", "verdict"), [(0.999, "equivalent"), (1.001, "wrong")])
def test_an_exact_eager_still_leaves_room_for_rounding(share: float, verdict: str) -> None:
    right = outputs(0)
    produced = [[right + share * allowed(right, "float32", 2.0, eager=0.0)]]
    assert judge(refer([[right]], eager=0.0), produced)[0] == verdict


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e9])
@pytest.mark.parametrize(("share", "verdict"), [(0.999, "equivalent"), (1.001, "wrong")])
def test_a_models_scale_changes_no_verdict(scale: float, share: float, verdict: str) -> None:
    right = outputs(0)
    produced = right + share * allowed(right, "float32", 2.0)
    assert judge(refer([[right * scale]], eager=EAGER * scale), [[produced * scale]])[0] == verdict


@pytest.mark.parametrize(("elements", "multiplier"), [(10, 10.0), (999, 10.0), (1000, 2.0)])
@pytest.mark.parametrize(("share", "verdict"), [(0.999, "equivalent"), (1.001, "wrong")])
def test_averages_over_few_elements_may_scatter_more(
    elements: int, multiplier: float, share: float, verdict: str
) -> None:
    right = outputs(0, elements)
    produced = [[right + share * allowed(right, "float32", multiplier)]]
    assert judge(refer([[right]]), produced)[0] == verdict


def test_zeros_that_are_exact_pass_and_others_do_not() -> None:
    zeros = np.zeros(ELEMENTS)
    assert judge(refer([[zeros]], eager=0.0), [[zeros]])[0] == "equivalent"
    assert judge(refer([[zeros]], eager=0.0), [[zeros + 1e-30]])[0] == "wrong"


def test_one_wrong_output_among_right_ones_is_enough() -> None:
    expected = [[outputs(0), outputs(1)], [outputs(2), outputs(3)]]
    produced = [[outputs(0), outputs(1)], [outputs(2), outputs(3) + 1.0]]
    verdict, reason = judge(refer(expected), produced)
    assert verdict == "wrong"
    assert "1.00e+00" in reason
    assert judge(refer(expected), expected)[0] == "equivalent"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_single_element_that_is_no_number_is_wrong(bad: float) -> None:
    produced = outputs(0)
    produced[17] = bad
    assert judge(refer([[outputs(0)]]), [[produced]]) == ("wrong", "it returns NaN or infinity")


@pytest.mark.parametrize(
    "produced",
    [[outputs(0)[:-1]], [outputs(0), outputs(0)], []],
    ids=["fewer elements", "one more", "none"],
)
def test_outputs_of_other_shapes_are_wrong(produced: list[Any]) -> None:
    verdict, reason = judge(refer([[outputs(0)]]), [produced])
    assert verdict == "wrong"
    assert "other shapes" in reason


def test_a_program_that_remembers_its_first_output_is_found_out() -> None:
    verdict, reason = judge(refer([[outputs(0)], [outputs(1)]]), [[outputs(0)], [outputs(0)]])
    assert (verdict, reason) == ("wrong", "it returns the same output for every input")


def test_a_model_whose_output_is_always_the_same_may_return_it() -> None:
    assert (
        judge(refer([[outputs(0)], [outputs(0)]]), [[outputs(0)], [outputs(0)]])[0] == "equivalent"
    )


def test_a_small_output_is_compared_as_a_whole() -> None:
    array: Any = np.arange(24, dtype="float32").reshape(2, 3, 4)
    sampled = correctness.sample(array)
    assert sampled.dtype == np.float64
    assert sampled.tolist() == list(range(24))


@pytest.mark.parametrize(
    "shape",
    [
        (2048, 1024),
        (2048, 768),  # three times a power of two, as many hidden sizes are
        (16, 128, 3072),
        (1500, 1280),
        (300, 30522),
        (35, 45045),  # 3 * 5 * 7 * 9 * 11 * 13
        (1049, 1051),
    ],
    ids=str,
)
def test_a_large_output_is_thinned_without_missing_a_row_or_a_column(
    shape: tuple[int, ...],
) -> None:
    *_, columns = shape
    rows = math.prod(shape) // columns
    places: Any = np.arange(rows * columns, dtype="float64").reshape(shape)
    sampled = correctness.sample(places)
    assert correctness.MOST_ELEMENTS / 4 < sampled.size <= correctness.MOST_ELEMENTS
    assert np.unique(sampled % columns).size == columns
    assert np.unique(sampled // columns).size == rows


@pytest.mark.parametrize("column", [0, 1, 2, 767])
def test_one_wrong_column_of_a_large_output_is_seen(column: int) -> None:
    right = np.random.default_rng(3).standard_normal((2048, 768)).astype("float32")
    produced = right.copy()
    produced[:, column] += 1.0
    assert judge(refer([[right]]), [[produced]])[0] == "wrong"


def a_reference() -> Reference:
    """More sets and places than one digit counts."""
    inputs = [[np.arange(3) + number, np.float32(number)] for number in range(12)]
    expected = [
        [outputs(10 * number + place, elements=5) for place in range(11)] for number in range(12)
    ]
    return Reference(
        "float64",
        inputs,
        expected,
        [[0.1 * number + place for place in range(11)] for number in range(12)],
    )


def test_a_reference_comes_back_as_it_was_saved(tmp_path: pathlib.Path) -> None:
    saved = a_reference()
    correctness.save_reference(saved, tmp_path / "reference-1.npz")
    loaded = correctness.load_reference(tmp_path / "reference-1.npz")
    assert (loaded.name, loaded.eager_errors) == (saved.name, saved.eager_errors)
    for kept, given in ((loaded.inputs, saved.inputs), (loaded.expected, saved.expected)):
        for kept_arrays, given_arrays in zip(kept, given, strict=True):
            for one, other in zip(kept_arrays, given_arrays, strict=True):
                assert one.dtype == other.dtype
                assert np.array_equal(one, other)
    assert [file.name for file in tmp_path.iterdir()] == ["reference-1.npz"]


def test_a_reference_replaces_another_without_touching_what_is_being_read(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "reference-1.npz"
    file.write_bytes(b"an older one")
    with file.open("rb") as being_read:
        correctness.save_reference(a_reference(), file)
        assert being_read.read() == b"an older one"
    assert correctness.load_reference(file).name == "float64"


def test_a_reference_that_cannot_be_written_whole_is_not_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(file: pathlib.Path, **arrays: Any) -> None:
        file.write_bytes(b"half")
        raise OSError(len(arrays), "No space left on device")

    monkeypatch.setattr(np, "savez", fill_the_disk)
    with pytest.raises(OSError, match="No space"):
        correctness.save_reference(a_reference(), tmp_path / "reference-1.npz")
    assert not (tmp_path / "reference-1.npz").exists()


def test_a_reference_that_holds_code_is_not_opened(tmp_path: pathlib.Path) -> None:
    arrays = {
        "name": np.array("float64"),
        "sets": np.array(1),
        "errors-0": np.array([0.0]),
        "input-0-0": np.array([print], dtype=object),
    }
    np.savez(tmp_path / "reference-1.npz", **arrays)
    with pytest.raises(ValueError, match="allow_pickle"):
        correctness.load_reference(tmp_path / "reference-1.npz")
