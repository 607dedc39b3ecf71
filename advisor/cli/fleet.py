"""`recommend --fleet`: the same question for several models on several kinds of devices; and its answer shown again."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from advisor.cli import context
from advisor.cli.interruption import goes_on_with
from advisor.cli.options import AsJson
from advisor.cli.output import put
from advisor.errors import FleetOrderError, NoFleetError

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.domain.fleet import FleetRecord
    from advisor.fleet import Cluster, News
    from advisor.fleet.cluster import RayCluster
    from advisor.question.answers import Answers

app = typer.Typer(rich_markup_mode=None)

#: What the extra brings: one package to ask a fleet, one to write its table.
NEEDED = ("ray", "pyarrow")
#: The answer to --gpu that asks for every GPU of this machine.
ALL = "all"


@app.command(name="fleet")
def show_fleet(
    name: Annotated[
        str, typer.Argument(help="a fleet's id, the beginning of one, or latest")
    ] = "latest",
    *,
    resume: Annotated[
        bool, typer.Option("--resume", help="first have the races made that have no answer yet")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show what a fleet has answered: a row for each model and kind of device."""
    world = context.world()
    kept = world.store.fleets.find(name)
    raise typer.Exit(
        go_on(kept, world, as_json=json) if resume else _present(kept, world, as_json=json)
    )


def recommend(
    answers: Answers,
    models: str,
    on: Sequence[str],
    address: str,
    world: Context,
    *,
    as_json: bool,
    as_events: bool,
) -> int:
    """Ask a fleet, narrate what happens there, keep and print what it answered; return the exit code."""
    from advisor import settings
    from advisor.domain.fleet import FLEET_SCHEMA, FleetRecord, Order
    from advisor.fleet import orders

    wishes, named = (
        [orders.parse_pool(text) for text in on],
        orders.parse_models(models, answers.model),
    )
    prices = settings.read(settings.default_file()).prices
    with _join(address) as cluster:
        there = cluster.devices()
        if answers.gpu == ALL:
            there = {kind: count for kind, count in there.items() if kind != "cpu"}
            if not there:
                raise FleetOrderError(
                    "--gpu all, and no GPU is attached",
                    "see p3-advisor doctor, or ask with --fleet local --on cpu",
                )
        created = world.now()
        pools = orders.choose_pools(wishes, there)
        order = Order(
            fleet_id=f"{created:%Y%m%d-%H%M%S}-{world.random.getrandbits(16):04x}",
            created=created.isoformat(timespec="seconds"),
            models=named,
            pools=pools if answers.price_per_hour else orders.price(pools, prices),
        )
        asked = FleetRecord(
            schema=FLEET_SCHEMA, order=order, answers=msgspec.to_builtins(answers), address=address
        )
        kept = _ask(asked, answers, cluster, world, as_events=as_events)
    return _present(kept, world, as_json=as_json, as_line=as_events, keeps_table=True)


def go_on(kept: FleetRecord, world: Context, *, as_json: bool) -> int:
    """Have the races made that have no answer, on the devices that are left; return the exit code."""
    from advisor.fleet import due, orders
    from advisor.question.answers import Answers
    from advisor.report import fleet_matrix
    from advisor.report.fleet_documents import documents_of

    if not kept.answers:
        what = f"fleet {kept.order.fleet_id} was asked by an earlier p3-advisor, which did not keep the question"
        raise FleetOrderError(what, "ask it anew")
    kept = fleet_matrix.reopen(kept, documents_of(kept, world.store))
    kinds = {assignment.kind for assignment in due(kept.order, kept.answered)}
    if not kinds:
        context.say("every race has its answer")
        return _present(kept, world, as_json=as_json)
    with _join(kept.address) as cluster:
        wanted = [pool for pool in kept.order.pools if pool.kind in kinds]
        left = {
            pool.kind: pool
            for pool in orders.choose_pools(
                orders.limit(wanted, cluster.devices()), cluster.devices()
            )
        }
        order = msgspec.structs.replace(
            kept.order, pools=tuple(left.get(pool.kind, pool) for pool in kept.order.pools)
        )
        answers = msgspec.convert(kept.answers, Answers)
        kept = _ask(
            msgspec.structs.replace(kept, order=order), answers, cluster, world, as_events=False
        )
    return _present(kept, world, as_json=as_json, keeps_table=True)


@contextlib.contextmanager
def _join(address: str) -> Iterator[RayCluster]:
    """Join the cluster, one on this machine without an address; raise `NoFleetError` where the extra is missing."""
    for package in NEEDED:
        if importlib.util.find_spec(package) is None:
            raise NoFleetError(f"a fleet needs {package}", "pip install 'p3-advisor[fleet]'")
    from advisor.fleet.cluster import LOCAL, RayCluster

    cluster = RayCluster(address or LOCAL)
    try:
        yield cluster
    finally:
        cluster.close()


def _ask(
    kept: FleetRecord, answers: Answers, cluster: Cluster, world: Context, *, as_events: bool
) -> FleetRecord:
    """Ask for what has no answer yet, narrate what the fleet says, and keep at every answer what is known by then."""
    from advisor.domain.fleet import Answered, Contention
    from advisor.fleet import ask, due, keep

    order, races = kept.order, due(kept.order, kept.answered)
    names = {one.number: f"{one.model} on {one.kind}" for one in races}
    devices = ", ".join(
        f"{pool.count} x {pool.kind}"
        for pool in order.pools
        if pool.kind in {one.kind for one in races}
    )
    context.say(f"fleet {order.fleet_id}: {len(races)} races on {devices}")
    answered: list[Answered] = []
    contentions: list[Contention] = []
    whole = keep(kept, answered, contentions, world.store)
    with goes_on_with(f"p3-advisor fleet {order.fleet_id} --resume"):
        for notice in ask(order, answers, cluster, world.store, kept.answered):
            line = _tell(notice, names)
            if line:
                context.say(line)
            if as_events:
                _print_event(notice)
            if isinstance(notice, Contention):
                contentions.append(notice)
            if isinstance(notice, Answered):
                answered.append(notice)
                whole = keep(kept, answered, contentions, world.store)
    return whole


def _print_event(notice: News) -> None:
    """Print one line of JSON; what is stored anyway, a whole run or its header, is left out."""
    from advisor.fleet import Begun, Delivered

    if not isinstance(notice, Delivered):
        line = msgspec.to_builtins(notice)
        if isinstance(notice, Begun):
            del line["header"]
        put(msgspec.json.encode(line))
        sys.stdout.flush()


def _tell(notice: News, names: dict[int, str]) -> str | None:
    from advisor.domain.fleet import Answered, Contention
    from advisor.fleet import Begun, Told
    from advisor.report import fleet_matrix, narration

    match notice:
        case Contention():
            return fleet_matrix.tell_contention(notice)
        case Answered(assignment=assignment, attempts=attempts, reason=reason):
            return f"{names[assignment.number]}: {reason or 'answered'}, after {len(attempts)} attempt{'s' * (len(attempts) != 1)}"
        case Begun(number=number, node=node, device=device):
            return f"{names[number]}: begun on node {node}, device {device}"
        case Told(number=number, event=event):
            line = narration.tell(event)
            return f"{names[number]}: {line}" if line else None
        case _:
            return None


def _present(
    kept: FleetRecord,
    world: Context,
    *,
    as_json: bool,
    as_line: bool = False,
    keeps_table: bool = False,
) -> int:
    """Print the matrix; return the exit code, which is 1 when no cell has a recommendation."""
    from advisor.report import fleet_matrix
    from advisor.report.fleet_documents import documents_of

    documents = documents_of(kept, world.store)
    if keeps_table:
        from advisor.report import parquet

        file = world.store.fleets.keep_table(kept.order.fleet_id, parquet.encode(kept, documents))
        context.say(f"all figures, a row for each workflow and batch size: {file}")
    composed = fleet_matrix.compose(kept, documents)
    if as_line:
        put(msgspec.json.encode({"document": composed}))
    else:
        put(fleet_matrix.encode(composed) if as_json else fleet_matrix.render(composed), nl=False)
    return 0 if any(cell.arm for cell in composed.cells) else 1
