"""Accuracy against speed and memory: native and quantised arms in one table."""

from __future__ import annotations

import math

import msgspec

from advisor.domain.accuracy import TrainedLoss, worst_error
from advisor.domain.answer import Answer
from advisor.domain.measurement import Measurement
from advisor.domain.question import WeightFormat
from advisor.domain.results import ScoredArm
from advisor.report.formatting import Table, format_error
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


class TradeOff(msgspec.Struct, frozen=True, kw_only=True):
    """Speed, accuracy and memory of a ranked arm, in a run with quantised arms or a metric."""

    arm: str
    #: Format of its quantised weights; None for a native arm.
    weights: WeightFormat | None
    speedup: float
    #: Largest relative error, or divergence of text.
    error: float | None
    cosine: float | None
    loss: TrainedLoss | None
    weight_bytes: int | None
    #: Its weights' bytes over those of the native arms.
    weight_share: float | None
    #: Whether no other arm is at least as fast, as exact and as small, and better in one of them.
    on_front: bool = False


def find_trade_offs(answer: Answer) -> tuple[TradeOff, ...]:
    """Return the ranked arms, and whether each is on the Pareto front.

    Empty without a quantised arm or a metric.
    """
    ranked = answer.ranked
    if not any(_may_lose(arm, measured) for arm, measured in ranked):
        return ()
    native = [measured.weight_bytes or 0 for arm, measured in ranked if arm.weights is None]
    rows = [_row(arm, measured, max(native, default=0)) for arm, measured in ranked]
    return tuple(
        msgspec.structs.replace(row, on_front=not any(_dominates(other, row) for other in rows))
        for row in rows
    )


def _may_lose(arm: ScoredArm, measured: Measurement) -> bool:
    """Return whether the arm is quantised, or has a value of the user's metric."""
    loss = measured.trained_loss
    return arm.weights is not None or (loss is not None and loss.metric is not None)


def _row(arm: ScoredArm, measured: Measurement, native_bytes: int) -> TradeOff:
    cosines = [each.accuracy.cosine for each in measured.correctness]
    known = [cosine for cosine in cosines if cosine is not None]
    stored = measured.weight_bytes
    return TradeOff(
        arm=arm.arm,
        weights=arm.weights,
        speedup=arm.speedup,
        error=worst_error(measured.correctness),
        cosine=min(known, default=None),
        loss=measured.trained_loss,
        weight_bytes=stored,
        weight_share=stored / native_bytes if stored and native_bytes else None,
    )


def _dominates(other: TradeOff, row: TradeOff) -> bool:
    """Return whether `other` is nowhere worse and somewhere better; unknown figures are worst."""
    pairs = [
        (-other.speedup, -row.speedup),
        *(
            tuple(math.inf if value is None else float(value) for value in values)
            for values in ((other.error, row.error), (other.weight_bytes, row.weight_bytes))
        ),
    ]
    return all(one <= two for one, two in pairs) and any(one < two for one, two in pairs)


def table_rows(answer: Answer) -> list[list[str]]:
    """Return the rows of the table as text, in the order of the ranks."""
    return [
        [
            row.arm,
            row.weights or "native",
            f"{row.speedup:.2f}x",
            MISSING if row.error is None else format_error(row.error),
            format_number(row.cosine, decimals=5),
            _class_cell(row.loss),
            format_mebibytes(row.weight_bytes),
            MISSING if row.weight_share is None else format_share(row.weight_share),
            "*" if row.on_front else "",
        ]
        for row in find_trade_offs(answer)
    ]


def _class_cell(loss: TrainedLoss | None) -> str:
    if loss is None:
        return MISSING
    return loss.loss_class or WITHOUT_CLASS[loss.basis]


def tables(answer: Answer) -> list[Table]:
    """Return the table with the losses along a text; none without rows."""
    rows = table_rows(answer)
    if not rows:
        return []
    return [Table("accuracy", TITLE, [HEAD, *rows], (LEGEND, *loss_lines(answer)), {0, 1})]


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
