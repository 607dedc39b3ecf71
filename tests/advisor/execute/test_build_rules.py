"""Whether a build starts, waits or is skipped, and when no further arm is built."""

from __future__ import annotations

from typing import Any

import builders
import pytest
import sessions
from builders import BASELINE, DUPLICATE, replace
from simulation import StillSession, active_of

from advisor.ask.context import Context
from advisor.ask.resolve import choose_budget
from advisor.domain.errors import OptionValueError
from advisor.domain.plan import Arm, Plan
from advisor.domain.question import Question
from advisor.domain.run_state import ProcessState
from advisor.execute import build_rules
from advisor.execute.build_rules import (
    BuildStep,
    OtherBuilds,
    SkipBuild,
    StartBuild,
    WaitToBuild,
    next_step,
    payback_limit,
)
from advisor.report.answer_files import answer_of_run
from probes.outcome import Failure, Outcome

#: Builds of 3 s for each batch size; calls of 10 ms, of which the limit assumes 12.5 ms.
BUILT = builders.process(*builders.visits([0.01], 1), *builders.visits([0.01], 4))
WITH_REQUESTS = builders.question(batch_sizes=(1, 4), requests=1000)
SKIPPING = builders.question(budget=replace(builders.question().budget, skips_losing_arms=True))

GAINING, SIBLING, HANGING = (
    builders.arm(arm, expected_build_seconds=20.0, possible_points=2.0)
    for arm in ("compile", "compile/other", "hangs")
)
CALLED_FOR = builders.arm("cl", called_for="conv", expected_build_seconds=1.0, possible_points=0.0)
ENGINE, UNKNOWN = builders.arm("engine", builds_alone=True), builders.arm("unknown")
FAILURE = Failure("unsupported", "open", "it has no such operator")
ENDED, START = {"ended": [BASELINE, "failed"]}, StartBuild(None)
RUNNING, SHORT = {"building": [SIBLING.id]}, {"fits": False}
RACE, MEMORY = WaitToBuild(for_race=True), WaitToBuild(for_race=False)
AFTER_BASELINE = OtherBuilds(wait_for_baseline=True)
STEPS: dict[str, tuple[Arm, OtherBuilds, dict[str, Any], BuildStep]] = {
    "gain known, nothing ahead": (SIBLING, OtherBuilds(), {}, START),
    "builds alone, nothing ahead": (ENGINE, OtherBuilds(), {}, START),
    "gain unknown, gain ahead": (UNKNOWN, OtherBuilds(unraced=[GAINING]), {}, RACE),
    "gain unknown, none known ahead": (UNKNOWN, OtherBuilds(unraced=[UNKNOWN]), {}, START),
    "model calls for it": (CALLED_FOR, OtherBuilds(unraced=[GAINING]), {}, START),
    "no gain": (replace(CALLED_FOR, called_for=None), OtherBuilds(unraced=[GAINING]), {}, RACE),
    "hanging build ahead": (UNKNOWN, OtherBuilds(unraced=[HANGING]), {}, START),
    # Its race saves no build.
    "baseline ahead": (UNKNOWN, OtherBuilds(unraced=[replace(GAINING, id=BASELINE)]), {}, START),
    "sibling ahead": (SIBLING, OtherBuilds(unraced=[GAINING]), {}, RACE),
    "sibling ahead, worker runs": (SIBLING, OtherBuilds(unraced=[GAINING]), RUNNING, RACE),
    "builds alone, one runs": (ENGINE, OtherBuilds(running=1), {}, MEMORY),
    "one runs that builds alone": (UNKNOWN, OtherBuilds(running=1, is_alone=True), {}, MEMORY),
    "one runs, memory short": (UNKNOWN, OtherBuilds(running=1), SHORT, MEMORY),
    "another after the first": (UNKNOWN, OtherBuilds(is_first=False), SHORT, MEMORY),
    "an arm waits for its race": (UNKNOWN, OtherBuilds(), {**SHORT, "ready": ["compile"]}, MEMORY),
    "baseline alone is ready": (UNKNOWN, OtherBuilds(), {**SHORT, "ready": [BASELINE]}, START),
    "baseline not measured": (UNKNOWN, AFTER_BASELINE, {}, MEMORY),
    "baseline ended": (builders.arm(BASELINE), AFTER_BASELINE, ENDED, SkipBuild(None)),
    "failed before": (builders.arm("failed"), OtherBuilds(), ENDED, SkipBuild(None)),
    "sibling failed": (builders.arm("failed/other"), OtherBuilds(), ENDED, SkipBuild(FAILURE)),
}


@pytest.mark.parametrize(("planned", "others", "found", "step"), STEPS.values(), ids=STEPS)
def test_a_build_starts_waits_or_is_skipped(
    planned: Arm, others: OtherBuilds, found: dict[str, Any], step: BuildStep
) -> None:
    processes = {
        BASELINE: ProcessState(),
        "compile": ProcessState(building_since=11.0),
        "hangs": ProcessState(building_since=9.0),
        "failed": builders.process(outcome=Outcome(FAILURE)),
    }
    state = builders.run_state(processes, at=60.0)
    assert next_step(planned, others, active_of(StillSession(**found), state, SKIPPING)) == step


@pytest.mark.parametrize(("expected", "starts"), [(20.0, True), (50.0, False)])
def test_a_build_that_is_expected_to_exceed_its_limit_by_far_is_not_started(
    expected: float, *, starts: bool
) -> None:
    """A payback limit in seconds says nothing to users, and is often rounded to none."""
    state = builders.run_state({BASELINE: BUILT, "compiled": ()})
    planned = builders.arm("compiled", expected_build_seconds=expected)
    found = next_step(planned, OtherBuilds(), active_of(StillSession(), state, WITH_REQUESTS))
    assert isinstance(found, StartBuild) == starts
    if isinstance(found, SkipBuild):
        failure = builders.known(found.failure)
        assert failure.skip_cause == "build-limit"
        assert f"{expected:g} s" in failure.reason
        assert "1,000 requests" in failure.reason


@pytest.mark.parametrize(
    ("left", "expected", "slowness", "has_raced", "is_built"),
    [
        (34.0, 30.0, 1.0, True, False),
        (34.0, 30.0, 1.0, False, True),
        (36.0, 30.0, 1.0, True, True),
        (36.0, 30.0, 2.0, True, False),
        (BUILT.build_seconds + 4.0, 0.1, 1.0, True, False),
        (BUILT.build_seconds + 6.0, 0.1, 0.5, True, True),
    ],
    ids=["too late", "first race", "in time", "slow", "quickest late", "quickest in time"],
)
def test_a_build_that_cannot_end_in_time_is_left_out(
    left: float, expected: float, slowness: float, *, has_raced: bool, is_built: bool
) -> None:
    """The builds of its workflow show how long this model takes."""
    planned = builders.arm("slow/more", workflow="slow", expected_build_seconds=expected)
    built = BUILT.build_seconds
    arms = [
        builders.arm(BASELINE, expected_build_seconds=built / 9),
        builders.arm("slow", expected_build_seconds=built / slowness),
        builders.arm("slow/other", expected_build_seconds=4 * built),
        planned,
    ]
    state = builders.run_state(
        {BASELINE: BUILT, "slow": BUILT, "slow/other": BUILT},
        plan=Plan(arms=tuple(arms), excluded=()),
        last_groups={1: (BASELINE,)} if has_raced else {},
    )
    active = active_of(StillSession(), state, builders.question(), seconds=left)
    found = next_step(planned, OtherBuilds(), active)
    assert isinstance(found, StartBuild) == is_built
    if isinstance(found, SkipBuild):
        assert builders.known(found.failure).skip_cause == "out-of-time"
    assert isinstance(next_step(arms[0], OtherBuilds(), active), StartBuild), (
        "no rule leaves out a baseline"
    )


@pytest.mark.parametrize(("budget", "is_refused"), [("10s", True), ("30s", False), ("", False)])
def test_a_budget_without_time_for_a_second_arm_is_refused_at_once(
    budget: str, is_refused: bool
) -> None:
    catalogue = builders.shipped_catalogue()
    head = builders.header(
        question=builders.question(budget=choose_budget(budget, catalogue)), catalogue=catalogue
    )
    planned = builders.plan("onnxruntime-cpu/host").arms
    arms = tuple(replace(each, expected_build_seconds=5.0) for each in planned)
    build_rules.refuse_short_budget([*arms, UNKNOWN], head)
    if is_refused:
        with pytest.raises(OptionValueError) as problem:
            build_rules.refuse_short_budget(arms, head)
        named = problem.value.next_step.partition(": other work")[0].split()[-1]
        head = replace(head, question=builders.question(budget=choose_budget(named, catalogue)))
    build_rules.refuse_short_budget(arms, head)


@pytest.mark.parametrize(
    ("building", "seconds", "now", "builds_are_over"),
    [
        ("none", 40.0, 70.0, True),
        ("second", 40.0, 70.0, False),
        ("second", 60.0, 70.0, True),
        ("second", None, 70.0, False),
        ("second", None, 85.0, True),
        ("second", 10.0, 70.0, True),
    ],
    ids=["none", "in time", "too late", "unknown", "unknown, too late", "overdue"],
)
def test_a_build_that_is_nearly_over_may_take_longer(
    building: str, seconds: float | None, now: float, *, builds_are_over: bool
) -> None:
    arms = [
        builders.arm(BASELINE),
        builders.arm("first"),
        builders.arm("second", expected_build_seconds=seconds),
    ]
    process = ProcessState(building_since=40.0)
    plan = Plan(arms=tuple(arms), excluded=())
    state = builders.run_state({"second": process}, plan=plan, at=now)
    session = StillSession([building], [BASELINE, "first"], clock=lambda: now)
    budget = replace(builders.question().budget, race_share=0.7)
    active = active_of(session, state, builders.question(budget=budget), seconds=100.0)
    assert build_rules.builds_are_over(active) is builds_are_over


def test_the_limit_is_the_time_of_the_fastest_built_arm_at_its_slowest_size() -> None:
    gone = Outcome(Failure("crashed", phase="measure", reason="gone"))
    crashed = builders.process(*builders.visits([0.01], 1), built={}, outcome=gone)
    cheap = builders.process(
        *builders.visits([0.01], 1), *builders.visits([0.01], 4), built={}, outcome=Outcome()
    )
    others: Any = {"cheap": cheap, "crashed": crashed}
    for built, build_seconds in ((None, 6.0), (others, 0.0)):
        state = builders.run_state({BASELINE: BUILT, **(built or {}), "compiled": ()})
        active = active_of(StillSession(), state, WITH_REQUESTS)
        limit = builders.known(payback_limit("compiled", active))
        assert limit.seconds == pytest.approx(build_seconds + 1000 * 0.0125)


@pytest.mark.parametrize(
    ("arm", "built", "question"),
    [
        ("compiled", [BASELINE], builders.question()),
        ("compiled", [], WITH_REQUESTS),
        (BASELINE, ["compiled"], WITH_REQUESTS),
        (DUPLICATE, ["compiled"], WITH_REQUESTS),
    ],
    ids=["no number of requests", "no built arm", "baseline", "duplicate"],
)
def test_some_arms_have_no_payback_limit(arm: str, built: list[str], question: Question) -> None:
    state = builders.run_state({arm: (), **dict.fromkeys(built, BUILT)})
    assert payback_limit(arm, active_of(StillSession(), state, question)) is None


@pytest.mark.slow
def test_a_build_that_cannot_pay_back_is_killed_and_the_others_race(context: Context) -> None:
    asked = sessions.short_options("quick,misbehaving/hangs", max_build_seconds=60.0, requests=500)
    run = sessions.execute_run(context, asked)
    answer = answer_of_run(run)
    (killed,) = run.state().processes["misbehaving/hangs"]
    assert "--requests" in (sessions.expect_failure(killed.outcome, "timed-out").fix or "")
    assert "quick" in answer.results.by_arm
