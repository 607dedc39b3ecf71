"""Accuracy against speed and memory: native and quantised arms in one table."""

from __future__ import annotations

from advisor.domain.accuracy import TrainedLoss
from advisor.report.documents.document import RunDocument
from advisor.report.formatting.accuracy_text import format_error
from advisor.report.formatting.tabular import plain_table
from advisor.system.number_format import (
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


def table_rows(document: RunDocument) -> list[list[str]]:
    """Return the rows of the table as text, in the order of the ranks."""
    losses = {entry.arm: entry.trained_loss for entry in document.workflows}
    return [
        [
            row.arm,
            row.weights or "native",
            f"{row.speedup:.2f}x",
            MISSING if row.error is None else format_error(row.error),
            format_number(row.cosine, decimals=5),
            _class_cell(losses.get(row.arm)),
            format_mebibytes(row.weight_bytes),
            MISSING if row.weight_share is None else format_share(row.weight_share),
            "*" if row.on_front else "",
        ]
        for row in document.trade_off
    ]


def _class_cell(loss: TrainedLoss | None) -> str:
    if loss is None:
        return MISSING
    return loss.loss_class or WITHOUT_CLASS[loss.basis]


def titled_tables(document: RunDocument) -> list[tuple[str, list[list[str]]]]:
    """Return the table with its title, the head as its first row; empty without a table."""
    rows = table_rows(document)
    return [(f"{TITLE}. {LEGEND[0].upper()}{LEGEND[1:]}.", [list(HEAD), *rows])] if rows else []


def trade_off_lines(document: RunDocument) -> list[str]:
    """Return the table, its legend and the losses along a text; nothing without a table."""
    if not document.trade_off:
        return []
    return [
        f"{TITLE}:",
        *(
            f"  {line}"
            for line in plain_table([[*HEAD], *table_rows(document)], text_columns={0, 1})
        ),
        f"  {LEGEND}",
        *(f"  {line}" for line in loss_lines(document)),
    ]


def loss_lines(document: RunDocument) -> list[str]:
    """Return one line for each arm whose losses of a trained model are known."""
    return [
        line
        for entry in document.workflows
        if entry.trained_loss is not None
        for line in _loss(entry.arm, entry.trained_loss)
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
