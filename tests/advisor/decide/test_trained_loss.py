"""What an arm loses of a trained model: classes by pessimistic bounds beyond eager PyTorch."""

from __future__ import annotations

import math
from typing import Any

import builders
import numpy as np
import pytest

from advisor.decide.trained_loss import summarise_loss
from advisor.domain.accuracy import LossRule
from advisor.domain.run_state import ProcessState
from probes.wire.checks import TextScores, UserMetric

SEQUENCES = 128


def rule() -> LossRule:
    shipped = builders.shipped_catalogue().accuracy
    assert shipped is not None
    assert shipped.losses is not None
    return shipped.losses


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


def loss_of(text: Any = None, metric: Any = None, baseline: Any = None, **more: Any) -> Any:
    return summarise_loss(
        ProcessState(text_scores=text, user_metric=metric),
        ProcessState(user_metric=baseline),
        rule(),
        has_random_weights=more.get("has_random_weights", False),
        seed=1,
    )


@pytest.mark.parametrize(
    ("ratio", "expected"), [(1.001, "A"), (1.005, "B"), (1.02, "C"), (1.05, "worse")]
)
def test_the_perplexity_decides_the_class(ratio: float, expected: str) -> None:
    found = loss_of(scores(ratio))
    assert (found.basis, found.loss_class) == ("text", expected)
    assert found.text.perplexity_ratio.value == pytest.approx(ratio, rel=1e-4)
    assert (found.text.sequences, found.text.positions) == (SEQUENCES, 4096)


def test_the_bound_counts_and_not_the_estimate() -> None:
    steady, doubtful = (loss_of(scores(1.001, spread)) for spread in (1e-4, 0.05))
    assert steady.loss_class == "A"
    assert doubtful.loss_class != "A"
    assert doubtful.text.perplexity_ratio.bound > doubtful.text.perplexity_ratio.value


def test_what_eager_loses_in_this_precision_does_not_count() -> None:
    found = loss_of(scores(1.001, eager=0.1))
    assert found.loss_class == "A"
    assert found.text.divergence.value == pytest.approx(1e-4)


def test_too_few_equal_likeliest_tokens_are_no_class_a() -> None:
    found = loss_of(scores(1.0, same_top=np.full(SEQUENCES, 0.98)))
    assert found.loss_class == "B"
    assert found.text.same_top.value == pytest.approx(0.98)


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
    assert loss_of(has_random_weights=True).basis == "needs-real-weights"
    assert loss_of(has_random_weights=False).basis == "not-measured"
