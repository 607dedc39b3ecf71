"""Which arms of a kept run would not have been built, had they not been measured."""

from __future__ import annotations

import msgspec
import pytest
from kept.runs import EVIDENCE, read_run

from advisor.ask import rubric_files
from advisor.decide.decision import decide_again
from advisor.decide.unmeasured import potential_of
from advisor.domain.answer import Answer, UnmeasuredArm
from advisor.execute.build_queue import arms_that_cannot_lead

KNOWN = rubric_files.load()
QUICK = KNOWN.presets.budgets["quick"]


def without(answer: Answer, *arms: str) -> Answer:
    """Return the answer as it would be if these arms had not been reached."""
    kept = tuple(each for each in answer.results.measurements if each.arm not in arms)
    waiting = tuple(
        UnmeasuredArm(
            arm=arm,
            workflow=arm.partition("/")[0],
            title=arm,
            option=arm.partition("/")[2] or "default",
            status="excluded",
            reason="not reached",
        )
        for arm in arms
    )
    results = msgspec.structs.replace(answer.results, measurements=kept)
    so_far = msgspec.structs.replace(
        answer, results=results, unmeasured=(*answer.unmeasured, *waiting)
    )
    return decide_again(so_far, KNOWN)


def left_out(answer: Answer, **question: object) -> set[str]:
    changes: dict[str, object] = {"budget": QUICK, "workflows": (), **question}
    asked = msgspec.structs.replace(answer.question, **changes)
    answer = msgspec.structs.replace(answer, question=asked)
    return set(arms_that_cannot_lead(answer, KNOWN.for_question(asked)))


@pytest.mark.parametrize(
    ("run", "arm"),
    [
        ("h200-minilm-float32.json", "torch-tensorrt"),
        ("h200-minilm-float32.json", "onnxruntime-cuda/io-binding"),
        ("h200-resnet-50-float32.json", "torch-compile-inductor"),
        ("cpu-demo.json", "torch-compile-inductor/max-autotune"),
    ],
)
def test_an_arm_that_would_not_have_led_is_not_built(run: str, arm: str) -> None:
    answer = without(read_run(run), arm)
    assert left_out(answer) == {arm}
    # Named workflows, `--all-arms` and a longer budget are exempt.
    assert left_out(answer, workflows=(arm,)) == set()
    assert left_out(answer, all_arms=True) == set()
    assert left_out(answer, budget=rubric_files.load().presets.budgets["standard"]) == set()


@pytest.mark.parametrize(
    ("run", "arm"),
    [
        ("h200-minilm-float32.json", "torch-compile-inductor/reduce-overhead"),
        ("h200-demo.json", "torch-compile-inductor/max-autotune"),
        ("cpu-demo.json", "onnxruntime-cpu/host"),
    ],
)
def test_an_arm_that_led_or_was_much_faster_is_built(run: str, arm: str) -> None:
    assert left_out(without(read_run(run), arm)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("run", [file.name for file in sorted(EVIDENCE.glob("*.json"))])
def test_where_the_advised_arm_is_left_out_another_scores_as_much(run: str) -> None:
    answer = decide_again(read_run(run), KNOWN)
    advised = answer.advised
    if advised is None or advised.arm == answer.results.baseline or answer.question.load:
        return  # A server has no build that could be left out.
    other = without(answer, advised.arm)
    if left_out(other):
        assert other.advised is not None
        near = rubric_files.load().rubric.decision.near
        assert advised.scored.score - other.advised.scored.score <= near


def test_no_arm_is_left_out_while_the_decision_is_open() -> None:
    answer = without(read_run("h200-minilm-float32.json"), "torch-tensorrt")
    assert answer.recommendation is not None
    assert answer.recommendation.certainty is not None
    certainty = msgspec.structs.replace(answer.recommendation.certainty, decision_word="OPEN")
    advice = msgspec.structs.replace(answer.recommendation, certainty=certainty)
    assert left_out(msgspec.structs.replace(answer, recommendation=advice)) == set()


def test_the_gain_over_the_sibling_limits_an_arm() -> None:
    answer = without(read_run("h200-minilm-float32.json"), "pytorch-eager/cuda-graph")
    known = KNOWN.for_question(answer.question)
    (waiting,) = (each for each in answer.unmeasured if each.status == "excluded" and each.option)
    found = potential_of(waiting, answer, known)
    assert found is not None
    assert found.sibling == "pytorch-eager"
    assert found.gain == known.earlier_runs["cuda"][waiting.arm].gains["pytorch-eager"]
    assert found.speedup == pytest.approx(1.1 * found.gain.largest)
