"""The answers of a fleet, a row for each model and kind of device."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from advisor.decide.decision import decide
from advisor.domain.answer import AnswerSummary, Fleet, FleetCell
from advisor.domain.measurement import Cell, Throughput
from advisor.errors import RunFileError, UnknownRunError
from advisor.report.formatting import plain_table
from advisor.store.store import Store
from advisor.text_format import MISSING, format_number, format_speedup

RUN_MISSING, RUN_UNFINISHED = "its run is missing or cannot be read", "its run did not finish"


def with_answers(fleet: Fleet, store: Store) -> Fleet:
    """Decide on the runs of a fleet; a cell without a whole run has the reason."""
    cells = tuple(_with_answer(cell, fleet, store) for cell in fleet.cells)
    return msgspec.structs.replace(fleet, cells=cells, cheapest=find_cheapest(cells))


def _with_answer(cell: FleetCell, fleet: Fleet, store: Store) -> FleetCell:
    # Figures that a run measured before the fleet gave it up are not an answer.
    if cell.reason is not None:
        return cell
    try:
        answer = decide(store.find(cell.run_id or ""))
    except (UnknownRunError, RunFileError):
        answer = None
    if answer is None or not answer.finished:
        return msgspec.structs.replace(
            cell,
            reason=RUN_MISSING if answer is None else RUN_UNFINISHED,
            next_step=f"p3-advisor fleet {fleet.fleet_id} --resume",
        )
    summary, advice = AnswerSummary.of(answer), answer.recommendation
    costs = [cost for cost in (advice.costs if advice else ()) if cost.arm == summary.arm]
    served = answer.results.serving.arms if answer.results.serving is not None else ()
    return msgspec.structs.replace(
        cell,
        answer=summary,
        throughput=_highest_throughput(answer.advised.cells if answer.advised else ()),
        cost=min(costs, key=lambda cost: cost.value, default=None),
        asked=next((each.asked for each in served if each.arm == summary.arm), None),
    )


def _highest_throughput(cells: Sequence[Cell]) -> Throughput | None:
    known = [cell.throughput for cell in cells if math.isfinite(cell.throughput.value)]
    return max(known, key=lambda throughput: throughput.value, default=None)


def find_cheapest(cells: Sequence[FleetCell]) -> dict[str, str]:
    """Return the kind with the lowest cost by model, for models with at least two prices."""
    prices: dict[str, list[tuple[float, str]]] = {}
    for cell in cells:
        if (price := _price(cell)) is not None:
            prices.setdefault(cell.model, []).append((price, cell.kind))
    return {model: min(found)[1] for model, found in prices.items() if len(found) > 1}


def _price(cell: FleetCell) -> float | None:
    """Return the price of all servers that the asked rate needs, or the cost of running one."""
    if cell.asked is not None:
        return cell.asked.price_per_hour
    return cell.cost.value if cell.cost is not None else None


def render(fleet: Fleet) -> str:
    head = "model", "device", "strategy", "speed-up", "throughput", "cost", "decision", "trust"
    rows = [[*head, "run"], *map(_row, fleet.cells)]
    blocks = [
        plain_table(rows, text_columns={0, 1, 2, 6, 7, 8}),
        [f"Cheapest for {model}: {kind}" for model, kind in fleet.cheapest.items()],
        [line for cell in fleet.cells for line in _notes(cell)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _notes(cell: FleetCell) -> list[str]:
    """Return why a cell has no answer, or that it needed several attempts."""
    name, problem = f"{cell.model} on {cell.kind}", cell.answer.problem
    if cell.reason is not None:
        return [f"{name}: {cell.reason}; next: {cell.next_step or MISSING}"]
    if problem is not None:
        return [f"{name}: {problem.what}; next: {problem.next_step}"]
    if cell.attempts > 1:
        return [f"{name}: answered at attempt {cell.attempts} after lost nodes"]
    return []


def _row(cell: FleetCell) -> list[str]:
    rate, answer = cell.throughput, cell.answer
    return [
        cell.model,
        cell.kind,
        answer.arm or "no answer",
        format_speedup(answer.speedup),
        f"{format_number(rate.value, decimals=0)} {rate.unit}" if rate else MISSING,
        _render_cost(cell),
        answer.decision_word or MISSING,
        answer.trust or MISSING,
        cell.run_id or MISSING,
    ]


def _render_cost(cell: FleetCell) -> str:
    asked, cost = cell.asked, cell.cost
    if asked is not None:
        servers = f"{asked.servers} server{'' if asked.servers == 1 else 's'}"
        price = asked.price_per_hour
        return f"{servers}, {format_number(price)} per hour" if price is not None else servers
    return f"{format_number(cost.value)} per {cost.unit}" if cost else MISSING
