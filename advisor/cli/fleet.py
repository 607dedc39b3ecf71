"""`recommend --fleet` and `fleet`: run a question on a cluster, and show or resume a fleet."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Sequence
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
    from advisor.domain.answer import Fleet
    from advisor.fleet.cluster import RayCluster
    from advisor.fleet.run_fleet import Cluster

app = typer.Typer(rich_markup_mode=None)

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
    fleet = context.store.fleets.find(name)
    if resume:
        raise typer.Exit(resume_fleet(fleet, context, output_format))
    raise typer.Exit(_print_fleet(fleet, context, output_format))


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
    from advisor.domain.answer import Fleet
    from advisor.fleet.run_fleet import choose_pools, list_cells, parse_models, parse_pool

    if answers.gpus_per_model > 1:
        raise FleetRequestError(
            "a fleet measures each model on one GPU", "leave out --gpus-per-model or --fleet"
        )
    requested = [parse_pool(text) for text in on]
    names = parse_models(models, answers.model)
    prices = settings.read(settings.default_file()).prices
    with contextlib.closing(_join(address)) as cluster:
        devices = cluster.devices()
        if answers.gpu == ALL_GPUS:
            devices = {kind: count for kind, count in devices.items() if kind != "cpu"}
            if not devices:
                raise FleetRequestError(
                    "--gpu all: no GPU is attached",
                    "see p3-advisor doctor, or use --fleet local --on cpu",
                )
        pools = choose_pools(requested, devices, {} if answers.price_per_hour else prices)
        created = context.now()
        fleet = Fleet(
            fleet_id=context.new_id(created),
            created=created.isoformat(timespec="seconds"),
            models=names,
            pools=pools,
            answers=msgspec.to_builtins(answers),
            address=address,
            cells=list_cells(names, pools),
        )
        fleet = _run_fleet(fleet, answers, cluster, context, output_format)
    return _print_fleet(fleet, context, output_format)


def resume_fleet(fleet: Fleet, context: Context, output_format: OutputFormat) -> int:
    """Execute the runs without a result on the devices that are left; return the exit code."""
    from advisor.ask.answers import Answers
    from advisor.fleet.run_fleet import missing_tasks
    from advisor.report import fleet_matrix

    fleet = fleet_matrix.with_answers(fleet, context.store)
    answers = msgspec.convert(fleet.answers, Answers)
    if missing_tasks(fleet, answers):
        with contextlib.closing(_join(fleet.address)) as cluster:
            fleet = _run_fleet(fleet, answers, cluster, context, output_format)
    else:
        print_status("every run has its result")
    return _print_fleet(fleet, context, output_format)


def _join(address: str) -> RayCluster:
    """Join the cluster, or start one on this machine when the address is empty.

    Raise `MissingExtraError` when the extra `fleet` is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError("a fleet needs the package ray", how_to_install("fleet"))
    from advisor.fleet.head import LOCAL, protect_local

    address = address or LOCAL
    if address == LOCAL:
        protect_local(os.environ)
    from advisor.fleet.cluster import RayCluster
    from advisor.fleet.run_fleet import run_assignment
    from advisor.report.recipes.snippet import compose_starts

    return RayCluster(address, functools.partial(run_assignment, compose=compose_starts))


def _run_fleet(
    fleet: Fleet,
    answers: Answers,
    cluster: Cluster,
    context: Context,
    output_format: OutputFormat,
) -> Fleet:
    """Execute the runs without a result, and print how each has ended."""
    from advisor.fleet.run_fleet import missing_tasks, run_fleet

    tasks = missing_tasks(fleet, answers)
    kinds = {task.kind for task in tasks}
    devices = ", ".join(f"{pool.count} x {pool.kind}" for pool in fleet.pools if pool.kind in kinds)
    print_status(f"fleet {fleet.fleet_id}: {len(tasks)} runs on {devices}")
    with resumable_with(f"p3-advisor fleet {fleet.fleet_id} --resume"):
        for stored, cell in run_fleet(fleet, tasks, cluster, context.store):
            fleet = stored
            ending = f"failed: {cell.reason}" if cell.reason else f"stored as run {cell.run_id}"
            print_status(f"{cell.model} on {cell.kind}: {ending}")
            if output_format == "json-lines":
                print_text(msgspec.json.encode({"cell": cell}))
                sys.stdout.flush()
    return fleet


def _print_fleet(fleet: Fleet, context: Context, output_format: OutputFormat) -> int:
    """Print the matrix; return the exit code, which is 1 when no cell has a recommendation."""
    from advisor.report import fleet_matrix

    answered = fleet_matrix.with_answers(fleet, context.store)
    print_document(answered, output_format, fleet_matrix.render)
    return 0 if any(cell.answer.arm for cell in answered.cells) else 1
