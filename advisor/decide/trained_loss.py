"""Summarise what an arm loses of a trained model, and classify it by the pessimistic bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from advisor.decide.intervals import CONFIDENCE
from advisor.domain import accuracy
from advisor.domain.model import has_random_weights
from advisor.domain.question import Question
from advisor.domain.results import Results
from advisor.domain.run_state import ProcessState, RunState
from probes.accuracy import TextScores, UserMetric

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def add_losses(
    results: Results, state: RunState, question: Question, rule: accuracy.LossRule
) -> Results:
    baseline = state.last_ready_process(results.baseline, repeat=0)
    return msgspec.structs.replace(
        results,
        measurements=tuple(
            msgspec.structs.replace(
                each,
                trained_loss=summarise_loss(
                    state.last_ready_process(each.arm, repeat=0) or ProcessState(),
                    baseline,
                    question,
                    rule,
                ),
            )
            for each in results.measurements
        ),
    )


def summarise_loss(
    process: ProcessState,
    baseline: ProcessState | None,
    question: Question,
    rule: accuracy.LossRule,
) -> accuracy.TrainedLoss:
    scores = process.text_scores
    text = summarise_text(scores, rule, question.seed) if scores else None
    metric = compare_metric(process.user_metric, baseline.user_metric if baseline else None)
    recovery = metric.recovery if metric is not None else None
    if recovery is not None:
        found = classify(rule, lambda limits: recovery >= limits.recovery)
        return accuracy.TrainedLoss(basis="metric", loss_class=found, text=text, metric=metric)
    if text is not None:
        found = classify(rule, lambda limits: meets(text, limits))
        return accuracy.TrainedLoss(basis="text", loss_class=found, text=text, metric=metric)
    is_random = has_random_weights(question.model)
    return accuracy.TrainedLoss(
        basis="needs-real-weights" if is_random else "not-measured", metric=metric
    )


def classify(
    rule: accuracy.LossRule, is_met: Callable[[accuracy.LossLimits], bool]
) -> accuracy.LossClass:
    return next((name for name in accuracy.LIMITED_CLASSES if is_met(rule.classes[name])), "worse")


def meets(text: accuracy.TextLoss, limits: accuracy.LossLimits) -> bool:
    return (
        text.perplexity_ratio.bound <= limits.perplexity_ratio
        and (limits.divergence is None or text.divergence.bound <= limits.divergence)
        and (limits.same_top is None or text.same_top.bound >= limits.same_top)
    )


def summarise_text(scores: TextScores, rule: accuracy.LossRule, seed: int) -> accuracy.TextLoss:
    """Return the figures in excess of eager PyTorch's, with bounds from resampled sequences."""
    import numpy as np

    divergence, same_top, loss = (
        np.subtract(getattr(scores, name), getattr(scores, f"{name}_eager"))
        for name in ("divergence", "same_top", "loss")
    )
    count = len(divergence)
    chosen = np.random.default_rng(seed).integers(0, count, size=(rule.draws, count))

    def bounded(
        values: npt.NDArray[np.float64], share: float, convert: Callable[[float], float]
    ) -> accuracy.BoundedFigure:
        bound = float(np.quantile(values[chosen].mean(axis=1), share))
        return accuracy.BoundedFigure(value=convert(float(values.mean())), bound=convert(bound))

    return accuracy.TextLoss(
        source=scores.source,
        sequences=count,
        positions=scores.positions,
        divergence=bounded(divergence, CONFIDENCE, lambda value: max(value, 0.0)),
        same_top=bounded(same_top, 1 - CONFIDENCE, lambda value: min(1.0 + value, 1.0)),
        perplexity_ratio=bounded(loss, CONFIDENCE, math.exp),
        is_incomplete=scores.is_incomplete,
    )


def compare_metric(
    own: UserMetric | None, baseline: UserMetric | None
) -> accuracy.MetricLoss | None:
    if own is None:
        return None
    reference = baseline.value if baseline else None
    recovery = None
    if own.value is not None and reference is not None and reference > 0:
        recovery = own.value / reference
    return accuracy.MetricLoss(
        value=own.value, baseline=reference, recovery=recovery, problem=own.problem
    )
