"""Which builds bring nothing: they cannot pay back, would fail as others did, or cannot lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import builders
import pytest
import sessions
from builders import BASELINE, DUPLICATE, replace
from built_answers import with_decision, with_question, with_results
from kept.runs import NAMES, decide_run, read_run

from advisor.ask import catalogue_files
from advisor.ask.context import Context
from advisor.decide.decision import decide_again
from advisor.domain.answer import Answer
from advisor.domain.plan import Arm, Plan
from advisor.domain.question import Question
from advisor.domain.run_state import RunState
from advisor.execute.needless_builds import arms_that_cannot_lead, failure_of_sibling, payback_limit
from advisor.report.answer_files import decide
from probes.outcome import Failure, FailureStatus, Outcome, Phase

#: Builds of 3 s for each batch size; calls of 10 ms, of which the limit assumes 12.5 ms.
BUILT = builders.process(*builders.visits([0.01], 1), *builders.visits([0.01], 4))
WITH_REQUESTS = builders.question(batch_sizes=(1, 4), requests=1000)


def seconds(state: RunState, arm: str, question: Question = WITH_REQUESTS) -> float:
    return builders.known(payback_limit(state, arm, question)).seconds


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
    assert payback_limit(state, arm, WITH_REQUESTS) is None


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
    assert payback_limit(state, "compiled", question) is None


@pytest.mark.slow
def test_a_build_that_cannot_pay_back_is_killed_and_the_others_race(context: Context) -> None:
    asked = sessions.short_options("quick,misbehaving/hangs", max_build_seconds=60.0, requests=500)
    run = sessions.execute_run(context, asked)
    answer = decide(run)
    (killed,) = run.state().processes["misbehaving/hangs"]
    assert "--requests" in (sessions.expect_failure(killed.outcome, "timed-out").fix or "")
    assert "quick" in answer.measurements


def failure_after(failures: Mapping[str, Failure], *arms: Arm) -> Failure | None:
    """Return the failure that the last of these arms would have, too."""
    state = builders.run_state(
        {arm: builders.process(outcome=Outcome(each)) for arm, each in failures.items()},
        plan=Plan(arms=(builders.arm(BASELINE), *arms), excluded=()),
    )
    return failure_of_sibling(state, arms[-1])


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
    assert failure_after({"engine": failure}, first, second) == (None if is_built else failure)


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
    assert failure_after(failures, *arms) == (None if is_built else failures["compile"])


KNOWN = catalogue_files.load()
QUICK = KNOWN.presets.budgets["quick"]


def without(answer: Answer, *arms: str) -> Answer:
    """Return the answer as it would be if these arms had not been reached."""
    kept = tuple(each for each in answer.results.measurements if each.arm not in arms)
    waiting = tuple(
        builders.unmeasured(
            arm,
            workflow=arm.partition("/")[0],
            option=arm.partition("/")[2] or "default",
            status="excluded",
        )
        for arm in arms
    )
    so_far = replace(answer, unmeasured=(*answer.unmeasured, *waiting))
    return decide_again(with_results(so_far, measurements=kept), KNOWN)


def left_out(answer: Answer, **question: object) -> set[str]:
    answer = with_question(answer, **{"budget": QUICK, "workflows": (), **question})
    return set(arms_that_cannot_lead(answer, KNOWN.for_question(answer.question)))


@pytest.mark.parametrize(
    ("run", "arm"),
    [
        ("h200-minilm-float32", "onnxruntime-cuda/io-binding"),
        ("h200-resnet-50-float32", "torch-compile-inductor"),
        ("cpu-demo", "torch-compile-inductor/max-autotune"),
    ],
)
def test_an_arm_that_would_not_have_led_is_not_built(run: str, arm: str) -> None:
    answer = without(read_run(run), arm)
    assert left_out(answer) == {arm}
    assert arm not in builders.known(answer.recommendation).decision.outstanding
    # Named workflows, `--all-arms` and a longer budget are exempt.
    assert left_out(answer, workflows=(arm,)) == set()
    assert left_out(answer, all_arms=True) == set()
    assert left_out(answer, budget=catalogue_files.load().presets.budgets["standard"]) == set()


@pytest.mark.parametrize(
    ("run", "arm"),
    [
        ("h200-minilm-float32", "torch-compile-inductor/reduce-overhead"),
        ("h100-resnet-50-bfloat16", "torch-compile-inductor/reduce-overhead-channels-last"),
        ("cpu-demo", "onnxruntime-cpu/host"),
    ],
)
def test_an_arm_that_led_or_was_much_faster_is_built(run: str, arm: str) -> None:
    assert left_out(without(read_run(run), arm)) == set()


@pytest.mark.slow
def test_where_the_advised_arm_is_left_out_another_scores_as_much() -> None:
    near, lost = catalogue_files.load().rubric.decision.near, {}
    for run in NAMES:
        answer = decide_run(run)
        advised = answer.advised
        if advised is None or advised.arm == answer.results.baseline or answer.question.load:
            continue  # A server has no build that could be left out.
        other = without(answer, advised.arm)
        if left_out(other):
            lost[run] = advised.scored.score - builders.known(other.advised).scored.score
    assert lost
    assert {run: points for run, points in lost.items() if points > near} == {}


def test_no_arm_is_left_out_while_the_decision_is_open() -> None:
    answer = without(read_run("h200-minilm-float32"), "torch-tensorrt")
    assert left_out(with_decision(answer, word="OPEN")) == set()
