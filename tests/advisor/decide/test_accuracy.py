"""Arms that are less exact or quantised: what they lose, and what the advice says about them."""

from __future__ import annotations

import math
from typing import Any

import builders
import built_answers
import numpy as np
import pytest
from builders import BASELINE, DEMO, replace
from golden_files import Expect

from advisor.decide.answers import answer_from_results
from advisor.decide.diagnosis import find_lower_precision
from advisor.decide.trained_loss import summarise_loss
from advisor.domain.answer import AdvisedAnswer
from advisor.domain.constraints import Constraint
from advisor.domain.measurement import Measurement
from advisor.domain.model import FactoryModel, Model
from advisor.domain.run_state import ProcessState
from advisor.domain.workflow import DeclaredArm, Workflow
from advisor.report.advice_lines import trust_reasons
from advisor.report.advised_arm import describe_precision
from probes.accuracy import Accuracy, AccuracyClass, Checked, Fault, TextScores, UserMetric

CLOSE = Accuracy(fault="error", relative_error=2.1e-3, ratio_to_eager=7.0)


def with_accuracy(
    name: str, speedup: float, accuracy_class: str, accuracy: Accuracy
) -> Measurement:
    checks = (builders.checked(accuracy_class=accuracy_class, accuracy=accuracy),)
    return builders.measurement(name, speedup=speedup, correctness=checks)


FAST = with_accuracy("fast", 4.0, "close", CLOSE)
SAFE = with_accuracy("safe", 2.0, "exact", Accuracy(relative_error=1e-7))


def advise_by_accuracy(
    *arms: Measurement,
    baseline: tuple[Checked, ...] = (),
    workflows: tuple[Workflow, ...] = (),
    **asked: Any,
) -> AdvisedAnswer:
    first = builders.measurement(BASELINE, speedup=1.0)
    results = builders.results(replace(first, correctness=baseline or first.correctness), *arms)
    head = built_answers.header_for(results, *workflows, model=DEMO, **asked)
    return built_answers.advised(built_answers.answer_of(results, head))


def test_a_close_arm_may_lead_and_the_best_exact_one_is_named_with_it(expect: Expect) -> None:
    found = advise_by_accuracy(FAST, SAFE)
    assert found.advice.arm == "fast"
    assert found.advice.best_exact == "safe"
    assert len(built_answers.headline(found.answer, "accuracy")) == 1
    expect("headline-close", built_answers.headline(found.answer))


def test_of_nearly_equal_arms_of_a_workflow_the_exact_one_is_advised(expect: Expect) -> None:
    coarse, fine, slow = (
        replace(
            with_accuracy(name, speedup, accuracy_class, Accuracy(relative_error=error)),
            workflow="quantised",
        )
        for name, speedup, accuracy_class, error in (
            ("quantised/int4", 3.0, "close", 1e-3),
            ("quantised/int8", 2.9, "exact", 1e-5),
            ("quantised/int16", 2.0, "exact", 1e-7),
        )
    )
    found = advise_by_accuracy(coarse, fine, slow)
    assert (found.advice.arm, found.decision.word) == ("quantised/int8", "CLEAR")
    assert found.decision.speed_regret.arm == "quantised/int4"
    expect("headline-exact-sibling", built_answers.headline(found.answer)[1])


def test_an_exact_arm_is_named_only_if_it_meets_the_constraints() -> None:
    found = advise_by_accuracy(FAST, SAFE, constraints=(Constraint("speedup", ">=", 3.0),))
    assert (found.advice.arm, found.advice.best_exact) == ("fast", None)


@pytest.mark.parametrize(
    ("accuracy", "limit", "arm"),
    [(CLOSE, 1e-2, "fast"), (CLOSE, 1e-3, "safe"), (Accuracy(), 1.0, "safe")],
)
def test_the_accuracy_can_be_a_constraint_that_an_unknown_one_does_not_meet(
    accuracy: Accuracy, limit: float, arm: str
) -> None:
    fast = with_accuracy("fast", 4.0, "close", accuracy)
    found = advise_by_accuracy(fast, SAFE, constraints=(Constraint("accuracy", "<=", limit),))
    assert found.advice.arm == arm


@pytest.mark.parametrize(("fault", "told"), [("row-error", True), ("error", False)])
def test_what_else_keeps_outputs_from_being_exact_is_said(fault: Fault, told: bool) -> None:
    found = advise_by_accuracy(with_accuracy("fast", 4.0, "close", replace(CLOSE, fault=fault)))
    (line,) = built_answers.headline(found.answer, "accuracy")
    assert ("in a single row" in line) == told


def test_a_random_model_lowers_the_trust_and_is_named() -> None:
    random = Accuracy(fault="uncompared", uncompared={"random": 1}, outputs=2)
    unchecked = advise_by_accuracy(with_accuracy("fast", 4.0, "unchecked", random))
    checked = advise_by_accuracy(with_accuracy("fast", 4.0, "exact", Accuracy(relative_error=1e-7)))
    assert (checked.decision.word, unchecked.decision.word) == ("CLEAR", "LIKELY")
    assert unchecked.advice.trust >= checked.advice.trust
    assert set(unchecked.advice.trust_faults) > set(checked.advice.trust_faults)
    assert (unchecked.advice.best_exact, checked.advice.best_exact) == (BASELINE, "fast")
    assert built_answers.headline(unchecked.answer, "accuracy")
    assert not built_answers.headline(checked.answer, "accuracy")


def test_unchecked_outputs_of_the_advised_baseline_leave_the_choice_clear() -> None:
    slow = with_accuracy("slow", 0.5, "unchecked", Accuracy(fault="uncompared", unseen=("int",)))
    found = advise_by_accuracy(slow, baseline=slow.correctness)
    assert (found.advice.arm, found.decision.word) == (BASELINE, "CLEAR")
    assert not built_answers.headline(found.answer, "accuracy")
    assert any("type int" in reason for reason in trust_reasons(found.answer))


@pytest.mark.parametrize(
    ("accuracy_class", "compute_share", "is_lower"),
    [
        ("close", 1.49, True),
        # Rounding of another kind, or a peak that was measured in a slow moment.
        ("close", 0.9, False),
        ("close", None, False),
        ("exact", 1.49, False),
    ],
)
def test_an_inexact_arm_above_the_peak_computes_in_a_lower_precision(
    accuracy_class: AccuracyClass, compute_share: float | None, is_lower: bool
) -> None:
    measured = builders.measurement(
        "compiled",
        correctness=(builders.checked(accuracy_class=accuracy_class),),
        diagnosis=tuple(
            builders.call_diagnosis(compute_share=each) for each in (0.1, compute_share)
        ),
    )
    assert find_lower_precision([measured]) == (["compiled"] if is_lower else [])


def test_a_lower_precision_that_an_arm_has_or_pytorch_could_is_told(expect: Expect) -> None:
    diagnosis = (builders.call_diagnosis(compute_share=1.5),)
    lower = with_accuracy("rounding", 4.0, "close", CLOSE)
    lower = replace(lower, diagnosis=diagnosis)
    gpu = builders.gpu()
    found = advise_by_accuracy(lower, device="cuda", gpu=gpu.uuid, dtype="float32")
    told = {}
    for capability in ("7.5", "9.0"):
        machine = builders.gpu_machine(replace(gpu, compute_capability=capability))
        known = builders.catalogue(builders.workflow("rounding"))
        again = answer_from_results(replace(found.answer, machine=machine), known)
        told[capability] = describe_precision(built_answers.advised(again))
    expect("precision-of-float32", told)


ENGINE = builders.workflow(
    "engine", arms={"default": DeclaredArm(), "q8": DeclaredArm(weight_format="int8")}
)


def advise_quantised(native: float, quantised: float, *constraints: Constraint) -> AdvisedAnswer:
    return advise_by_accuracy(
        builders.measurement("engine", speedup=native),
        builders.measurement("engine/q8", speedup=quantised),
        workflows=(ENGINE,),
        quantised=("int8",),
        constraints=constraints,
    )


def test_the_best_native_arm_is_named_next_to_a_quantised_answer(expect: Expect) -> None:
    found = advise_quantised(2.0, 4.0)
    assert (found.advice.arm, found.advice.best_native) == ("engine/q8", "engine")
    assert len(built_answers.headline(found.answer, "quantised")) == 1
    expect("headline-quantised", built_answers.headline(found.answer))
    native = advise_quantised(4.0, 2.0)
    assert native.advice.arm == native.advice.best_native == "engine"
    assert not built_answers.headline(native.answer, "quantised")


def test_a_native_arm_that_fails_a_constraint_is_not_named() -> None:
    found = advise_quantised(2.0, 4.0, Constraint("speedup", ">=", 3.0))
    assert (found.advice.arm, found.advice.best_native) == ("engine/q8", None)


SEQUENCES = 128
TRAINED = FactoryModel(name="a:b")


def scores(ratio: float = 1.0, spread: float = 1e-4, eager: float = 0.0, **figures: Any) -> Any:
    noise = spread * np.random.default_rng(0).standard_normal(SEQUENCES)
    fixed = {
        "divergence": np.full(SEQUENCES, 1e-4) + eager,
        "same_top": np.full(SEQUENCES, 0.995),
        "loss": math.log(ratio) + noise + eager,
        "divergence_eager": np.full(SEQUENCES, eager),
        "same_top_eager": np.full(SEQUENCES, 1.0),
        "loss_eager": np.full(SEQUENCES, eager),
    }
    arrays: dict[str, Any] = {
        name: tuple(np.asarray(values)) for name, values in (fixed | figures).items()
    }
    return TextScores(source="a test", positions=4096, is_incomplete=False, **arrays)


def loss_of(
    text: Any = None, metric: Any = None, baseline: Any = None, model: Model = TRAINED
) -> Any:
    return summarise_loss(
        ProcessState(text_scores=text, user_metric=metric),
        ProcessState(user_metric=baseline),
        builders.question(seed=1, model=model),
        builders.shipped_catalogue().accuracy.losses,
    )


@pytest.mark.parametrize(
    ("ratio", "figures", "expected"),
    [
        (1.001, {}, "A"),
        (1.005, {}, "B"),
        (1.02, {}, "C"),
        (1.05, {}, "worse"),
        # What eager PyTorch loses in this precision does not count.
        (1.001, {"eager": 0.1}, "A"),
        (1.0, {"same_top": np.full(SEQUENCES, 0.98)}, "B"),
    ],
    ids=str,
)
def test_the_perplexity_and_the_likeliest_tokens_decide_the_class(
    ratio: float, figures: dict[str, Any], expected: str
) -> None:
    found = loss_of(scores(ratio, **figures))
    assert (found.basis, found.loss_class) == ("text", expected)
    assert found.text.perplexity_ratio.value == pytest.approx(ratio, rel=1e-4)
    assert found.text.divergence.value == pytest.approx(1e-4)
    assert found.text.same_top.value == pytest.approx(0.98 if "same_top" in figures else 0.995)
    assert (found.text.sequences, found.text.positions) == (SEQUENCES, 4096)


def test_the_bound_counts_and_not_the_estimate() -> None:
    steady, doubtful = (loss_of(scores(1.001, spread)) for spread in (1e-4, 0.05))
    assert steady.loss_class == "A"
    assert doubtful.loss_class != "A"
    assert doubtful.text.perplexity_ratio.bound > doubtful.text.perplexity_ratio.value


@pytest.mark.parametrize(
    ("value", "expected"), [(0.9995, "A"), (0.995, "B"), (0.98, "C"), (0.9, "worse"), (1.1, "A")]
)
def test_the_user_s_metric_overrides_the_text(value: float, expected: str) -> None:
    baseline = UserMetric(value=2.0, problem="")
    found = loss_of(scores(1.05), UserMetric(value=2 * value, problem=""), baseline)
    assert (found.basis, found.loss_class) == ("metric", expected)
    assert found.metric.recovery == pytest.approx(value)
    assert found.text is not None


@pytest.mark.parametrize("baseline", [None, 0.0, -1.0])
def test_a_metric_without_a_positive_baseline_is_no_class(baseline: float | None) -> None:
    found = loss_of(
        metric=UserMetric(value=1.0, problem=""),
        baseline=UserMetric(value=baseline, problem="") if baseline is not None else None,
    )
    assert (found.basis, found.loss_class, found.metric.recovery) == ("not-measured", None, None)


def test_random_weights_have_no_class() -> None:
    assert loss_of(model=builders.question().model).basis == "needs-real-weights"
    assert loss_of().basis == "not-measured"
