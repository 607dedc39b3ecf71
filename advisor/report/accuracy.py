"""Accuracy against speed and memory: native and quantised arms in one table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.decide.trust import is_unfit
from advisor.domain.accuracy import TrainedLoss, is_of_likeliest, worst_error
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import Measurement
from advisor.report.formatting import ReportTable, format_error
from advisor.report.ranking import speed_or_range
from advisor.text_format import (
    MISSING,
    format_mebibytes,
    format_number,
    format_share,
)

HEAD = (
    "arm",
    "weights",
    "speed-up",
    "error",
    "cosine",
    "class",
    "weights MiB",
    "of native",
    "front",
)
#: What the column `class` has where an arm has none.
WITHOUT_CLASS = {"needs-real-weights": "needs real weights", "not-measured": MISSING}
TITLE = "Accuracy against speed and memory"
LEGEND = (
    "class: what is lost of a trained model, A least; front: no other arm is at least as fast, as "
    "exact and as small"
)


def _may_lose(arm: RankedArm) -> bool:
    """Return whether the arm is quantised, or has a value of the user's metric."""
    loss = arm.measured.trained_loss
    return arm.scored.weights is not None or (loss is not None and loss.metric is not None)


def arms_on_front(ranked: Sequence[RankedArm]) -> set[str]:
    """Return the arms that no other arm dominates in speed, exactness and size."""
    costs = {
        arm.arm: tuple(
            math.inf if cost is None else float(cost)
            for cost in (
                -arm.scored.speedup,
                worst_error(arm.measured.correctness),
                arm.measured.weight_bytes,
            )
        )
        for arm in ranked
    }
    return {
        arm
        for arm, own in costs.items()
        if not any(
            other != own and all(theirs <= ours for theirs, ours in zip(other, own, strict=True))
            for other in costs.values()
        )
    }


def table_rows(answer: Answer) -> list[list[str]]:
    """Return the rows of the table as text, in the order of the ranks.

    Empty without a quantised arm or a metric.
    """
    ranked = answer.ranked
    if not any(map(_may_lose, ranked)):
        return []
    sizes = [arm.measured.weight_bytes or 0 for arm in ranked if arm.scored.weights is None]
    native, front = max(sizes, default=0), arms_on_front(ranked)
    return [
        [
            arm.arm,
            arm.scored.weights or "native",
            speed_or_range(arm.speedup, unfit=is_unfit(answer.results)),
            _write_error(arm.measured, error),
            format_number(_least_cosine(arm.measured), decimals=5),
            _class_cell(arm.measured.trained_loss),
            format_mebibytes(size),
            format_share(size / native) if size and native else MISSING,
            "*" if arm.arm in front else "",
        ]
        for arm in ranked
        for error, size in [(worst_error(arm.measured.correctness), arm.measured.weight_bytes)]
    ]


def _write_error(measured: Measurement, error: float | None) -> str:
    """Return the error, marked where it is a divergence over other tokens than eager PyTorch's."""
    if error is None:
        return MISSING
    mark = " (likeliest tokens)" if is_of_likeliest(measured.correctness) else ""
    return f"{format_error(error)}{mark}"


def _least_cosine(measured: Measurement) -> float | None:
    known = (each.accuracy.cosine for each in measured.correctness)
    return min((cosine for cosine in known if cosine is not None), default=None)


def _class_cell(loss: TrainedLoss | None) -> str:
    if loss is None:
        return MISSING
    return loss.loss_class or WITHOUT_CLASS[loss.basis]


def tables(answer: Answer) -> list[ReportTable]:
    """Return the table with the losses along a text; none without rows."""
    rows = table_rows(answer)
    if not rows:
        return []
    return [ReportTable("accuracy", TITLE, [HEAD, *rows], (LEGEND, *loss_lines(answer)), {0, 1})]


def loss_lines(answer: Answer) -> list[str]:
    """Return one line for each arm whose losses of a trained model are known."""
    return [
        line
        for arm, measured in answer.ranked
        if measured.trained_loss is not None
        for line in _loss(arm.arm, measured.trained_loss)
    ]


def _loss(arm: str, loss: TrainedLoss) -> list[str]:
    lines = []
    if loss.text is not None:
        text = loss.text
        least = " (of the tokens that the engine reports)" if text.is_incomplete else ""
        lines.append(
            f"{arm}: along {text.positions:,} tokens {text.source}, beyond eager PyTorch{least}: "
            f"perplexity ratio {text.perplexity_ratio.value:.4f} "
            f"(95 %: {text.perplexity_ratio.bound:.4f}), divergence "
            f"{format_error(text.divergence.value)} nats ({format_error(text.divergence.bound)}), "
            f"same likeliest token {format_share(text.same_top.value, decimals=1)} "
            f"({format_share(text.same_top.bound, decimals=1)})"
        )
    if loss.metric is not None:
        metric = loss.metric
        recovery = format_share(metric.recovery, decimals=2)
        lines.append(
            f"{arm}: your metric {metric.value:.6g}, {recovery} of the baseline's"
            if metric.value is not None and metric.recovery is not None
            else f"{arm}: your metric has no comparison: {metric.problem or 'no positive baseline'}"
        )
    return lines
