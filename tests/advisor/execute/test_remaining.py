"""Which arms are still to build: what is expected of them, and which bring nothing."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import builders
import pytest
from builders import BASELINE, replace
from built_answers import with_decision, with_question, with_results
from kept.runs import NAMES, decide_run, read_run
from simulation import SimulatedSession, active_of

from advisor.ask import catalogue_files
from advisor.decide.answers import answer_from_results
from advisor.domain.answer import Answer
from advisor.domain.catalogue import EarlierRuns
from advisor.domain.constraints import Priorities
from advisor.domain.plan import REFERENCE, Arm, Plan
from advisor.domain.workflow import DeclaredArm
from advisor.execute import remaining
from advisor.execute.expected_builds import with_expected_builds
from advisor.execute.remaining import arms_that_cannot_lead, failure_of_sibling
from advisor.store.runs import Run
from advisor.store.store import Store
from probes.outcome import Failure, FailureStatus, Outcome, Phase

FIGURES = {
    arm: EarlierRuns(build_seconds=seconds, largest_speedup=2.0)
    for arm, seconds in (("pytorch-eager", 0.1), ("compiled", 20.0), ("compiled/short", 10.0))
}
WITH_FIGURES = builders.header(
    catalogue=builders.catalogue(builders.workflow("compiled"), earlier_runs={"cpu": FIGURES})
)


def test_figures_of_the_catalogue_are_used_without_a_stored_run(tmp_path: pathlib.Path) -> None:
    plan = builders.plan("compiled", "compiled/other", "unknown")
    found = with_expected_builds(plan.arms, WITH_FIGURES, Store(tmp_path))
    assert {each.id: each.expected_build_seconds for each in found} == {
        "pytorch-eager": 0.1,
        "pytorch-eager#duplicate": 0.1,
        "compiled": 20.0,
        "compiled/other": 15.0,
        "unknown": None,
    }
    gains = {each.id: each.possible_points for each in found if each.workflow != BASELINE}
    gain = builders.known(gains["compiled"])
    assert gain > 0
    assert gains == {"compiled": gain, "compiled/other": gain, "unknown": None}


def test_a_stored_run_of_the_same_question_comes_first(home: pathlib.Path, made_run: Run) -> None:
    header = replace(made_run.header(), run_id="20991231-000000-0000")
    (built,) = made_run.state().processes["compiled"][0].built.values()
    total = built.build_seconds + built.first_call_seconds
    planned = builders.plan("compiled", "broken").arms
    *_, compiled, broken = with_expected_builds(planned, header, Store(home))
    assert compiled.expected_build_seconds == round(total, 1)
    assert broken.expected_build_seconds is None, "it was not built"


def points_of(arm: str, tmp_path: pathlib.Path, **priorities: float) -> float:
    header = builders.header(
        catalogue=builders.shipped_catalogue(),
        question=builders.question(priorities=Priorities(**priorities)),
    )
    (found,) = with_expected_builds(
        [each for each in builders.plan(arm).arms if each.id == arm], header, Store(tmp_path)
    )
    return builders.known(found.possible_points)


def test_what_an_arm_may_gain_depends_on_the_weights(tmp_path: pathlib.Path) -> None:
    """AOTInductor was at most faster than `torch.compile`, but needs an export."""
    by_speed = {"performance": 100.0, "productivity": 0.0, "portability": 0.0}
    by_effort = {"performance": 50.0, "productivity": 50.0, "portability": 0.0}
    first, other = "aotinductor", "torch-compile-inductor"
    assert points_of(first, tmp_path, **by_speed) > points_of(other, tmp_path, **by_speed)
    assert points_of(first, tmp_path, **by_effort) < points_of(other, tmp_path, **by_effort)


@pytest.mark.parametrize(
    ("layers", "asked", "added"),
    [
        (1, {}, []),
        (2, {}, ["images/channels-last"]),
        (2, {"workflows": ("images",)}, ["images/channels-last"]),
        (2, {"workflows": ("others",)}, []),
        (2, {"leave_out": ("images/channels-last",)}, []),
    ],
)
def test_arms_for_convolutions_are_added_if_the_model_has_several(
    layers: int, asked: dict[str, Any], added: list[str]
) -> None:
    images = builders.workflow(
        "images",
        arms={
            "default": DeclaredArm(),
            "channels-last": DeclaredArm(called_for="convolutions"),
            "text": DeclaredArm(called_for="convolutions", tasks=("generate",)),
        },
    )
    figures = {"cpu": {"images/channels-last": EarlierRuns(build_seconds=7.0)}}
    header = builders.header(
        question=builders.question(**asked),
        catalogue=builders.catalogue(images, earlier_runs=figures),
    )
    process = builders.process()
    opened = builders.replace(builders.known(process.opened), convolutions=layers)
    reference = builders.replace(process, opened=opened)
    state = builders.run_state({"images": process, REFERENCE: reference})
    session = SimulatedSession({BASELINE: 0.0})
    active = active_of(session, state, header.question, header=header)
    found = remaining.arms_to_add(active)
    arms = [planned for each in found for planned in each.added]
    assert [each.id for each in arms] == added
    assert [each.expected_build_seconds for each in arms] == [7.0] * len(added)
    for each in found:
        active.recorder.record(each)
    assert remaining.arms_to_add(active) == []


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
        ("unsupported", "open", {"dtypes": ("float32",), "options": {"file": 1}}, True),
        ("unsupported", "build", {"options": {"file": 1, "free": True}}, False),
        ("unsupported", "build", {"options": {"free": True}}, True),
        ("build-failed", "build", {}, True),
        ("build-failed", "build", {"artefact": "file"}, False),
        ("out-of-memory", "build", {"artefact": "file"}, True),
        ("not-engaged", "correctness", {"options": {"file": 1, "mode": "fast"}}, False),
    ],
)
def test_an_arm_that_would_fail_like_its_sibling_is_not_built(
    status: FailureStatus, phase: Phase, same: dict[str, Any], *, is_built: bool
) -> None:
    failure = Failure(status, phase, "a reason of the stack")
    first = builders.arm("engine", artefact="file", options={"file": 1})
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
            status="not-reached",
        )
        for arm in arms
    )
    so_far = replace(answer, unmeasured=(*answer.unmeasured, *waiting))
    return answer_from_results(with_results(so_far, measurements=kept), KNOWN)


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
    assert left_out(answer, leave_out=("pytorch-eager/cuda-graph",)) == {arm}
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
    negligible, lost = catalogue_files.load().rubric.decision.negligible_loss, {}
    for run in NAMES:
        answer = decide_run(run)
        advised = answer.advised
        if advised is None or advised.arm == answer.results.baseline or answer.question.load:
            continue  # A server has no build that could be left out.
        other = without(answer, advised.arm)
        if left_out(other):
            lost[run] = advised.scored.score - builders.known(other.advised).scored.score
    assert lost
    assert {run: points for run, points in lost.items() if points > negligible} == {}


def test_no_arm_is_left_out_while_the_decision_is_open() -> None:
    answer = without(read_run("h200-minilm-float32"), "torch-tensorrt")
    assert left_out(with_decision(answer, word="OPEN")) == set()
