"""The stored reference: what is kept, and that it is complete or absent."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import types
from typing import Any

import numpy as np
import pytest
import workers

from probes import arrays
from probes.adapter import Findings, ModelError, Workflow
from probes.checking import array_reference, correctness, output_check, stored_reference
from probes.checking.array_reference import create_reference
from probes.checking.deviation import Deviation
from probes.checking.output_check import repeat
from probes.checking.program_cell import ProgramCell
from probes.checking.stored_reference import ExpectedOutput, Keys, Reference
from probes.runtime.cells import repeat_limits
from probes.shape import Shape


def outputs(number: int, elements: int) -> Any:
    return np.random.default_rng([7, number]).standard_normal(elements)


FINDINGS = Findings(unseen=("Boxes",), draws=True)


def large_reference() -> Reference:
    """Return a reference with more than ten input sets, each with more than ten outputs."""
    inputs = [[np.arange(3) + number, np.float32(number)] for number in range(12)]
    expected = [
        [
            ExpectedOutput(
                outputs(10 * number + index, elements=6),
                (2, 3),
                index % 2 == 0,
                Deviation(0.1 * number + index, 0.2, 0.3, 0.4, 0.5, 0.6),
                Deviation(0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
                np.array([1, 2]) if index == 1 else None,
                0.5 if index == 1 else None,
                np.array([True, False] * 3) if index == 2 else None,
                Keys(np.ones((2, 9)), None if index == 3 else 1) if index in {3, 4} else None,
            )
            for index in range(11)
        ]
        for number in range(12)
    ]
    return Reference("float64", inputs, expected, {3: "random"}, FINDINGS, perturbations=2)


def test_a_reference_is_loaded_as_it_was_saved(tmp_path: pathlib.Path) -> None:
    saved = large_reference()
    arrays.save(tmp_path / "reference-1.npz", saved)
    loaded = stored_reference.load_reference(tmp_path / "reference-1.npz")
    assert (loaded.name, loaded.perturbations) == ("float64", 2)
    assert (loaded.uncompared, loaded.findings) == ({3: "random"}, FINDINGS)
    for ones, others in zip(loaded.inputs, saved.inputs, strict=True):
        for one, other in zip(ones, others, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
    for found, kept in zip(loaded.outputs, saved.outputs, strict=True):
        for one, other in zip(found, kept, strict=True):
            assert np.array_equal(one.values, other.values)
            assert (one.shape, one.is_float) == (other.shape, other.is_float)
            assert (one.eager, one.envelope) == (other.eager, other.envelope)
            assert (one.top is None) == (other.top is None)
            assert one.eager_top1 == other.eager_top1
            assert np.array_equal(one.left_out, other.left_out)
            assert (one.keys and one.keys.axis) == (other.keys and other.keys.axis)
            if one.keys and other.keys:
                assert np.array_equal(one.keys.rows, other.keys.rows)
    assert [file.name for file in tmp_path.iterdir()] == ["reference-1.npz"]


def test_a_reference_that_cannot_be_written_completely_does_not_exist(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(file: pathlib.Path, **arrays: Any) -> None:
        file.write_bytes(b"half")
        raise OSError(len(arrays), "No space left on device")

    monkeypatch.setattr(np, "savez", fill_the_disk)
    with pytest.raises(OSError, match="No space"):
        arrays.save(tmp_path / "reference-1.npz", large_reference())
    assert not (tmp_path / "reference-1.npz").exists()


def test_a_reference_with_pickled_objects_is_refused(tmp_path: pathlib.Path) -> None:
    inputs = [[np.array([print], dtype=object)]]
    arrays.save(tmp_path / "reference-1.npz", Reference("float64", inputs, []))
    with pytest.raises(ValueError, match="allow_pickle"):
        stored_reference.load_reference(tmp_path / "reference-1.npz")


def test_the_envelope_keeps_the_largest_of_each_measure() -> None:
    (expected,) = array_reference.create_reference(
        "float64", [[np.ones((2, 32))]], [[np.ones((2, 32))]], [[]]
    ).outputs
    for change in (1e-3, 1e-4, np.nan):
        expected = array_reference.widen(expected, [np.ones((2, 32)) + change])
    assert expected[0].envelope.rmse == pytest.approx(1e-3)
    assert expected[0].envelope.worst == pytest.approx(1e-3)


@pytest.mark.parametrize(("perturbations", "envelope"), [(0, None), (1, pytest.approx(1e-3))])
def test_the_envelope_is_recorded_if_there_were_perturbations(
    perturbations: int, envelope: object
) -> None:
    found: Any = [[2 * np.ones((2, 32))]]
    reference = array_reference.create_reference("float64", found, found, [[]])
    widened = array_reference.widen(reference.outputs[0], [found[0][0] * 1.001])
    reference = dataclasses.replace(reference, outputs=[widened], perturbations=perturbations)
    checked, _ = correctness.check_outputs(reference, found, workers.rules(), Shape(2))
    assert checked.accuracy.envelope == envelope


@pytest.mark.parametrize("counts", [([1, 2], [1, 2]), ([1], [2])])
def test_outputs_must_not_vary_in_number(counts: tuple[list[int], list[int]]) -> None:
    exact, produced = ([[TARGET] * count for count in each] for each in counts)
    with pytest.raises(ModelError):
        create_reference("float64", exact, produced, [[]] * len(exact))
    with pytest.raises(ModelError):
        array_reference.widen(reference().outputs[0], [TARGET, TARGET])


LIMITS = {"calls": 30, "most_calls": 40, "seconds": 60.0, "least_calls": 3, "most_seconds": 60.0}
TARGET = np.random.default_rng(0).standard_normal((8, 64))


def reference() -> Reference:
    return create_reference("float64", [[TARGET]], [[TARGET + 1e-6]], [[]])


def run(outputs: Any, first: Any = TARGET, **limits: float) -> tuple[int, str | None]:
    """Repeat a program that returns `outputs` one after the other."""
    calls = itertools.chain([first], outputs)
    compare = functools.partial(output_check.compare_arrays, reference(), workers.rules())
    return output_check.repeat(lambda: [next(calls)], compare, {**LIMITS, **limits})


@pytest.mark.parametrize(
    ("limits", "calls"), [({}, 40), ({"most_seconds": 0.0}, 3), ({"seconds": 0.0}, 30)]
)
def test_cheap_calls_are_repeated_most_often(limits: dict[str, float], calls: int) -> None:
    assert run(itertools.repeat(TARGET), **limits) == (calls, None)


def test_a_difference_in_rounding_is_no_race() -> None:
    outputs = (TARGET * (1 + 1e-7 * (number % 3)) for number in itertools.count())
    assert run(outputs)[1] is None


@pytest.mark.parametrize("element", [0, 511])
def test_one_element_that_varies_is_a_race(element: int) -> None:
    varied = TARGET.copy()
    varied.reshape(-1)[element] += 1e-2
    calls, difference = run([*[TARGET] * 20, varied, *[TARGET] * 40])
    assert calls == 21
    assert difference is not None


def test_a_buffer_that_the_next_call_overwrites_is_compared_by_its_values() -> None:
    buffer = np.zeros_like(TARGET)

    def outputs() -> Any:
        for number in itertools.count():
            buffer[:] = TARGET + number
            yield buffer

    assert run(outputs())[0] == 2


def test_the_output_of_the_call_before_does_not_vary() -> None:
    other = np.random.default_rng(1).standard_normal(TARGET.shape)
    assert run(itertools.repeat(TARGET), first=other)[1] is None


@pytest.mark.parametrize(("operators", "calls"), [(None, 40), ([], 40), (["ScatterND"], 90)])
def test_operators_that_may_vary_cause_more_calls(operators: list[str] | None, calls: int) -> None:
    """A workflow need not know its operators."""
    members = {} if operators is None else {"nondeterministic_operators": lambda _: operators}
    workflow = Workflow(types.SimpleNamespace(**members))
    request = workers.make_request(pathlib.Path("x"), pathlib.Path())
    request.accuracy["repeats"] |= {"most_calls": 40, "nondeterministic_calls": 90}
    limits = repeat_limits(workflow.nondeterministic_operators(None), request)
    assert repeat(list, lambda *_: None, {**limits, "seconds": 60.0})[0] == calls


@pytest.mark.parametrize(("draws", "races"), [(True, False), (False, True)])
def test_repeated_outputs_have_the_numbers_that_a_stack_leaves_out(
    draws: bool, races: bool
) -> None:
    random = np.random.default_rng(0)

    def call(_: object) -> list[Any]:
        """Return the random and the other tensor of a model that first returns a number."""
        drawn = random.standard_normal(TARGET.shape) if draws else TARGET
        return [drawn, TARGET + (random.standard_normal() if races else 0.0)]

    outputs = [[np.int64(7), TARGET, TARGET]]
    findings = Findings({1: None}, varying=(1,))
    reference = create_reference("float64", outputs, outputs, [[]], findings=findings)
    program: Any = workers.FakeProgram(call)
    cell = ProgramCell(program, Shape(8), program, [None], reference, workers.rules())
    assert cell.is_fixed() is not draws
    assert (cell.check_repeats(LIMITS)[1] is not None) is races
