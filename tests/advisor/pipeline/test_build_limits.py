"""A build is ended when it is sure that it cannot be paid back, and never before."""

from __future__ import annotations

from collections.abc import Callable

import builders
import msgspec
import pytest
from builders import BASELINE, DUPLICATE

from advisor.context import Context
from advisor.domain.outcome import Completed, Crashed, TimedOut
from advisor.domain.question import Question
from advisor.domain.run_events import Ended, LoggedEvent, RunEvent, Spawned, WorkerReported
from advisor.domain.run_state import RunState, fold
from advisor.domain.worker_events import PhaseStarted
from advisor.pipeline import build_limits
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers

#: Builds of 3 s a batch size, calls of 10 ms that may have been 12.5 ms.
BUILT = builders.process(*builders.visits([0.01], 1), *builders.visits([0.01], 4))
ASKED = builders.question(batch_sizes=(1, 4), requests=1000)


def seconds(state: RunState, arm: str, question: Question = ASKED) -> float:
    limit = build_limits.limit_build(state, arm, question)
    assert limit is not None
    return limit.seconds


def test_the_limit_is_what_an_arm_needs_for_all_requests_at_the_batch_size_where_that_is_longest() -> (
    None
):
    state = builders.run_state({BASELINE: BUILT, "compiled": ()})
    assert seconds(state, "compiled") == pytest.approx(6.0 + 1000 * 0.0125)


def test_the_best_of_the_arms_that_are_built_counts() -> None:
    crashed = builders.process(
        *builders.visits([0.01], 1),
        built={},
        outcome=Crashed(phase="measure", signal=None, reason="gone"),
    )
    cheap = builders.process(
        *builders.visits([0.01], 1), *builders.visits([0.01], 4), built={}, outcome=Completed()
    )
    state = builders.run_state(
        {BASELINE: BUILT, "cheap": cheap, "crashed": crashed, "compiled": ()}
    )
    assert seconds(state, "compiled") == pytest.approx(12.5)


@pytest.mark.parametrize("arm", [BASELINE, DUPLICATE])
def test_what_is_needed_is_built_whatever_it_costs(arm: str) -> None:
    state = builders.run_state({BASELINE: BUILT, "compiled": BUILT, DUPLICATE: ()})
    assert (
        build_limits.limit_build(state, arm, msgspec.structs.replace(ASKED, build_minutes=0.001))
        is None
    )


def test_without_a_number_of_requests_or_anything_built_there_is_no_limit() -> None:
    assert (
        build_limits.limit_build(
            builders.run_state({BASELINE: BUILT, "compiled": ()}), "compiled", builders.question()
        )
        is None
    )
    assert (
        build_limits.limit_build(
            builders.run_state({BASELINE: (), "compiled": ()}), "compiled", ASKED
        )
        is None
    )


def test_the_time_for_all_builds_together_counts_where_it_is_tighter() -> None:
    state = builders.run_state({BASELINE: BUILT, "compiled": ()}, at=5000.0)
    tight, ample = (
        msgspec.structs.replace(ASKED, build_minutes=minutes) for minutes in (0.25, 1.0)
    )
    assert seconds(state, "compiled", tight) == 15.0 - 6.0, (
        "builds alone count, whatever else the run did"
    )
    assert seconds(state, "compiled", ample) == pytest.approx(6.0 + 1000 * 0.0125)


def test_a_build_that_did_not_come_to_its_end_counts_until_it_was_ended() -> None:
    entered = (
        PhaseStarted(phase="build", batch_size=1),
        builders.process(*builders.visits([0.01])).built[1],
        PhaseStarted(phase="build", batch_size=4),
    )
    happened: list[RunEvent] = [
        Spawned(arm="hung", process=0),
        *(WorkerReported(arm="hung", process=0, said=said) for said in entered),
    ]
    ended = Ended(arm="hung", process=0, outcome=TimedOut(phase="build", reason="it took too long"))
    events = [
        LoggedEvent(seq=seq, at=10.0 * seq, run_event=each)
        for seq, each in enumerate([*happened, ended])
    ]
    state = fold(events, builders.run_state({"compiled": ()}))
    assert seconds(state, "compiled", builders.question(build_minutes=1)) == 60.0 - 3.0 - 10.0


def test_a_build_that_cannot_pay_is_ended_and_one_that_can_is_raced(
    fake_world: Callable[[], Context],
) -> None:
    answers = Answers(
        batch_sizes="2",
        budget="2",
        max_build_seconds=60.0,
        workflows="quick,misbehaving/hangs",
        requests=500,
    )
    run = prepare(answers, fake_world())
    for _ in execute(run, fake_world()):
        pass
    decision = decide(run)
    (ended,) = decision.state.processes["misbehaving/hangs"]
    assert isinstance(ended.outcome, TimedOut)
    assert "cannot be paid back" in ended.outcome.reason
    assert "--requests" in (ended.outcome.fix or "")
    assert "quick" in {measurement.arm for measurement in decision.results.measurements}


def test_what_is_not_built_in_the_time_for_all_builds_is_left_out_and_the_rest_is_raced(
    fake_world: Callable[[], Context],
) -> None:
    answers = Answers(
        batch_sizes="2",
        budget="2",
        workflows="quick,misbehaving/hangs,misbehaving/wrong",
        build_minutes=0.3,
    )
    run = prepare(answers, fake_world())
    for _ in execute(run, fake_world()):
        pass
    decision = decide(run)
    for arm in ("misbehaving/hangs", "misbehaving/wrong"):
        (ended,) = decision.state.processes[arm]
        assert isinstance(ended.outcome, TimedOut)
        assert "0.3 minutes for all builds together" in ended.outcome.reason
        assert "--build-minutes" in (ended.outcome.fix or "")
    assert "quick" in {measurement.arm for measurement in decision.results.measurements}
    said = [
        event.run_event for event in run.events() if isinstance(event.run_event, WorkerReported)
    ]
    began = {
        heard.arm
        for heard in said
        if isinstance(heard.said, PhaseStarted) and heard.said.phase == "load"
    }
    assert "misbehaving/hangs" in began
    assert "misbehaving/wrong" not in began, "its turn came when nothing was left"
