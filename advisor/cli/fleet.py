"""`recommend --fleet` and `fleet`: run a question on a cluster, and show or resume a fleet."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from advisor.cli.execution import resumable_with
from advisor.cli.options import AsJson
from advisor.cli.output import (
    OutputFormat,
    choose_output_format,
    make_context,
    print_document,
    print_status,
    print_text,
)
from advisor.errors import FleetRequestError, MissingExtraError
from advisor.version import how_to_install

if TYPE_CHECKING:
    from advisor.ask.answers import Answers
    from advisor.context import Context
    from advisor.domain.answer import FleetRecord, FleetRequest, Pool
    from advisor.fleet.cluster import RayCluster
    from advisor.fleet.run_fleet import Cluster, ClusterEvent

app = typer.Typer(rich_markup_mode=None)

#: Packages of the extra `fleet`.
REQUIRED_PACKAGES = ("ray", "pyarrow")
#: The value of --gpu that requests every GPU of this machine.
ALL_GPUS = "all"


@app.command(name="fleet", rich_help_panel="Results")
def show_fleet(
    name: Annotated[
        str, typer.Argument(help="a fleet's id, the beginning of one, or latest")
    ] = "latest",
    *,
    resume: Annotated[
        bool, typer.Option("--resume", help="first execute the runs without a result")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show the results of a fleet. Each model and kind of device has a row."""
    context, output_format = make_context(), choose_output_format(json=json)
    record = context.store.fleets.find(name)
    raise typer.Exit(
        resume_fleet(record, context, output_format)
        if resume
        else _print_results(record, context, output_format)
    )


def recommend(
    answers: Answers,
    models: str,
    on: Sequence[str],
    address: str,
    context: Context,
    output_format: OutputFormat,
) -> int:
    """Run a question on a fleet, store and print the results; return the exit code."""
    from advisor import settings
    from advisor.domain.answer import FLEET_SCHEMA, FleetRecord
    from advisor.fleet import device_pools

    if answers.gpus_per_model > 1:
        raise FleetRequestError(
            "a fleet measures each model on one GPU", "leave out --gpus-per-model or --fleet"
        )
    requested = [device_pools.parse_pool(text) for text in on]
    names = device_pools.parse_models(models, answers.model)
    prices = settings.read(settings.default_file()).prices
    with _join(address) as cluster:
        devices = cluster.devices()
        if answers.gpu == ALL_GPUS:
            devices = {kind: count for kind, count in devices.items() if kind != "cpu"}
            if not devices:
                raise FleetRequestError(
                    "--gpu all: no GPU is attached",
                    "see p3-advisor doctor, or use --fleet local --on cpu",
                )
        pools = device_pools.choose_pools(requested, devices)
        if not answers.price_per_hour:
            pools = device_pools.add_prices(pools, prices)
        record = FleetRecord(
            schema=FLEET_SCHEMA,
            request=_make_request(names, pools, context),
            answers=msgspec.to_builtins(answers),
            address=address,
        )
        record = _run_fleet(record, answers, cluster, context, output_format)
    return _print_results(record, context, output_format, stores_parquet=True)


def resume_fleet(record: FleetRecord, context: Context, output_format: OutputFormat) -> int:
    """Execute the runs without a result on the devices that are left; return the exit code."""
    from advisor.ask.answers import Answers
    from advisor.fleet import device_pools
    from advisor.fleet.run_fleet import unanswered_assignments
    from advisor.report import fleet_matrix
    from advisor.report.fleet_matrix import read_answers

    if not record.answers:
        raise FleetRequestError(
            f"the record of fleet {record.request.fleet_id} does not contain its question",
            "start it again with p3-advisor recommend --fleet",
        )
    record = fleet_matrix.flag_unusable_results(record, read_answers(record, context.store))
    kinds = {each.kind for each in unanswered_assignments(record.request, record.answered)}
    if not kinds:
        print_status("every run has its result")
        return _print_results(record, context, output_format)
    with _join(record.address) as cluster:
        devices = cluster.devices()
        wanted = [pool for pool in record.request.pools if pool.kind in kinds]
        limited = device_pools.choose_pools(wanted, devices, at_most=True)
        left = {pool.kind: pool for pool in limited}
        request = msgspec.structs.replace(
            record.request, pools=tuple(left.get(pool.kind, pool) for pool in record.request.pools)
        )
        record = _run_fleet(
            msgspec.structs.replace(record, request=request),
            msgspec.convert(record.answers, Answers),
            cluster,
            context,
            output_format,
        )
    return _print_results(record, context, output_format, stores_parquet=True)


def _make_request(models: Sequence[str], pools: Sequence[Pool], context: Context) -> FleetRequest:
    from advisor.domain.answer import FleetRequest

    created = context.now()
    return FleetRequest(
        fleet_id=context.new_id(created),
        created=created.isoformat(timespec="seconds"),
        models=tuple(models),
        pools=tuple(pools),
    )


@contextlib.contextmanager
def _join(address: str) -> Iterator[RayCluster]:
    """Join the cluster, or start one on this machine when the address is empty.

    Raise `MissingExtraError` when the extra `fleet` is not installed.
    """
    for package in REQUIRED_PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(f"a fleet needs the package {package}", how_to_install("fleet"))
    from advisor.fleet.head import LOCAL, protect_local

    address = address or LOCAL
    if address == LOCAL:
        protect_local(os.environ)
    from advisor.fleet.cluster import RayCluster
    from advisor.fleet.node import run_assignment
    from advisor.report.recipes.starts import compose_starts

    cluster = RayCluster(address, functools.partial(run_assignment, compose=compose_starts))
    try:
        yield cluster
    finally:
        cluster.close()


def _run_fleet(
    record: FleetRecord,
    answers: Answers,
    cluster: Cluster,
    context: Context,
    output_format: OutputFormat,
) -> FleetRecord:
    """Execute the runs without a result, print their events, and store each result."""
    from advisor.domain.answer import AssignmentResult
    from advisor.fleet.run_fleet import run_fleet, save_record, unanswered_assignments

    request = record.request
    assignments = unanswered_assignments(request, record.answered)
    names = {each.number: f"{each.model} on {each.kind}" for each in assignments}
    kinds = {each.kind for each in assignments}
    devices = ", ".join(
        f"{pool.count} x {pool.kind}" for pool in request.pools if pool.kind in kinds
    )
    print_status(f"fleet {request.fleet_id}: {len(assignments)} runs on {devices}")
    results: list[AssignmentResult] = []
    saved = save_record(record, results, context.store)
    with resumable_with(f"p3-advisor fleet {request.fleet_id} --resume"):
        for event in run_fleet(request, answers, cluster, context.store, record.answered):
            line = _status_line(event, names)
            if line:
                print_status(line)
            if output_format == "json-lines":
                _print_event(event)
            if isinstance(event, AssignmentResult):
                results.append(event)
                saved = save_record(record, results, context.store)
    return saved


def _print_event(event: ClusterEvent) -> None:
    """Print one line of JSON, without the runs and headers, which are stored."""
    from advisor.fleet.node import Ended
    from advisor.fleet.run_fleet import Started

    if not isinstance(event, Ended):
        line = msgspec.to_builtins(event)
        if isinstance(event, Started):
            del line["header"]
        print_text(msgspec.json.encode(line))
        sys.stdout.flush()


def _status_line(event: ClusterEvent, names: dict[int, str]) -> str | None:
    from advisor.domain.answer import AssignmentResult
    from advisor.fleet.run_fleet import Progress, Started
    from advisor.report import progress_lines

    match event:
        case AssignmentResult(assignment=assignment, attempts=attempts, reason=reason):
            ending = f"failed: {reason}" if reason else "completed"
            plural = "s" if len(attempts) != 1 else ""
            return f"{names[assignment.number]}: {ending} ({len(attempts)} attempt{plural})"
        case Started(number=number, node=node, device=device):
            return f"{names[number]}: started on node {node}, device {device}"
        case Progress(number=number, logged_event=logged):
            line = progress_lines.render_event(logged)
            return f"{names[number]}: {line}" if line else None
        case _:
            return None


def _print_results(
    record: FleetRecord,
    context: Context,
    output_format: OutputFormat,
    *,
    stores_parquet: bool = False,
) -> int:
    """Print the matrix; return the exit code, which is 1 when no cell has a recommendation."""
    from advisor.report import fleet_matrix
    from advisor.report.fleet_matrix import read_answers

    answers_by_run = read_answers(record, context.store)
    if stores_parquet:
        file = context.store.fleets.save_parquet(
            record.request.fleet_id, fleet_matrix.to_parquet(record, answers_by_run)
        )
        print_status(f"all figures, a row for each workflow and batch size: {file}")
    matrix = fleet_matrix.compose(record, answers_by_run)
    print_document(matrix, output_format, fleet_matrix.render)
    return 0 if any(cell.answer.arm for cell in matrix.cells) else 1
