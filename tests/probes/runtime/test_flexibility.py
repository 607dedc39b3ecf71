"""Batch sizes that a program was not built for."""

from __future__ import annotations

import itertools
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from workers import FakeProgram, rules

from probes.checking.array_reference import create_reference
from probes.checking.program_cell import ProgramCell
from probes.checking.stored_reference import Reference
from probes.runtime import flexibility
from probes.shape import Shape

MATRIX = np.random.default_rng(0).standard_normal((8, 8)).astype("float32")
BUILT = 4


WORKFLOW = types.SimpleNamespace(synchronise=lambda: None)


def reference() -> Reference:
    inputs = [
        [np.random.default_rng(number).standard_normal((BUILT, 8)).astype("float32")]
        for number in range(2)
    ]
    exact = [[one[0].astype("float64") @ MATRIX.astype("float64")] for one in inputs]
    return create_reference("float64", exact, [[one[0] @ MATRIX] for one in inputs], inputs)


@pytest.mark.parametrize(("turned", "is_wrong"), [(1, False), (5, True)])
def test_an_index_at_a_near_tie_is_no_wrong_output_of_a_new_size(
    turned: int, is_wrong: bool
) -> None:
    labels = [[np.arange(BUILT)] for _ in range(2)]
    known = create_reference("float64", labels, labels, [[np.zeros(1)]] * 2)
    found = np.arange(9.0)
    found[:turned] += 500
    reason = flexibility.find_difference([found], [np.arange(9.0)], known, rules("bfloat16"))
    assert (reason is not None) == is_wrong


def try_size(size: int, change: Callable[[Any], Any] = lambda output: output) -> Any:
    """Try a program that multiplies by a matrix and then changes the output."""
    program = FakeProgram(lambda values: change(values @ MATRIX))
    cell = ProgramCell(WORKFLOW, Shape(BUILT), program, [], reference(), rules())
    return flexibility.of_batch_size(cell, size).call()


@pytest.mark.parametrize(
    ("built", "tried"),
    [
        ([1], [2, 3]),
        ([2], [1, 3, 4]),
        ([1, 16], [2, 3, 17, 32]),
        ([1, 2, 3, 4], [5, 8]),
        ([64], [1, 2, 3, 65, 128]),
    ],
)
def test_small_sizes_and_sizes_above_the_largest_are_tried(
    built: list[int], tried: list[int]
) -> None:
    assert flexibility.new_batch_sizes(built) == tried


def test_rows_are_repeated_for_a_larger_batch() -> None:
    array = np.arange(6).reshape(3, 2)
    (five,) = flexibility.take_rows([array], 5)
    assert five.tolist() == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3]]
    assert flexibility.take_rows([array], 2)[0].tolist() == [[0, 1], [2, 3]]


def test_arrays_are_batched_if_their_first_dimension_is_the_batch() -> None:
    assert flexibility.is_batched([np.zeros((4, 2)), np.zeros(4)], 4)
    assert not flexibility.is_batched([np.zeros((4, 2)), np.zeros((2, 4))], 4)
    assert not flexibility.is_batched([np.zeros(())], 1)


@pytest.mark.parametrize("size", [1, 3, 5, 8])
def test_a_program_that_is_correct_for_any_batch_serves_it(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flexibility, "STALL_SECONDS", math.inf)  # however busy the machine is
    result = try_size(size)
    assert (result.shape.batch_size, result.outcome, result.reason) == (size, "served", None)
    assert result.first_call_seconds > 0
    assert result.steady_seconds > 0


@pytest.mark.parametrize(
    ("size", "change", "reason"),
    [
        (3, lambda output: output + 0.1, "above the allowed"),
        (3, lambda output: output * np.nan, "above the allowed"),
        (2 * BUILT, lambda output: output[:BUILT], "other shapes"),
        (2 * BUILT, lambda output: np.pad(output, ((0, BUILT), (0, 0))), "other shapes"),
    ],
    ids=["values", "NaN", "too few rows", "too many rows"],
)
def test_outputs_that_differ_from_those_of_the_built_rows_are_wrong(
    size: int, change: Callable[[Any], Any], reason: str
) -> None:
    result = try_size(size, lambda output: change(output) if len(output) != BUILT else output)
    assert result.outcome == "wrong"
    assert reason in result.reason


def replace_times(
    monkeypatch: pytest.MonkeyPatch, first: Sequence[float], steady: float, waited: float = 0.0
) -> list[float]:
    """Let calls take these seconds, and the first one wait for a processor.

    Return the list that receives the seconds of the calls made.
    """
    times, made = itertools.chain(first, itertools.repeat(steady)), list[float]()
    queue, real = iter((1.0, 1.0 + waited)), flexibility._time_call

    def timed(*called: Any) -> tuple[float, Any]:
        made.append(next(times))
        return made[-1], real(*called)[1]

    monkeypatch.setattr(flexibility, "_time_call", timed)
    monkeypatch.setattr(flexibility, "run_queue_seconds", lambda: next(queue))
    return made


@pytest.mark.parametrize(
    ("first", "steady", "waited", "counted", "outcome"),
    [
        (0.3, 0.01, 0.0, 0.3, "stalled"),
        (0.2, 0.001, 0.0, 0.2, "served"),
        (0.3, 0.031, 0.0, 0.3, "served"),
        (5.0, 0.4, 0.0, 5.0, "stalled"),
        (0.01, 0.01, 0.0, 0.01, "served"),
        # A wait for a processor is no stall.
        (0.4, 0.01, 0.3, 0.1, "served"),
        (0.4, 0.01, 0.5, 0.01, "served"),
    ],
)
def test_a_stall_is_long_and_much_longer_than_the_steady_calls(
    monkeypatch: pytest.MonkeyPatch,
    first: float,
    steady: float,
    waited: float,
    counted: float,
    outcome: str,
) -> None:
    replace_times(monkeypatch, [first], steady, waited)
    result = try_size(3)
    assert (result.outcome, result.steady_seconds) == (outcome, steady)
    assert result.first_call_seconds == pytest.approx(counted)


@pytest.mark.parametrize(
    ("slow", "seconds", "fastest", "calls"),
    [(10, 0.01, 0.002, 30), (0, 0.002, 0.002, 30), (10, 0.1, 0.1, 3)],
)
def test_a_burst_of_load_does_not_show_in_short_calls(
    monkeypatch: pytest.MonkeyPatch, slow: int, seconds: float, fastest: float, calls: int
) -> None:
    """The first `slow` calls take `seconds` each, and the others two milliseconds."""
    made = replace_times(monkeypatch, [1.0, *[seconds] * slow], 0.002)
    result = try_size(3)
    assert (result.first_call_seconds, result.steady_seconds) == (1.0, fastest)
    assert len(made) == 1 + calls


@pytest.mark.parametrize("built", [1, 2, 3, 4, 31, 32, 128])
def test_the_new_length_is_another_one_and_never_1(built: int) -> None:
    length = flexibility.new_input_tokens(built)
    assert length != built
    assert length > 1
    assert length < built or built <= 2


def test_only_the_dimension_with_the_length_is_resized() -> None:
    tokens, mask, image = (np.zeros(shape) for shape in ((2, 8), (2, 8, 3), (2, 3, 8)))
    loaded_model = pytest.importorskip("probes.subjects.loaded_model")
    resized = loaded_model.resize([tokens, mask, image], 8, 5)
    assert [array.shape for array in resized] == [(2, 5), (2, 5, 3), (2, 3, 8)]
