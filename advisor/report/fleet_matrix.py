"""The matrix of a fleet, with a cell for each model and kind of device, and all of its figures."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from advisor.decide.decision import decide
from advisor.domain.answer import FLEET_SCHEMA, Answer, AnswerSummary, AssignmentResult, FleetRecord
from advisor.domain.measurement import Cell, Throughput
from advisor.domain.recommendation import Recommendation, RunningCost
from advisor.domain.serving import AskedRate
from advisor.errors import RunFileError, UnknownRunError
from advisor.report.answer_files import encode_rows
from advisor.report.figures import Kind, Value, rows
from advisor.report.formatting import plain_table
from advisor.store.store import Store
from advisor.text_format import MISSING, format_number, format_speedup

RUN_MISSING, RUN_UNFINISHED = "its run is missing or cannot be read", "its run did not finish"

#: Columns of a fleet before those of its runs: `problem` is why a result has no usable run.
FLEET_COLUMNS: Mapping[str, Kind] = {
    "fleet": str,
    "kind": str,
    "node": str,
    "node_device": str,
    "attempts": int,
    "problem": str,
}


class MatrixCell(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one model on one kind of device."""

    model: str
    kind: str
    run_id: str | None
    #: The node and the device of the last attempt, as the cluster names them.
    node: str | None
    device: str | None
    attempts: int
    reason: str | None = None
    next_step: str | None = None
    #: Empty without a finished run.
    answer: AnswerSummary = AnswerSummary()
    #: Of the recommended arm, at the batch size with the highest throughput.
    throughput: Throughput | None = None
    #: The lowest of the recommended arm over the batch sizes; null without a price.
    cost: RunningCost | None = None
    #: How many of the recommended server the asked rate needs; null for other tasks.
    asked: AskedRate | None = None

    @property
    def is_retried(self) -> bool:
        return self.attempts > 1 and self.reason is None


class FleetDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON document of a fleet."""

    schema: str
    fleet_id: str
    created: str
    models: tuple[str, ...]
    kinds: tuple[str, ...]
    cells: tuple[MatrixCell, ...]
    #: The kind of device with the lowest cost by model, if at least two kinds have a price.
    cheapest: dict[str, str]


def read_answers(record: FleetRecord, store: Store) -> dict[str, Answer]:
    """Decide on the last run of each result; missing and unreadable runs are left out."""
    answers = {}
    for result in record.answered:
        for attempt in result.attempts[-1:]:
            with contextlib.suppress(UnknownRunError, RunFileError):
                answers[attempt.run_id] = decide(store.find(attempt.run_id))
    return answers


def compose(record: FleetRecord, answers: Mapping[str, Answer]) -> FleetDocument:
    """Return the document of a fleet; `answers` holds those of its runs by run id."""
    results = flag_unusable_results(record, answers).answered
    cells = tuple(_cell(result, answers) for result in results)
    return FleetDocument(
        schema=FLEET_SCHEMA,
        fleet_id=record.request.fleet_id,
        created=record.request.created,
        models=record.request.models,
        kinds=tuple(pool.kind for pool in record.request.pools),
        cells=cells,
        cheapest=find_cheapest(cells),
    )


def flag_unusable_results(record: FleetRecord, answers: Mapping[str, Answer]) -> FleetRecord:
    """Return the record with a reason at each result whose run is missing or did not finish.

    A result with a reason is measured again when the fleet is resumed.
    """
    next_step = f"p3-advisor fleet {record.request.fleet_id} --resume"
    results = []
    for result in record.answered:
        problem = None if result.reason else _run_problem(result, answers)
        results.append(
            msgspec.structs.replace(result, reason=problem, next_step=next_step)
            if problem
            else result
        )
    return msgspec.structs.replace(record, answered=tuple(results))


def _run_problem(result: AssignmentResult, answers: Mapping[str, Answer]) -> str | None:
    answer = answers.get(result.attempts[-1].run_id) if result.attempts else None
    if answer is None:
        return RUN_MISSING
    return None if answer.finished else RUN_UNFINISHED


def find_cheapest(cells: Sequence[MatrixCell]) -> dict[str, str]:
    """Return the kind with the lowest cost by model, for models with at least two prices."""
    cheapest = {}
    for model in dict.fromkeys(cell.model for cell in cells):
        priced = [
            (price, cell.kind)
            for cell in cells
            if cell.model == model and (price := _price(cell)) is not None
        ]
        if len(priced) > 1:
            cheapest[model] = min(priced)[1]
    return cheapest


def _price(cell: MatrixCell) -> float | None:
    """Return the price of all servers that the asked rate needs, or the cost of running one."""
    if cell.asked is not None:
        return cell.asked.price_per_hour
    return cell.cost.value if cell.cost is not None else None


def render(document: FleetDocument) -> str:
    head = "model", "device", "strategy", "speed-up", "throughput", "cost", "decision", "trust"
    blocks = [
        plain_table([[*head, "run"], *map(_row, document.cells)], text_columns={0, 1, 2, 6, 7, 8}),
        [f"Cheapest for {model}: {kind}" for model, kind in document.cheapest.items()],
        [
            f"{cell.model} on {cell.kind}: {cell.reason}; next: {cell.next_step or MISSING}"
            for cell in document.cells
            if cell.reason
        ],
        [
            f"{cell.model} on {cell.kind}: answered at attempt {cell.attempts} after lost nodes"
            for cell in document.cells
            if cell.is_retried
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _row(cell: MatrixCell) -> list[str]:
    throughput, answer = cell.throughput, cell.answer
    return [
        cell.model,
        cell.kind,
        answer.arm or "no answer",
        format_speedup(answer.speedup),
        f"{format_number(throughput.value, decimals=0)} {throughput.unit}"
        if throughput
        else MISSING,
        _render_cost(cell),
        answer.decision_word or MISSING,
        answer.trust or MISSING,
        cell.run_id or MISSING,
    ]


def _render_cost(cell: MatrixCell) -> str:
    asked, cost = cell.asked, cell.cost
    if asked is not None:
        servers = f"{asked.servers} server{'' if asked.servers == 1 else 's'}"
        price = asked.price_per_hour
        return f"{servers}, {format_number(price)} per hour" if price is not None else servers
    return f"{format_number(cost.value)} per {cost.unit}" if cost else MISSING


def _cell(result: AssignmentResult, answers: Mapping[str, Answer]) -> MatrixCell:
    last = result.attempts[-1] if result.attempts else None
    cell = MatrixCell(
        model=result.assignment.model,
        kind=result.assignment.kind,
        run_id=last.run_id if last else None,
        node=last.node if last else None,
        device=last.device if last else None,
        attempts=len(result.attempts),
        reason=result.reason,
        next_step=result.next_step,
    )
    # Figures that an attempt measured before the fleet gave it up are not an answer.
    answer = answers.get(last.run_id) if last and result.reason is None else None
    if answer is None:
        return cell
    if answer.recommendation is not None:
        return _answered(cell, answer, answer.recommendation)
    problem = answer.problem
    return (
        msgspec.structs.replace(cell, reason=problem.what, next_step=problem.next_step)
        if problem
        else cell
    )


def _answered(cell: MatrixCell, answer: Answer, advice: Recommendation) -> MatrixCell:
    costs = [cost for cost in advice.costs if cost.arm == advice.arm]
    served = answer.results.serving.arms if answer.results.serving is not None else ()
    return msgspec.structs.replace(
        cell,
        answer=AnswerSummary.of(answer),
        throughput=_highest_throughput(answer.advised.cells if answer.advised else ()),
        cost=min(costs, key=lambda cost: cost.value, default=None),
        asked=next((each.asked for each in served if each.arm == advice.arm), None),
    )


def _highest_throughput(cells: Sequence[Cell]) -> Throughput | None:
    known = [cell.throughput for cell in cells if math.isfinite(cell.throughput.value)]
    return max(known, key=lambda throughput: throughput.value, default=None)


def to_parquet(record: FleetRecord, answers: Mapping[str, Answer]) -> bytes:
    """Return the Parquet file; its rows are those of `fleet_rows`."""
    return encode_rows(fleet_rows(record, answers), FLEET_COLUMNS)


def fleet_rows(record: FleetRecord, answers: Mapping[str, Answer]) -> Iterator[dict[str, Value]]:
    """Yield the rows of all runs, and one for a result without a usable run.

    `answers` is by run.
    """
    for result in flag_unusable_results(record, answers).answered:
        last = result.attempts[-1] if result.attempts else None
        values: dict[str, Value] = {
            "fleet": record.request.fleet_id,
            "model": result.assignment.model,
            "kind": result.assignment.kind,
            "node": last.node if last else None,
            "node_device": last.device if last else None,
            "attempts": len(result.attempts),
            "run_id": last.run_id if last else None,
            "problem": result.reason,
        }
        answer = answers.get(last.run_id) if last else None
        if answer is None or result.reason:
            yield values
        else:
            yield from (values | row for row in rows(answer))
