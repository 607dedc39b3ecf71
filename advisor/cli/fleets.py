"""`recommend --fleet`: the same question for several models on several kinds of devices; and its answer shown again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import typer

from advisor import pipeline
from advisor.domain.fleet import Answered, FleetRecord, Order
from advisor.errors import NoFleetError, RunFileError, UnknownRunError
from advisor.fleet import Begun, Notice, Told, ask, assign, orders, record
from advisor.question.answers import Answers
from advisor.report import document, matrix, narration
from advisor.world import World


def recommend(answers: Answers, models: str, on: Sequence[str], address: str, world: World, say: Callable[[str], None]) -> FleetRecord:
    """Ask a fleet, narrate what happens there, keep and return what it answered."""
    asked = [orders.parse_pool(text) for text in on]
    named = orders.parse_models(models, answers.model)
    try:
        from advisor.fleet.cluster import RayCluster
    except ModuleNotFoundError as problem:
        raise NoFleetError(f"a fleet needs {problem.name}", "pip install 'p3-advisor[fleet]'") from problem
    cluster = RayCluster(address)
    try:
        created = world.now()
        order = Order(
            fleet_id=f"{created:%Y%m%d-%H%M%S}-{world.random.getrandbits(16):04x}",
            created=created.isoformat(timespec="seconds"),
            models=named,
            pools=orders.choose_pools(asked, cluster.devices()),
        )
        say(f"fleet {order.fleet_id}: {len(assign(order))} races on " + ", ".join(f"{pool.count} x {pool.kind}" for pool in order.pools))
        return _follow(order, ask(order, answers, cluster, world.store), world, say)
    finally:
        cluster.close()


def _follow(order: Order, notices: Iterator[Notice | Answered], world: World, say: Callable[[str], None]) -> FleetRecord:
    answered: list[Answered] = []
    kept = record(order, answered, world.store.keep_fleet)
    names = {one.number: f"{one.model} on {one.kind}" for one in assign(order)}
    for notice in notices:
        line = _tell(notice, names)
        if line:
            say(line)
        if isinstance(notice, Answered):
            answered.append(notice)
            kept = record(order, answered, world.store.keep_fleet)
    return kept


def _tell(notice: Notice | Answered, names: dict[int, str]) -> str | None:
    if isinstance(notice, Answered):
        name = names[notice.assignment.number]
        return f"{name}: {notice.reason or 'answered'}, after {len(notice.attempts)} attempt{'s' * (len(notice.attempts) != 1)}"
    if isinstance(notice, Begun):
        return f"{names[notice.number]}: begun on node {notice.node}, device {notice.device}"
    if isinstance(notice, Told):
        line = narration.tell(notice.event)
        return f"{names[notice.number]}: {line}" if line else None
    return None


def compose(kept: FleetRecord, world: World) -> matrix.FleetDocument:
    """Decide every run of a fleet's answer from what is stored, and join them."""
    documents = {}
    for answered in kept.answered:
        for attempt in answered.attempts[-1:]:
            try:
                decision = pipeline.decide(world.store.find(attempt.run_id))
            except (UnknownRunError, RunFileError):
                continue
            documents[attempt.run_id] = document.compose(
                decision.header, decision.state, decision.results, decision.scored, decision.recommendation, decision.problem
            )
    return matrix.compose(kept, documents)


def present(kept: FleetRecord, world: World, *, as_json: bool) -> int:
    """Print the matrix; return the exit code, which is 1 when no cell has a recommendation."""
    composed = compose(kept, world)
    typer.echo(matrix.encode(composed) if as_json else matrix.render(composed), nl=False)
    return 0 if any(cell.arm for cell in composed.cells) else 1
