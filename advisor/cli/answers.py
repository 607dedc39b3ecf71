"""The commands that give an answer: from a new run, one that goes on, or a stored one; why it is so, and for which GPU to build it."""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from advisor.cli import context
from advisor.cli import fleet as fleets
from advisor.cli.interruption import goes_on_with
from advisor.cli.options import AsJson, RunName, takes_answers
from advisor.cli.output import put
from advisor.errors import FleetOrderError, GpuNotAttachedError, UnknownGpuError, UserError
from advisor.question.answers import Answers, command_of

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.pipeline.decision import Decision
    from advisor.report.document import RunDocument

app = typer.Typer(rich_markup_mode=None)


@app.command()
@takes_answers
def recommend(
    answers: Answers,
    *,
    json: AsJson = False,
    jsonl: Annotated[
        bool,
        typer.Option(
            "--jsonl", help="events as they happen, one JSON object a line, then the document"
        ),
    ] = False,
    fleet: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="ask on a Ray cluster: its address, auto, or local for the devices of this machine",
        ),
    ] = "",
    models: Annotated[
        str, typer.Option(help="with --fleet: several models, separated by commas")
    ] = "",
    on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DEVICES",
            help='with --fleet: a kind of device, such as "gpu=H200,count=2,price=3.50" or cpu; may be repeated',
        ),
    ] = None,
) -> None:
    """Probe the model, score the workflows, recommend one."""
    from advisor.pipeline.draft import prepare

    world = context.world()
    if fleet or answers.gpu == fleets.ALL:
        raise typer.Exit(
            fleets.recommend(answers, models, on or [], fleet, world, as_json=json, as_events=jsonl)
        )
    if models or on:
        raise FleetOrderError(
            "--models and --on are asked of a fleet",
            "add --fleet local, or the address of a Ray cluster",
        )
    try:
        run = prepare(answers, world)
    except (GpuNotAttachedError, UnknownGpuError) as absent:
        _present_unattached(answers, world, absent, as_json=json, as_line=jsonl)
        return
    context.say(f"run {run.directory.name}, kept in {run.directory}")
    _finish(run.directory, as_json=json, as_events=jsonl)


@app.command()
def resume(
    run: Annotated[
        str, typer.Argument(help="a run's id; default: the newest that has not finished")
    ] = "",
    *,
    json: AsJson = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="events, one a line")] = False,
) -> None:
    """Go on with a run that was interrupted; what it has measured is not measured again."""
    store = context.store()
    _finish(
        (store.find(run) if run else store.unfinished()).directory, as_json=json, as_events=jsonl
    )


@app.command()
def show(run: RunName = "latest", *, json: AsJson = False) -> None:
    """Show a stored run."""
    from advisor.pipeline.decision import decide

    _present(decide(context.store().find(run)), as_json=json)


@app.command("decide")
def decide_again(
    run: RunName = "latest",
    *,
    priority: Annotated[
        str, typer.Option("--priority", "--weights", help="other weights of the three Ps")
    ] = "",
    preset: Annotated[str, typer.Option(help="other priorities, by name")] = "",
    require: Annotated[str, typer.Option(help="other constraints")] = "",
    rubric: Annotated[str, typer.Option(help="another file of criteria")] = "",
    platforms: Annotated[
        str, typer.Option(help="runs of the same model on other devices, separated by commas")
    ] = "",
    json: AsJson = False,
) -> None:
    """Score and decide again from what is stored, if you like with other weights."""
    from advisor import catalogue
    from advisor.pipeline.decision import decide
    from advisor.question.priorities import choose_priorities, parse_constraints

    priorities = (
        choose_priorities(Answers(priority=priority, preset=preset), catalogue.load())
        if priority or preset
        else None
    )
    constraints = parse_constraints(require) if require else None
    store = context.store()
    decision = decide(
        store.find(run),
        priorities=priorities,
        constraints=constraints,
        rubric=pathlib.Path(rubric) if rubric else None,
        platforms=[store.find(name.strip()) for name in platforms.split(",") if name.strip()],
    )
    _present(decision, as_json=json)


@app.command()
def explain(
    run: RunName = "latest",
    workflow: Annotated[
        str, typer.Argument(help="a workflow or arm; default: the recommended one")
    ] = "",
    criterion: Annotated[str, typer.Argument(help="a criterion; default: all five")] = "",
) -> None:
    """Show the chain from the raw figures to the tiers and the score."""
    from advisor.pipeline.decision import decide
    from advisor.report import document, explanation

    decision = decide(context.store().find(run))
    composed = document.compose(decision)
    put(
        explanation.render(composed, workflow, criterion, decision.header.catalogue.published),
        nl=False,
    )


@app.command()
def build(
    run: RunName = "latest",
    *,
    target: Annotated[
        str, typer.Option(help="the GPU to build for, such as sm_89; it need not be attached")
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", help="the directory for what is built")
    ] = ".",
) -> None:
    """Build a run's model for a GPU that is not attached here; it is built, and neither run nor measured."""
    from advisor.domain.run_events import LoggedEvent
    from advisor.pipeline import cross_build
    from advisor.report import narration

    for run_event in cross_build.build(
        context.store().find(run), target, pathlib.Path(output), context.world()
    ):
        line = narration.tell(LoggedEvent(seq=1, at=0.0, run_event=run_event))
        if line is not None:
            context.say(line)
    put(str(pathlib.Path(output) / f"{target}.engine"))


def _finish(directory: pathlib.Path, *, as_json: bool, as_events: bool) -> None:
    """Do what is left of a run, narrate it, and present what follows."""
    from advisor.pipeline.decision import decide
    from advisor.pipeline.execution import execute
    from advisor.report import narration
    from advisor.store import Run

    run = Run(directory)
    with goes_on_with(f"p3-advisor resume {directory.name}"):
        for event in execute(run, context.world()):
            if as_events:
                put(msgspec.json.encode(event))
                sys.stdout.flush()
            line = narration.tell(event)
            if line is not None:
                context.say(line)
    _present(decide(run), as_json=as_json, as_line=as_events)


def _present(decision: Decision, *, as_json: bool, as_line: bool = False) -> None:
    """Print a decision; leave with the code of what stands in the way of a recommendation."""
    from advisor.report import document

    _print(document.compose(decision), as_json=as_json, as_line=as_line)
    if decision.problem is not None:
        context.say(f"{decision.problem.what}; next: {decision.problem.next_step}")
        raise typer.Exit(decision.problem.exit_code)


def _print(composed: RunDocument, *, as_json: bool, as_line: bool) -> None:
    """Print a document as the last line of many, as JSON or as a table."""
    from advisor.report import document, table

    if as_line:
        put(msgspec.json.encode({"document": composed}))
    else:
        put(document.encode(composed) if as_json else table.render(composed), nl=False)


def _present_unattached(
    answers: Answers, world: Context, absent: UserError, *, as_json: bool, as_line: bool
) -> None:
    """Print what a stored run from such a GPU says, else what published figures say; raise `absent` where there is neither."""
    from advisor.pipeline import imported_answer, published_answer
    from advisor.report import imported as origin
    from advisor.report import published

    found, again = imported_answer.answer(answers, world), command_of(answers)
    composed = (
        origin.compose(found, again)
        if found
        else published.compose(published_answer.answer(answers, world, absent), again)
    )
    _print(composed, as_json=as_json, as_line=as_line)
    if found and found.decision.problem:
        raise typer.Exit(found.decision.problem.exit_code)
