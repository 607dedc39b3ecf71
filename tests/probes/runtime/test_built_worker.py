"""The answers of a worker to each command, with fake stacks; the faults of a user's metric."""

from __future__ import annotations

import contextlib
import pathlib
import types
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import workers
from workers import WorkerResult, rules

from probes import commands
from probes.accuracy import UserMetric
from probes.adapter import UnsupportedError, Workflow
from probes.checking import program_cell
from probes.checking.program_cell import ProgramCell
from probes.runtime import cells
from probes.runtime.built_worker import BuiltWorker
from probes.runtime.failures import exception_summary
from probes.shape import Shape
from probes.timing import VisitSize

SIZES = [2, 4]
VISIT = commands.Visit(Shape(2), 1)
WRONG_LATER = {"workflow": "misbehaving", "fault": "wrong-later"}
#: A workflow whose calls have ended when they return.
SYNCHRONOUS = Workflow(types.SimpleNamespace(synchronise=lambda: None))


class TextProgram:
    """A program that generates nothing and notes its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, device_inputs: str) -> None:  # noqa: ARG002 - as a program has it
        self.calls.append("all tokens")

    def first_token(self, device_inputs: str) -> None:  # noqa: ARG002 - as above
        self.calls.append("first token")


class SequentialProgram(TextProgram):
    """A program whose prompts run one after the other."""

    def first_token(self, device_inputs: str) -> None:
        raise UnsupportedError(f"{device_inputs} run one after the other")


@pytest.fixture(scope="module")
def shared(fake_probes: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The directory with inputs and outputs of the reference worker."""
    place = tmp_path_factory.mktemp("shared")
    request = workers.make_request(
        fake_probes / "workflows" / "pytorch_eager.py", place, role="reference", batch_sizes=SIZES
    )
    sent = commands.MeasurePeaks(), commands.Build(), commands.ComputeOutputs()
    answer = workers.run_worker(request, place / "control", *sent, probes=fake_probes)
    assert answer.failure is None, answer.log
    return place


Runner = Callable[..., WorkerResult]


@pytest.fixture
def run_commands(shared: pathlib.Path, fake_probes: pathlib.Path, tmp_path: pathlib.Path) -> Runner:
    """Return a function that runs a worker with these commands between `Build` and `Stop`."""

    def run(*sent: commands.Command, workflow: str = "narrow", **options: Any) -> WorkerResult:
        request = workers.make_request(
            fake_probes / "workflows" / f"{workflow}.py",
            shared,
            batch_sizes=SIZES,
            options={"unseen": "served", "milliseconds": 1, **options},
        )
        control = tmp_path / f"control-{len(list(tmp_path.iterdir()))}"
        sent = commands.Build(), *sent, commands.Stop()
        return workers.run_worker(request, control, *sent, probes=fake_probes)

    return run


def batch_size_of(event: dict[str, Any]) -> int | None:
    return event["shape"]["batch_size"] if event["shape"] else None


def phases(answer: WorkerResult) -> list[tuple[str, int | None]]:
    return [(entry["phase"], batch_size_of(entry)) for entry in answer.events_of("phase_started")]


def test_a_visit_reports_its_durations(run_commands: Runner) -> None:
    answer = run_commands(commands.Visit(Shape(4), 1), commands.Visit(Shape(2), 7))
    visits = answer.events_of("visited")
    assert [(batch_size_of(visit), visit["round"]) for visit in visits] == [(4, 1), (2, 7)]
    for visit in visits:
        assert len(visit["seconds"]) >= 5
        assert min(visit["seconds"]) >= 0.001
    assert answer.failure is None


def test_sustained_calls_fill_the_time_and_the_worker_reports_ready(run_commands: Runner) -> None:
    answer = run_commands(commands.Sustain(Shape(4), 0.1), commands.Visit(Shape(4), 1))
    (sustained,) = answer.events_of("sustained")
    assert batch_size_of(sustained) == 4
    assert sustained["seconds"] >= 0.1
    assert 1 <= sustained["calls"] <= 100
    assert ("sustain", 4) in phases(answer)
    assert len(answer.events_of("ready")) == 2
    assert len(answer.events_of("visited")) == 1


def test_without_pytorch_nothing_is_profiled_and_the_worker_continues(run_commands: Runner) -> None:
    answer = run_commands(commands.Diagnose(), VISIT)
    assert answer.events_of("diagnosed") == []
    assert [("diagnose", size) for size in SIZES] == [
        entry for entry in phases(answer) if entry[0] == "diagnose"
    ]
    assert len(answer.events_of("visited")) == 1


def channel_to(sent: list[Any], **members: Any) -> Any:
    return types.SimpleNamespace(send=sent.append, start_phase=lambda *_: None, **members)


def text_cell(program: TextProgram) -> ProgramCell:
    return ProgramCell(SYNCHRONOUS, Shape(1), program, ["prompts"], cast("Any", None), rules())


def text_service(
    programs: dict[int, TextProgram], sent: list[Any], task: str = "generate"
) -> BuiltWorker:
    """Return a service whose visits are two calls and two for the first token."""
    size = VisitSize(calls=2, warmup_calls=1, first_token_calls=2)
    return BuiltWorker(
        cells.Job(
            request=cast("Any", types.SimpleNamespace(task=task, device="cpu", visit_seconds=0.05)),
            channel=channel_to(sent),
            workflow=SYNCHRONOUS,
        ),
        cells={Shape(size): text_cell(program) for size, program in programs.items()},
        sizes=dict.fromkeys(map(Shape, programs), size),
        host=None,
    )


@pytest.mark.parametrize(("device", "first"), [("cuda", 4.0), ("cpu", 2.0)])
def test_a_compiler_imported_ahead_counts_in_the_first_build(
    device: str, first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    channel = channel_to(sent, stopwatch=lambda: contextlib.nullcontext(lambda: 2.0))
    program = workers.FakeProgram(lambda fed: fed)
    workflow: Any = types.SimpleNamespace(
        import_compiler=lambda: None, build=lambda *_: program, synchronise=program.synchronise
    )
    monkeypatch.setattr(program_cell, "load_inputs", lambda *_: [[1]])
    job = cells.Job(
        cast("Any", types.SimpleNamespace(device=device, at=lambda _: None)), channel, workflow
    )
    cells.import_compiler(job)
    for shape in (Shape(1), Shape(4)):
        cells.build_program(job, shape)
        assert program.is_done, "the first call is timed to the end of its work"
    assert [each.build_seconds for each in sent] == [first, 2.0]


def test_a_visit_of_text_times_the_first_token_after_its_calls() -> None:
    sent: list[Any] = []
    program = TextProgram()
    text_service({4: program}, sent).time_visit(Shape(4), 1)
    assert program.calls == ["all tokens"] * 3 + ["first token"] * 2
    (visit,) = sent
    assert (len(visit.seconds), len(visit.first_token_seconds)) == (2, 2)


@pytest.mark.parametrize(("kind", "has_one"), [(TextProgram, True), (SequentialProgram, False)])
def test_prompts_that_run_one_after_the_other_have_no_first_token(
    kind: type[TextProgram], has_one: bool
) -> None:
    assert cells.warm_up_first_token(text_cell(kind())) is has_one


@pytest.mark.parametrize(("task", "profiled"), [("forward", [1, 4, 16]), ("generate", [1, 16])])
def test_only_the_smallest_and_the_largest_batch_of_text_are_profiled(
    task: str, profiled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    service = text_service({size: TextProgram() for size in (1, 4, 16)}, sent, task)
    monkeypatch.setattr("probes.device_work.profile_calls", lambda _, shape: shape)
    service.diagnose()
    assert [each.batch_size for each in sent if isinstance(each, Shape)] == profiled


@pytest.mark.parametrize(
    ("unseen", "outcome", "reason"),
    [("served", "served", None), ("padded", "wrong", "other shapes")],
)
def test_new_batch_sizes_are_tried_last(
    unseen: str, outcome: str, reason: str | None, run_commands: Runner
) -> None:
    answer = run_commands(commands.TryNewShapes(), unseen=unseen)
    result = answer.events_of("new_shape_result")
    assert [batch_size_of(entry) for entry in result] == [1, 3, 5, 8]
    assert {entry["handling"] for entry in result} == {outcome}
    assert all(
        (entry["reason"] is None) if reason is None else (reason in entry["reason"])
        for entry in result
    )
    tried = [("new-shapes", size) for size in (1, 3, 5, 8)]
    assert phases(answer)[-6:] == [("done", None), *tried, ("done", None)]
    assert answer.failure is None, "the measurement stays valid"


def test_wrong_values_at_a_new_batch_size_make_the_arm_incorrect(run_commands: Runner) -> None:
    answer = run_commands(commands.TryNewShapes(), unseen="wrong")
    assert [entry["handling"] for entry in answer.events_of("new_shape_result")] == ["wrong"]
    assert (answer.failure["status"], answer.failure["phase"]) == ("incorrect", "new-shapes")
    assert "batch size 1" in answer.failure["reason"]


def test_an_output_that_has_become_wrong_fails_before_new_batch_sizes(run_commands: Runner) -> None:
    answer = run_commands(VISIT, commands.TryNewShapes(), **WRONG_LATER)
    assert (answer.failure["status"], answer.failure["phase"]) == ("incorrect", "done")
    assert answer.events_of("new_shape_result") == []


def test_outputs_are_checked_once_at_the_end(run_commands: Runner) -> None:
    answer = run_commands(VISIT, commands.Check())
    assert answer.failure is None
    last = [each["event"] for each in answer.events[-3:]]
    assert last == ["ready", "phase_started", "memory_read"]


@pytest.mark.parametrize("command", [commands.MeasurePeaks(), commands.ComputeOutputs()])
def test_a_command_of_another_worker_ends_this_one_normally(
    command: commands.Command, run_commands: Runner
) -> None:
    assert run_commands(command).failure is None


METRIC = """
import numpy as np

def score(model):
    (output,) = model(np.full((model.batch_size, 2), 3.0))
    return output.sum()

def broken(model):
    raise ValueError("no such task")
"""


def ask(directory: pathlib.Path, function: str, **long_text: Any) -> list[Any]:
    file = directory / "metric.py"
    file.write_text(METRIC)
    sent: list[Any] = []
    request: Any = types.SimpleNamespace(
        batch_sizes=[1, 4],
        long_text=long_text,
        metric=f"{file}:{function}" if function else "",
        shared_directory=str(directory),
    )
    unused: Any = None
    doubling: Any = workers.FakeProgram(lambda fed: 2 * fed)
    of_sizes = {
        shape: ProgramCell(doubling, shape, doubling, [], unused, unused)
        for shape in (Shape(1), Shape(4))
    }
    cells.report_losses(of_sizes, cells.Job(request, channel_to(sent), doubling))
    return sent


def test_the_metric_calls_the_largest_batch_and_its_error_is_reported(
    tmp_path: pathlib.Path,
) -> None:
    assert ask(tmp_path, "score") == [UserMetric(float(np.sum(np.full((4, 2), 6.0))))]
    (found,) = ask(tmp_path, "broken")
    assert (found.value, found.problem) == (None, exception_summary(ValueError("no such task")))


@pytest.mark.parametrize("tokens", [{}, {"tokens": 8, "seconds": 1.0, "data": ""}])
def test_without_text_and_metric_nothing_is_sent(
    tokens: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    assert ask(tmp_path, "", **tokens) == []
