"""What a fleet has answered: one cell for each model and kind of device, and the cheapest kind for each model. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.decision import RunningCost
from advisor.domain.fleet import FLEET_SCHEMA, Answered, Contention, FleetRecord
from advisor.domain.measurement import Interval, Throughput
from advisor.report.document import RunDocument, WorkflowEntry
from advisor.report.table import NOTHING, align

GONE, STOPPED = "its run is gone or cannot be read", "its run was stopped before its end"


class MatrixCell(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one model on one kind of device."""

    model: str
    kind: str
    run_id: str | None
    #: Where the counting attempt ran: the cluster's own name of the node, and the device there.
    node: str | None
    device: str | None
    attempts: int
    reason: str | None = None
    next_step: str | None = None
    arm: str | None = None
    verdict: str | None = None
    trust: str | None = None
    speedup: Interval | None = None
    #: Of the recommended arm, at the batch size where it is highest.
    throughput: Throughput | None = None
    #: The least of the recommended arm over the batch sizes, when the device has a price.
    cost: RunningCost | None = None

    @property
    def is_retried(self) -> bool:
        """Whether the answer came only after a node was lost."""
        return self.attempts > 1 and self.reason is None


class FleetDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What scripts read."""

    schema: str
    fleet_id: str
    created: str
    models: tuple[str, ...]
    kinds: tuple[str, ...]
    cells: tuple[MatrixCell, ...]
    #: The kind of device with the least cost, by model, where at least two kinds have a price.
    cheapest: dict[str, str]
    #: Whether races on several GPUs of one host ran side by side, and why; nothing where no host
    #: had several in use.
    contentions: tuple[Contention, ...] = ()


def compose(record: FleetRecord, documents: Mapping[str, RunDocument]) -> FleetDocument:
    """Join the record with the documents of its runs, by run id."""
    cells = tuple(_cell(answered, documents) for answered in reopen(record, documents).answered)
    return FleetDocument(
        schema=FLEET_SCHEMA,
        fleet_id=record.order.fleet_id,
        created=record.order.created,
        models=record.order.models,
        kinds=tuple(pool.kind for pool in record.order.pools),
        cells=cells,
        cheapest=find_cheapest(cells),
        contentions=record.contentions,
    )


def reopen(record: FleetRecord, documents: Mapping[str, RunDocument]) -> FleetRecord:
    """Return the record with a reason at every answer behind which there is no whole run any more: it is due again."""
    step = f"p3-advisor fleet {record.order.fleet_id} --resume"
    answered = []
    for one in record.answered:
        document = documents.get(one.attempts[-1].run_id) if one.attempts else None
        reason = one.reason or (
            GONE if document is None else None if document.finished else STOPPED
        )
        answered.append(
            one
            if reason == one.reason
            else msgspec.structs.replace(one, reason=reason, next_step=step)
        )
    return msgspec.structs.replace(record, answered=tuple(answered))


def find_cheapest(cells: Sequence[MatrixCell]) -> dict[str, str]:
    """Return by model the kind of device on which its recommended workflow costs least."""
    found = {}
    for model in dict.fromkeys(cell.model for cell in cells):
        priced = [
            (cell.cost.value, cell.kind)
            for cell in cells
            if cell.model == model and cell.cost is not None
        ]
        if len(priced) > 1:
            found[model] = min(priced)[1]
    return found


def encode(document: FleetDocument) -> str:
    """Return the JSON text."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def render(document: FleetDocument) -> str:
    """Return the matrix for a terminal."""
    rows = [
        ["model", "device", "strategy", "speed-up", "throughput", "cost", "verdict", "trust", "run"]
    ]
    rows += [
        [cell.model, cell.kind, *tell_cell(cell).values(), cell.run_id or NOTHING]
        for cell in document.cells
    ]
    blocks = [align(rows, left=3)]
    blocks.append([f"Cheapest for {model}: {kind}" for model, kind in document.cheapest.items()])
    blocks.append(
        [
            f"{cell.model} on {cell.kind}: {cell.reason}; next: {cell.next_step or NOTHING}"
            for cell in document.cells
            if cell.reason
        ]
    )
    retried = [cell for cell in document.cells if cell.is_retried]
    blocks.append(
        [
            f"{cell.model} on {cell.kind}: answered at attempt {cell.attempts}; nodes were lost"
            for cell in retried
        ]
    )
    blocks.append([tell_contention(contention) for contention in document.contentions])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def tell_contention(contention: Contention) -> str:
    """Return the line that says whether races ran side by side on a host."""
    return f"{contention.model} on {contention.kind}, node {contention.node}: {contention.words}"


def tell_cell(cell: MatrixCell) -> dict[str, str]:
    """Return the words for the answer in a cell, in the order of the matrix's columns."""
    return {
        "strategy": cell.arm or "no answer",
        "speedup": f"{cell.speedup.value:.2f}x" if cell.speedup else NOTHING,
        "throughput": f"{cell.throughput.value:,.0f} {cell.throughput.unit}"
        if cell.throughput
        else NOTHING,
        "cost": f"{cell.cost.value:.4g} per {cell.cost.unit}" if cell.cost else NOTHING,
        "verdict": cell.verdict or NOTHING,
        "trust": cell.trust or NOTHING,
    }


def _cell(answered: Answered, documents: Mapping[str, RunDocument]) -> MatrixCell:
    last = answered.attempts[-1] if answered.attempts else None
    blank = MatrixCell(
        model=answered.assignment.model,
        kind=answered.assignment.kind,
        run_id=last.run_id if last else None,
        node=last.node if last else None,
        device=last.device if last else None,
        attempts=len(answered.attempts),
        reason=answered.reason,
        next_step=answered.next_step,
    )
    # What an attempt had measured before it was given up is no answer.
    document = documents.get(last.run_id) if last and answered.reason is None else None
    if document is None:
        return blank
    advice = document.recommendation
    if advice is None:
        problem = document.problem
        return (
            msgspec.structs.replace(blank, reason=problem.what, next_step=problem.next_step)
            if problem
            else blank
        )
    entry = next(entry for entry in document.workflows if entry.arm == advice.arm)
    costs = [cost for cost in advice.costs if cost.arm == advice.arm]
    return msgspec.structs.replace(
        blank,
        arm=advice.arm,
        verdict=advice.verdict,
        trust=advice.trust,
        speedup=entry.speedup,
        throughput=_highest(entry),
        cost=min(costs, key=lambda cost: cost.value, default=None),
    )


def _highest(entry: WorkflowEntry) -> Throughput | None:
    known = [cell.throughput for cell in entry.cells if math.isfinite(cell.throughput.value)]
    return max(known, key=lambda throughput: throughput.value, default=None)
