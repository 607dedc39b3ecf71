"""Lines of progress: one for slow steps and results, none for other events."""

from __future__ import annotations

import builders
import built_answers
import pytest
from golden_files import Expect

from advisor.domain import run_events
from advisor.domain.answer import AnswerSummary
from advisor.domain.plan import REFERENCE
from advisor.domain.text import format_speedup
from advisor.report import progress_lines
from probes.events import PhaseStarted, Ready
from probes.outcome import Failure, FailureStatus, Outcome, Phase
from probes.shape import Shape


def render(run_event: run_events.RunEvent) -> str | None:
    (event,) = builders.events(run_event)
    return progress_lines.render_event(event)


def phase_started(
    phase: Phase, batch_size: int | None = None, arm: str = "compiled"
) -> run_events.WorkerReported:
    return run_events.WorkerReported(
        arm=arm,
        process=0,
        worker_event=PhaseStarted(phase=phase, shape=Shape(batch_size) if batch_size else None),
    )


def ended(arm: str, status: FailureStatus, reason: str) -> run_events.WorkerEnded:
    failure = Failure(status, phase="open", reason=reason)
    return run_events.WorkerEnded(arm=arm, process=0, outcome=Outcome(failure))


def test_slow_steps_and_results_have_a_line(expect: Expect) -> None:
    reported = (
        run_events.ArmsPlanned(plan=builders.plan("one", "two", excluded=[builders.excluded()])),
        phase_started("import"),
        phase_started("build", 16),
        ended("compiled", "crashed", "it fell"),
        ended("compiled", "model-refused", "no package"),
        phase_started("open", arm=REFERENCE),
        phase_started("correctness", 4, arm=REFERENCE),
        run_events.RaceOpened(shape=Shape(4), arms=("one", "two")),
        run_events.RaceClosed(shape=Shape(4), reason="the verdict stands: TIE", cause="decided"),
        run_events.Resumed(),
        run_events.Finished(),
    )
    others = [progress_lines.describe_other_runs(ids) for ids in ([], ["a"], ["a", "b"])]
    expect("progress-lines", [*map(render, reported), *others])


@pytest.mark.parametrize(
    "run_event",
    [
        run_events.WorkerSpawned(arm="compiled", process=0),
        phase_started("warmup", 1),
        phase_started("build", 1, arm=REFERENCE),
        phase_started("open"),
        run_events.WorkerReported(arm="compiled", process=0, worker_event=Ready()),
        run_events.WorkerReported(
            arm="compiled", process=0, worker_event=builders.visits([0.1])[0]
        ),
        run_events.DeviceMemory(arm="compiled", process=0, peak_bytes=2),
        run_events.WorkerEnded(arm="compiled", process=0, outcome=Outcome()),
        ended(REFERENCE, "model-refused", "no input"),
        ended("pytorch-eager#duplicate", "model-refused", "no input"),
    ],
)
def test_other_events_have_no_line(run_event: run_events.RunEvent) -> None:
    assert render(run_event) is None


@pytest.mark.parametrize(("waiting", "count"), [((), 0), (("one",), 1), (("one", "two"), 2)])
def test_the_answer_so_far_counts_the_arms_that_wait(waiting: tuple[str, ...], count: int) -> None:
    answer = AnswerSummary.of(built_answers.answer())
    line = builders.known(render(run_events.ProvisionalAnswer(answer=answer, waiting=waiting)))
    assert (str(answer.arm) in line, str(count) in line.split("; ")[-1]) == (True, count > 0)
    unfit = run_events.ProvisionalAnswer(
        answer=builders.replace(answer, fit=False), waiting=waiting
    )
    value = f"{format_speedup(answer.speedup)} as fast as the baseline"
    assert [value in str(each) for each in (line, render(unfit))] == [True, False]
