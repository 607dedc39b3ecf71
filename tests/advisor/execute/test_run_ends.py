"""Runs end in time and with an answer, whatever a stack does, and say what they left out."""

from __future__ import annotations

import pathlib
import shutil
import time

import builders
import built_answers
import psutil
import pytest
import sessions

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.decide import trust
from advisor.domain import run_events
from advisor.domain.answer import Answer
from advisor.domain.errors import BuildsAreGoneError, UserError
from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import ProcessState
from advisor.execute.execution import execute
from advisor.report.advice_lines import describe_steps
from advisor.report.answer_files import answer_of_run
from advisor.store.runs import Run
from probes.events import PhaseStarted, Prepared, Ready

HANGING = "misbehaving/hangs"


class JumpingClock:
    """A clock that a test sets forward."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_seconds


#: A run with repetitions.
STANDARD = RunOptions(model="demo", workflows="quick", batch_sizes="1,2", budget="standard")


def new_run(context: Context, asked: RunOptions) -> tuple[JumpingClock, Context, Run]:
    clock = JumpingClock()
    context = builders.replace(context, clock=clock)
    return clock, context, sessions.create_run(context, asked)


def test_a_build_without_end_delays_neither_races_nor_the_answer_which_names_the_arm(
    module_context: Context,
) -> None:
    """The first race is due as soon as `quick` is built, and the time is over after it."""
    asked = RunOptions(model="demo", workflows=f"quick,{HANGING}", budget="100s", gpu="cpu")
    clock, context, run = new_run(module_context, asked)
    for event in execute(run, context):
        for report, _ in sessions.reports_of([event], Prepared):
            clock.ahead_seconds += 40 * (report.arm == "quick")
        if isinstance(event.run_event, run_events.ProvisionalAnswer):
            clock.ahead_seconds += 70
    (found,) = sessions.of_kind(run.events(), run_events.ProvisionalAnswer)
    assert found.waiting == (HANGING,)
    answer = answer_of_run(run)
    assert run.state().finished
    assert set(answer.results.by_arm) == {"pytorch-eager", "quick"}
    (ended,) = run.state().processes[HANGING]
    failure = builders.known(ended.failure)
    assert (failure.skip_cause, failure.reason.split()[0]) == ("out-of-time", "stopped")
    assert HANGING in {each.arm for each in answer.unmeasured}
    phases = {phase.phase for _, phase in sessions.reports_of(run.events(), PhaseStarted)}
    assert "diagnose" not in phases, "no profile begins after the end of the run"
    assert built_answers.advised(answer).decision.outstanding == (HANGING,)


@pytest.mark.parametrize("step", ["INPUTS", "REFERENCE"])
def test_a_reference_that_takes_too_long_is_computed_in_less_precision(
    step: str, module_context: Context
) -> None:
    environment = {**module_context.environment, f"P3_ADVISOR_FAKE_{step}_SECONDS": "3600"}
    slow_context = builders.replace(module_context, environment=environment)
    asked = RunOptions(model="demo", workflows="quick", budget="400s", gpu="cpu")
    clock, context, run = new_run(slow_context, asked)
    for event in execute(run, context):
        for report, phase in sessions.reports_of([event], PhaseStarted):
            is_first = not run.state().processes[REFERENCE][0].outcome
            is_at_step = phase.phase == "correctness" and bool(phase.shape) == (step == "REFERENCE")
            if report.arm == REFERENCE and is_at_step and is_first:
                # Longer than its share of the budget.
                clock.ahead_seconds += 301
    slow, quick = run.state().processes[REFERENCE]
    assert sessions.expect_failure(slow.outcome, "timed-out").phase == "correctness"
    assert quick.completed
    answer = answer_of_run(run)
    assert answer.recommendation is not None
    entry = answer.results.by_arm["quick"]
    assert {each.reference for each in entry.correctness} == {"float32"}


def test_a_repetition_at_the_end_has_two_rounds(module_context: Context) -> None:
    clock, context, run = new_run(module_context, STANDARD)
    ready = 0
    for event in execute(run, context):
        ready += bool(sessions.reports_of([event], Ready)) and bool(run.state().repeats)
        clock.ahead_seconds += 2000 * (ready == 3)
    repeated = repeated_processes(run)
    # A visit that the machine disturbed is made again.
    made = [{(visit.shape.batch_size, visit.round) for visit in each.visits} for each in repeated]
    assert [sorted(size for size, _ in each) for each in made] == [[1, 1, 2, 2]] * 3


def test_a_repetition_whose_builds_take_too_long_ends_with_the_run(module_context: Context) -> None:
    clock, context, run = new_run(module_context, STANDARD)
    for event in execute(run, context):
        clock.ahead_seconds += 2000 * isinstance(event.run_event, run_events.RepetitionStarted)
    assert [each.visits for each in repeated_processes(run)] == [()] * 3
    assert run.state().finished
    assert built_answers.advised(answer_of_run(run)).decision.timed_once


def repeated_processes(run: Run) -> list[ProcessState]:
    return [
        process
        for processes in run.state().processes.values()
        for process in processes
        if process.repeat == 1
    ]


def test_a_finished_run_without_a_clear_answer_measures_its_leaders_again(
    module_context: Context,
) -> None:
    clock, context, run = new_run(module_context, STANDARD)
    phases = set()
    for event in execute(run, context):
        clock.ahead_seconds += 2000 * isinstance(event.run_event, run_events.RaceClosed)
        phases |= {phase.phase for _, phase in sessions.reports_of([event], PhaseStarted)}
    assert not run.state().repeats, "none begins after the time of the run"
    assert not phases & {"sustain", "new-shapes"}, "nor do they"
    certainty = built_answers.advised(answer_of_run(run)).decision
    assert (certainty.word, bool(certainty.timed_once)) == ("LIKELY", True)
    assert run.scratch.is_dir()

    again = [type(event.run_event) for event in execute(run, context)]
    assert again[0] == run_events.Resumed
    assert again.count(run_events.RepetitionStarted) == 2, "those of the budget"
    assert run_events.RaceOpened not in again
    assert again[-1] == run_events.Finished
    certainty = built_answers.advised(answer_of_run(run)).decision
    assert not certainty.timed_once
    shutil.rmtree(run.scratch, ignore_errors=True)
    assert answer_of_run(run).resumable is False
    if certainty.word != "CLEAR":
        with pytest.raises(BuildsAreGoneError):
            sessions.exhaust(execute(run, context))


@pytest.mark.slow
def test_a_model_that_does_not_open_in_time_ends_the_run_with_the_option(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("P3_ADVISOR_FAKE_LOAD_SECONDS", "3600")
    run = sessions.create_run(context, RunOptions(max_open_seconds=1.0, batch_sizes="1"))
    with pytest.raises(UserError) as problem:
        sessions.exhaust(execute(run, context))
    assert "--max-open-seconds" in problem.value.next_step


#: By option of the workflow `misbehaving`: the status, and a part of the reason.
FAILURES = {
    "import-error": ("unsupported", "libmissing.so.1"),
    "model-error": ("model-refused", "of an unknown kind"),
    "refuses": ("unsupported", "takes no such model"),
    "raises": ("build-failed", "Could not find an implementation for Gemm(13)"),
    "segfault": ("crashed", "SIGSEGV"),
    "hangs": ("timed-out", "build"),
    "escapes": ("timed-out", "build"),
    "holds-the-lock": ("timed-out", "build"),
    "out-of-memory": ("out-of-memory", "MemoryError"),
    "garbage": ("crashed", "cannot be read"),
    "wrong": ("incorrect", "against float64, is"),
    "memoises": ("incorrect", "same output for every input"),
    "stale": ("incorrect", "those of other inputs"),
    "returns-early": ("incorrect", "return before their work is done"),
    "hands-out-promises": ("incorrect", "return before their work is done"),
    "wrong-later": ("incorrect", "after the measurement"),
    "crash-in-visit": ("crashed", "SIGSEGV"),
    "hang-in-visit": ("timed-out", "measure"),
    "falls-back": ("not-engaged", "Returning GraphModule forward instead"),
    "ignores-signals": ("timed-out", "build"),
    "stops-itself": ("timed-out", "build"),
    "takes-all-memory": ("out-of-memory", "MemoryError"),
    "removes-its-directory": ("crashed", "was removed"),
    "closes-its-files": ("build-failed", "Bad file descriptor"),
}
#: Options of `misbehaving` whose build does not end in time.
STUCK = {option for option, (_, reason) in FAILURES.items() if reason == "build"}
#: Options of `misbehaving` that look suspicious and are no failure.
HARMLESS = ("floods", "reads-slowly-at-first", "stalls-later", "changes-directory", "starts-many")


@pytest.fixture(scope="module")
def earlier_children() -> list[psutil.Process]:
    """The processes of other tests, which stay for the whole session."""
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found


@pytest.fixture(scope="module")
def run(module_context: Context, earlier_children: list[psutil.Process]) -> Run:
    """A run with one arm for each failure."""
    del earlier_children  # they are listed first
    arms = ",".join(f"misbehaving/{option}" for option in (*FAILURES, *HARMLESS))
    asked = sessions.short_options(f"quick,{arms}", budget="5s", max_build_times="misbehaving=2s")
    return sessions.execute_run(module_context, asked)


@pytest.fixture(scope="module")
def answer(run: Run) -> Answer:
    return answer_of_run(run)


@pytest.mark.parametrize("option", FAILURES)
def test_each_failure_has_its_status_and_its_reason(run: Run, option: str) -> None:
    status, reason = FAILURES[option]
    failure = builders.known(run.state().processes[f"misbehaving/{option}"][-1].failure)
    assert (failure.status, reason in failure.reason) == (status, True), failure


def test_the_load_of_the_machine_is_recorded_before_its_workers(run: Run, answer: Answer) -> None:
    kinds = [type(event.run_event).__name__ for event in run.events()]
    assert kinds.index("QuietChecked") < kinds.index("WorkerSpawned")
    assert builders.known(answer.quiet_check).activity.usable_processors >= 1


def test_only_arms_without_a_failure_complete_and_have_measurements(
    run: Run, answer: Answer
) -> None:
    harmless = {"pytorch-eager", "quick", *(f"misbehaving/{option}" for option in HARMLESS)}
    assert set(answer.results.by_arm) == harmless
    assert all(each[-1].completed for arm, each in run.state().processes.items() if arm in harmless)


def test_arms_whose_builds_were_stopped_are_next_steps(answer: Answer) -> None:
    stopped = {f"misbehaving/{option}" for option in STUCK}
    assert {build.arm for build in answer.results.stopped_builds} == stopped
    steps = describe_steps(answer)
    assert all(any(step.startswith(f"{arm} ") for step in steps) for arm in stopped)


def test_stalled_calls_are_counted_and_lower_the_trust(answer: Answer) -> None:
    counts = {each.arm: each.visits.stalled_calls for each in answer.results.measurements}
    # Calls of others stall where the machine is busy.
    assert counts["misbehaving/stalls-later"] > min(counts.values())
    results = answer.results
    calm = builders.replace(results, visits=builders.replace(results.visits, stalled_calls=0))
    faults = (trust.judge_trust(each, "CLEAR", gain=1.5)[1] for each in (results, calm))
    with_stalls, without = map(set, faults)
    assert with_stalls > without
    assert with_stalls - without <= {*builders.known(answer.recommendation).trust_faults}


@pytest.mark.usefixtures("run")
def test_no_process_of_an_arm_survives_the_run(
    module_home: pathlib.Path, earlier_children: list[psutil.Process]
) -> None:
    marked = [
        process
        for process in psutil.process_iter(["environ"])
        if any(str(module_home) in value for value in (process.info["environ"] or {}).values())
    ]
    children = set(psutil.Process().children(recursive=True)) - set(earlier_children)
    without_variables = [
        process
        for process in psutil.process_iter(["cwd"])
        if str(module_home) in (process.info["cwd"] or "")
    ]
    assert [str(each) for each in (*marked, *children, *without_variables)] == []
