"""Several lengths in one worker, and batch sizes that a program was not built for."""

from __future__ import annotations

import itertools
import math
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
import workers
from forks import ForkServer
from workers import FakeProgram, rules

from probes import protocol
from probes.checking import program_cell
from probes.checking.array_reference import create_reference
from probes.checking.program_cell import ProgramCell
from probes.checking.stored_reference import Reference
from probes.checking.text_reference import TokenReference
from probes.commands import Build, Command, ComputeOutputs, Stop, TryNewShapes, Visit
from probes.runtime import flexibility
from probes.shape import Shape, other_length

WORKFLOWS = pathlib.Path(protocol.__file__).parent / "workflows"
SIZES = {"hidden": 16, "intermediate": 32, "heads": 2, "layers": 1}
BLOCK = {"kind": "synthetic", "block": "encoder", **SIZES}


def make_reference(server: ForkServer, place: pathlib.Path, **asked: Any) -> workers.WorkerResult:
    pytest.importorskip("torch")
    eager = WORKFLOWS / "pytorch_eager.py"
    request = workers.make_request(eager, place, role="reference", **asked)
    return workers.fork_worker(server, request, place / "reference", Build(), ComputeOutputs())


def measure(
    server: ForkServer, workflow: str, place: pathlib.Path, *sent: Command, **asked: Any
) -> tuple[protocol.Request, workers.WorkerResult]:
    """Run a worker of `workflow` with these commands, after the references were made."""
    request = workers.make_request(WORKFLOWS / f"{workflow}.py", place, **asked)
    control = pathlib.Path(tempfile.mkdtemp(dir=place)) / "measure"
    answer = workers.fork_worker(server, request, control, Build(), *sent, Stop())
    assert answer.failure is None, answer.log
    return request, answer


def measure_eager(
    server: ForkServer, place: pathlib.Path, *sent: Command, **asked: Any
) -> tuple[protocol.Request, workers.WorkerResult]:
    made = make_reference(server, place, **asked)
    assert made.failure is None, made.log
    return measure(server, "pytorch_eager", place, *sent, **asked)


PASSES: dict[str, Any] = {"subject": BLOCK, "batch_sizes": [1, 2]}
PASSES |= {"input_tokens": 9, "lengths": [[4, None], [9, None]]}


@pytest.fixture(scope="module")
def passes(stack_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the place of the references of `PASSES`."""
    place = tmp_path_factory.mktemp("passes")
    made = make_reference(stack_server, place, **PASSES)
    assert made.failure is None, made.log
    return place


def shapes_of(answer: workers.WorkerResult, event: str) -> list[Shape]:
    return [Shape(**each["shape"]) for each in answer.events_of(event)]


@pytest.mark.parametrize(
    ("workflow", "options"),
    [
        ("pytorch_eager", {}),
        ("onnxruntime_cpu", {"feeding": "host"}),
        ("onnxruntime_cpu", {"feeding": "host", "dynamic": True}),
    ],
)
def test_a_pass_is_checked_and_timed_at_each_length(
    workflow: str, options: dict[str, Any], stack_server: ForkServer, passes: pathlib.Path
) -> None:
    if workflow == "onnxruntime_cpu":
        pytest.importorskip("onnxruntime")
    visits = Visit(Shape(1, 4), 1), Visit(Shape(2, 9), 1)
    request, answer = measure(stack_server, workflow, passes, *visits, options=options, **PASSES)
    expected = [Shape(1, 4), Shape(2, 4), Shape(1, 9), Shape(2, 9)]
    assert request.shapes == expected
    for event in ("built", "checked", "warmed_up"):
        assert shapes_of(answer, event) == expected
    assert shapes_of(answer, "visited") == [Shape(1, 4), Shape(2, 9)]
    assert all(each["accuracy_class"] == "exact" for each in answer.events_of("checked"))
    inputs = [program_cell.load_reference(request, shape).inputs[0][0] for shape in expected]
    assert [array.shape[:2] for array in inputs] == [(1, 4), (2, 4), (1, 9), (2, 9)]


@pytest.mark.parametrize("task", [protocol.FORWARD, protocol.GENERATE])
def test_a_batch_size_and_a_length_that_were_not_built_are_served(
    task: str, stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    _, answer = measure_eager(
        stack_server,
        tmp_path,
        TryNewShapes(short=True),
        subject=workers.random_weights(workers.LLAMA, tmp_path)
        if task == protocol.GENERATE
        else BLOCK,
        task=task,
        batch_sizes=[1],
        input_tokens=8,
        output_tokens=5,
        new_shapes=True,
    )
    tried = answer.events_of("new_shape_result")
    assert [(Shape(**each["shape"]), each["reason"]) for each in tried] == [
        (Shape(2), None),
        (Shape(1, 5), None),
    ]
    # On a busy machine the first call may take long.
    assert {each["handling"] for each in tried} <= {"served", "stalled"}


def test_text_is_generated_at_each_pair_of_lengths(
    stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    lengths: list[list[int | None]] = [[4, 3], [8, 3], [8, 5]]
    asked = {"task": protocol.GENERATE, "batch_sizes": [2], "input_tokens": 8, "output_tokens": 5}
    asked |= {"lengths": lengths, "subject": workers.random_weights(workers.LLAMA, tmp_path)}
    visits = Visit(Shape(2, 4, 3), 1), Visit(Shape(2, 8, 5), 1)
    request, answer = measure_eager(stack_server, tmp_path, *visits, **asked)
    expected = [Shape(2, *pair) for pair in lengths]
    assert shapes_of(answer, "checked") == expected
    references = [program_cell.load_reference(request, shape) for shape in expected]
    texts = [each for each in references if isinstance(each, TokenReference)]
    produced = [(each.inputs[0][0], each.tokens[0]) for each in texts]
    assert [(len(prompts[0]), len(new[0])) for prompts, new in produced] == [(4, 3), (8, 3), (8, 5)]
    (short, _), (long, _), _ = produced
    assert not np.array_equal(short, long[:, :4]), "an engine's prefix cache would be of use"


def test_what_follows_the_reference_outputs_is_a_phase_of_its_own(
    stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    made = make_reference(stack_server, tmp_path, subject=BLOCK, batch_sizes=[1, 2])
    assert made.failure is None, made.log
    kinds = [each["event"] for each in made.events]
    last = len(kinds) - 1 - kinds[::-1].index("workload")
    phase = next(each for each in made.events[last:] if each["event"] == "phase_started")
    assert (phase["phase"], phase["shape"]) == ("correctness", None)


def test_code_of_a_model_that_asks_for_input_gets_none(
    stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "asks.py"
    file.write_text("import os\ndef build(): raise ValueError(os.readlink('/proc/self/fd/0'))")
    subject = {"kind": "factory", "name": f"{file}:build"}
    made = make_reference(stack_server, tmp_path, subject=subject)
    assert "/dev/null" in (made.failure or {})["reason"]


def test_a_model_without_a_length_is_refused(
    stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "images.py"
    example = "torch.nn.Conv2d(3, 4, 3), (torch.zeros(1, 3, 8, 8),)"
    file.write_text(f"import torch\ndef build(): return {example}")
    subject = {"kind": "factory", "name": f"{file}:build"}
    made = make_reference(stack_server, tmp_path, **{**PASSES, "subject": subject})
    assert made.failure is not None
    assert made.failure["status"] == "model-refused"
    assert made.failure["fix"]
    (loaded,) = made.events_of("opened")
    assert loaded["convolutions"] == 1


MATRIX = np.random.default_rng(0).standard_normal((8, 8)).astype("float32")
BUILT = 4


def reference() -> Reference:
    inputs = [
        [np.random.default_rng(number).standard_normal((BUILT, 8)).astype("float32")]
        for number in range(2)
    ]
    exact = [[one[0].astype("float64") @ MATRIX.astype("float64")] for one in inputs]
    return create_reference("float64", exact, [[one[0] @ MATRIX] for one in inputs], inputs)


def test_an_output_that_is_the_number_of_rows_leaves_new_sizes_right() -> None:
    rows, size = np.ones((BUILT, 8)), np.int64(BUILT)
    known = create_reference("float64", [[rows, size]], [[rows, size]], [[rows]])
    program: Any = FakeProgram(lambda rows: [rows, np.int64(len(rows))])
    cell = ProgramCell(program, Shape(BUILT), program, [], known, rules("float32"))
    assert not flexibility.has_coupled_rows(cell, known, [BUILT])
    assert flexibility.of_batch_size(cell, 9).find_fault([np.ones((9, 8)), np.int64(9)]) is None


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
    cell = ProgramCell(cast("Any", program), Shape(BUILT), program, [], reference(), rules())
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
    assert (result.shape.batch_size, result.handling, result.reason) == (size, "served", None)
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
    assert result.handling == "wrong"
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
    assert (result.handling, result.steady_seconds) == (outcome, steady)
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
    assert 1 < other_length(built) < built or (built <= 2 and other_length(built) == built + 1)


def test_only_the_dimension_with_the_length_is_resized() -> None:
    tokens, mask, image = (np.zeros(shape) for shape in ((2, 8), (2, 8, 3), (2, 3, 8)))
    loaded_model = pytest.importorskip("probes.subjects.loaded_model")
    resized = loaded_model.resize([tokens, mask, image], 8, 5)
    assert [array.shape for array in resized] == [(2, 5), (2, 5, 3), (2, 3, 8)]
