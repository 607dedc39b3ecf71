"""Which builds are ended or left out, what they wait for, and when they pause for a race."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import builders
import pytest
import sessions
from builders import BASELINE, DUPLICATE, replace
from simulation import SimulatedSession, progress_of

from advisor.ask.context import Context
from advisor.ask.resolve import choose_budget
from advisor.domain.errors import OptionValueError
from advisor.domain.plan import Arm, Plan
from advisor.domain.question import Question
from advisor.domain.run_state import RunState
from advisor.execute import build_limits
from advisor.execute.run_in_progress import RunInProgress
from advisor.probing.worker_process import BuildLimit
from advisor.report.answer_files import decide
from probes.outcome import Failure, FailureStatus, Outcome, Phase

#: Builds of 3 s for each batch size; calls of 10 ms, of which the limit assumes 12.5 ms.
BUILT = builders.process(*builders.visits([0.01], 1), *builders.visits([0.01], 4))
WITH_REQUESTS = builders.question(batch_sizes=(1, 4), requests=1000)


def seconds(state: RunState, arm: str, question: Question = WITH_REQUESTS) -> float:
    limit = builders.known(build_limits.limit_build(state, arm, question))
    return limit.seconds


def test_the_limit_is_the_time_of_a_built_arm_for_all_requests_at_its_slowest_size() -> None:
    state = builders.run_state({BASELINE: BUILT, "compiled": ()})
    assert seconds(state, "compiled") == pytest.approx(6.0 + 1000 * 0.0125)


def test_the_limit_comes_from_the_fastest_built_arm() -> None:
    crashed = builders.process(
        *builders.visits([0.01], 1),
        built={},
        outcome=Outcome(Failure("crashed", phase="measure", reason="gone")),
    )
    cheap = builders.process(
        *builders.visits([0.01], 1), *builders.visits([0.01], 4), built={}, outcome=Outcome()
    )
    state = builders.run_state(
        {BASELINE: BUILT, "cheap": cheap, "crashed": crashed, "compiled": ()}
    )
    assert seconds(state, "compiled") == pytest.approx(12.5)


@pytest.mark.parametrize("arm", [BASELINE, DUPLICATE])
def test_the_baseline_and_its_duplicate_have_no_limit(arm: str) -> None:
    state = builders.run_state({BASELINE: BUILT, "compiled": BUILT, DUPLICATE: ()})
    assert build_limits.limit_build(state, arm, WITH_REQUESTS) is None


@pytest.mark.parametrize(
    ("baseline", "question"),
    [
        pytest.param(BUILT, builders.question(), id="no number of requests"),
        pytest.param((), WITH_REQUESTS, id="no built arm"),
    ],
)
def test_a_payback_limit_needs_a_number_of_requests_and_a_built_arm(
    baseline: Any, question: Question
) -> None:
    state = builders.run_state({BASELINE: baseline, "compiled": ()})
    assert build_limits.limit_build(state, "compiled", question) is None


@pytest.mark.slow
def test_a_build_that_cannot_pay_back_is_killed_and_the_others_race(context: Context) -> None:
    asked = sessions.short_options("quick,misbehaving/hangs", max_build_seconds=60.0, requests=500)
    run = sessions.execute_run(context, asked)
    answer = decide(run)
    (killed,) = run.state().processes["misbehaving/hangs"]
    assert "--requests" in (sessions.expect_failure(killed.outcome, "timed-out").fix or "")
    assert "quick" in answer.measurements


def in_progress(state: RunState, question: Question, left: float = math.inf) -> RunInProgress:
    """Return a run with so many seconds left for builds."""
    return progress_of(SimulatedSession({BASELINE: 0.0}), state, question, races_end=left)


@pytest.mark.parametrize(("expected", "starts"), [(20.0, True), (50.0, False)])
def test_a_build_that_took_far_longer_than_its_limit_is_not_started(
    expected: float, *, starts: bool
) -> None:
    """A payback limit in seconds says nothing to users, and is often rounded to none."""
    state = builders.run_state({BASELINE: BUILT, "compiled": ()})
    planned = builders.arm("compiled", expected_build_seconds=expected)
    found = build_limits.limit_or_skip(in_progress(state, WITH_REQUESTS), planned)
    if starts:
        assert isinstance(found, BuildLimit)
    else:
        assert isinstance(found, Failure)
        assert found.skip_cause == "build-limit"
        assert f"{expected:g} s" in found.reason
        assert "1,000 requests" in found.reason


def limit_after(failures: Mapping[str, Failure], *arms: Arm) -> BuildLimit | Failure | None:
    """Return the limit of the last of these arms, or the failure in its place."""
    state = builders.run_state(
        {arm: builders.process(outcome=Outcome(each)) for arm, each in failures.items()},
        plan=Plan(arms=(builders.arm(BASELINE), *arms), excluded=()),
    )
    return build_limits.limit_or_skip(in_progress(state, builders.question()), arms[-1])


@pytest.mark.parametrize(
    ("status", "phase", "same", "is_built"),
    [
        ("unsupported", "open", {}, False),
        ("unsupported", "open", {"dtypes": ("float32",)}, True),
        ("build-failed", "build", {}, True),
        ("build-failed", "build", {"artefact": "file"}, False),
        ("out-of-memory", "build", {"artefact": "file"}, True),
        ("not-engaged", "correctness", {"options": {"mode": "fast"}}, False),
    ],
)
def test_an_arm_that_would_fail_like_its_sibling_is_not_built(
    status: FailureStatus, phase: Phase, same: dict[str, Any], *, is_built: bool
) -> None:
    failure = Failure(status, phase, "a reason of the stack")
    first = builders.arm("engine", artefact="file")
    second = builders.arm("engine/fed", workflow="engine", **same)
    assert limit_after({"engine": failure}, first, second) == (None if is_built else failure)


@pytest.mark.parametrize(
    ("status", "second_reason", "is_built"),
    [
        ("not-engaged", "nothing was captured", False),
        ("not-engaged", "no CUDA graph was captured", True),
        ("out-of-memory", "nothing was captured", True),
    ],
)
def test_an_arm_is_not_built_where_two_of_its_workflow_failed_alike(
    status: FailureStatus, second_reason: str, *, is_built: bool
) -> None:
    reasons = {"compile": "nothing was captured", "compile/graph": second_reason}
    failures = {arm: Failure(status, "correctness", reason) for arm, reason in reasons.items()}
    arms = [
        builders.arm(arm, workflow="compile", options={"mode": arm})
        for arm in (*failures, "compile/third")
    ]
    assert limit_after(failures, *arms) == (None if is_built else failures["compile"])


@pytest.mark.parametrize(
    ("left", "expected", "slowness", "is_built"),
    [
        (34.0, 30.0, 1.0, False),
        (36.0, 30.0, 1.0, True),
        (36.0, 30.0, 2.0, False),
        (BUILT.build_seconds + 4.0, 0.1, 1.0, False),
        (BUILT.build_seconds + 6.0, 0.1, 0.5, True),
    ],
)
def test_a_build_that_cannot_end_in_time_is_left_out(
    left: float, expected: float, slowness: float, is_built: bool
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
        last_groups={1: (BASELINE,)},
    )
    found = build_limits.limit_or_skip(in_progress(state, builders.question(), left), planned)
    assert (found is None) == is_built
    if isinstance(found, Failure):
        assert found.skip_cause == "out-of-time"


@pytest.mark.parametrize(("budget", "is_refused"), [("10s", True), ("30s", False), ("", False)])
def test_a_budget_without_time_for_a_second_arm_is_refused_at_once(
    budget: str, is_refused: bool
) -> None:
    catalogue = builders.shipped_catalogue()
    head = builders.header(
        question=builders.question(budget=choose_budget(budget, catalogue)), catalogue=catalogue
    )
    plan = builders.plan("onnxruntime-cpu/host")
    arms = tuple(replace(each, expected_build_seconds=5.0) for each in plan.arms)
    unknown = builders.arm("unknown")
    build_limits.refuse_short_budget([*arms, unknown], head)
    if is_refused:
        with pytest.raises(OptionValueError) as problem:
            build_limits.refuse_short_budget(arms, head)
        named = problem.value.next_step.partition(": other work")[0].split()[-1]
        question = builders.question(budget=choose_budget(named, catalogue))
        head = replace(head, question=question)
    build_limits.refuse_short_budget(arms, head)
