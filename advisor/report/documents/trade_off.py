"""The Pareto front of speed, accuracy and memory in a run with quantised arms or a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from advisor.domain.check_events import worst_error
from advisor.report.documents.document import TradeOff
from advisor.report.documents.workflow_entry import WorkflowEntry


def find_trade_offs(entries: Sequence[WorkflowEntry]) -> tuple[TradeOff, ...]:
    """Return the ranked arms, and whether each is on the front.

    Empty without a quantised arm or a metric.
    """
    ranked = [entry for entry in entries if entry.rank is not None and entry.speedup is not None]
    if not any(_may_lose(entry) for entry in ranked):
        return ()
    native = [each.weight_bytes or 0 for each in ranked if each.numerics == "native"]
    largest = max(native, default=0)
    rows = [_row(entry, largest) for entry in ranked]
    return tuple(
        msgspec.structs.replace(row, on_front=not any(_dominates(other, row) for other in rows))
        for row in rows
    )


def _may_lose(entry: WorkflowEntry) -> bool:
    """Return whether the arm is quantised, or has a value of the user's metric."""
    loss = entry.trained_loss
    return entry.numerics == "quantised" or (loss is not None and loss.metric is not None)


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


def _row(entry: WorkflowEntry, native_bytes: int) -> TradeOff:
    checks = entry.correctness.by_batch_size if entry.correctness else ()
    cosines = [each.accuracy.cosine for each in checks if each.accuracy]
    known = [cosine for cosine in cosines if cosine is not None]
    return TradeOff(
        arm=entry.arm,
        weights=entry.weights,
        speedup=entry.speedup.value if entry.speedup else 0.0,
        error=worst_error(checks),
        cosine=min(known, default=None),
        loss_class=entry.trained_loss.loss_class if entry.trained_loss else None,
        weight_bytes=entry.weight_bytes,
        weight_share=entry.weight_bytes / native_bytes
        if entry.weight_bytes and native_bytes
        else None,
    )
