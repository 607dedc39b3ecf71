"""Runs end in time, and say what they left out."""

from __future__ import annotations

import shutil
import time

import builders
import built_answers
import pytest
import sessions
from builders import replace
from sessions import exhaust

from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.domain.errors import BuildsAreGoneError, UserError
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import (
    Finished,
    ProvisionalAnswer,
    RaceClosed,
    RaceOpened,
    RepetitionStarted,
    Resumed,
)
from advisor.domain.run_state import ProcessState
from advisor.execute.execution import execute
from advisor.report.answer_files import decide
from advisor.store.runs import Run
from probes.events import PhaseStarted, Prepared, Ready

pytestmark = pytest.mark.slow


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
    context = replace(context, clock=clock)
    return clock, context, sessions.create_run(context, asked)


@pytest.fixture(scope="module")
def limited(module_context: Context) -> Run:
    """A run in which one build hangs.

    The first race is due as soon as `quick` is built, and the time is over after it.
    """
    asked = RunOptions(model="demo", workflows=f"quick,{HANGING}", budget="100s", gpu="cpu")
    clock, context, run = new_run(module_context, asked)
    for event in execute(run, context):
        for report, _ in sessions.reports_of([event], Prepared):
            clock.ahead_seconds += 30 * (report.arm == "quick")
        if isinstance(event.run_event, ProvisionalAnswer):
            clock.ahead_seconds += 70
    return run


def test_built_arms_race_while_another_build_hangs(limited: Run) -> None:
    run_events = [event.run_event for event in limited.events()]
    found = [each.waiting for each in run_events if isinstance(each, ProvisionalAnswer)]
    assert found == [(HANGING,)]


def test_a_build_without_end_does_not_delay_the_answer_which_names_the_arm(limited: Run) -> None:
    answer = decide(limited)
    assert limited.state().finished
    assert set(answer.measurements) == {"pytorch-eager", "quick"}
    (ended,) = limited.state().processes[HANGING]
    assert builders.known(ended.failure).skip_cause == "out-of-time"
    assert HANGING in {each.arm for each in answer.unmeasured}
    assert built_answers.advised(answer).decision.outstanding == (HANGING,)


@pytest.mark.parametrize("step", ["INPUTS", "REFERENCE"])
def test_a_reference_that_takes_too_long_is_computed_in_less_precision(
    step: str, module_context: Context
) -> None:
    environment = {**module_context.environment, f"P3_ADVISOR_FAKE_{step}_SECONDS": "3600"}
    slow_context = replace(module_context, environment=environment)
    asked = RunOptions(model="demo", workflows="quick", budget="100s", gpu="cpu")
    clock, context, run = new_run(slow_context, asked)
    for event in execute(run, context):
        for report, phase in sessions.reports_of([event], PhaseStarted):
            is_first = not run.state().processes[REFERENCE][0].outcome
            is_at_step = phase.phase == "correctness" and bool(phase.shape) == (step == "REFERENCE")
            if report.arm == REFERENCE and is_at_step and is_first:
                clock.ahead_seconds += 26
    slow, quick = run.state().processes[REFERENCE]
    assert sessions.expect_failure(slow.outcome, "timed-out").phase == "correctness"
    assert quick.completed
    answer = decide(run)
    assert answer.recommendation is not None
    entry = answer.measurements["quick"]
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
        clock.ahead_seconds += 2000 * isinstance(event.run_event, RepetitionStarted)
    assert [each.visits for each in repeated_processes(run)] == [()] * 3
    assert run.state().finished
    assert not built_answers.advised(decide(run)).decision.replicated


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
        clock.ahead_seconds += 2000 * isinstance(event.run_event, RaceClosed)
        phases |= {phase.phase for _, phase in sessions.reports_of([event], PhaseStarted)}
    assert not run.state().repeats, "none begins after the time of the run"
    assert not phases & {"sustain", "new-shapes"}, "nor do they"
    certainty = built_answers.advised(decide(run)).decision
    assert (certainty.word, certainty.replicated) == ("LIKELY", False)
    assert run.scratch.is_dir()

    again = [type(event.run_event) for event in execute(run, context)]
    assert again[0] == Resumed
    assert again.count(RepetitionStarted) == 2, "those of the budget"
    assert RaceOpened not in again
    assert again[-1] == Finished
    certainty = built_answers.advised(decide(run)).decision
    assert certainty.replicated
    shutil.rmtree(run.scratch, ignore_errors=True)
    assert decide(run).resumable is False
    if certainty.word != "CLEAR":
        with pytest.raises(BuildsAreGoneError):
            exhaust(execute(run, context))


def test_a_model_that_does_not_open_in_time_ends_the_run_with_the_option(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("P3_ADVISOR_FAKE_LOAD_SECONDS", "3600")
    run = sessions.create_run(context, RunOptions(max_open_seconds=1.0, batch_sizes="1"))
    with pytest.raises(UserError) as problem:
        exhaust(execute(run, context))
    assert "--max-open-seconds" in problem.value.next_step
