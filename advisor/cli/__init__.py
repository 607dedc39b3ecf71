"""The command line: arguments -> pipeline -> presenters. The only place that prints or exits.

Data goes to standard output, narration and errors to standard error; exit codes are those of `advisor.errors`.
"""

from __future__ import annotations

import os
import pathlib
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import msgspec
import typer

import advisor
from advisor.cli import carrying, environments, terminal
from advisor.cli.options import takes_answers
from advisor.errors import FleetOrderError, GpuNotAttachedError, NoTerminalError, UnknownGpuError, UserError
from advisor.question.answers import Answers

if TYPE_CHECKING:
    from advisor import pipeline
    from advisor.world import World

ROOT_FLAGS = {"--help", "--version", "--spec"}
SHORT_HELP = """\
p3-advisor tells how to compile a PyTorch model for the GPU at hand. On a terminal it asks what it needs; here there is none.
  p3-advisor --json                 probe the demo model on what is attached, one JSON document
  p3-advisor recommend --model M    the same as a table, for your model
  p3-advisor workflows              what applies here, and how to get the rest
  p3-advisor doctor                 what is wrong with this machine
  p3-advisor --help                 everything else
"""

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    help="Advise how to compile a PyTorch model for the GPU at hand: short probes, a rubric, a recommendation with its evidence.",
    epilog="Without a command: p3-advisor --json is p3-advisor recommend --json; p3-advisor alone, on a terminal, is p3-advisor ask.",
)

app.add_typer(environments.app)
app.add_typer(carrying.app)

RunName = Annotated[str, typer.Argument(help="a run's id, the beginning of one, latest, or its directory")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON document on standard output")]


class InterruptedRunError(BaseException):
    """A signal asked the program to end; raised in the main thread so that workers are ended on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given and not terminal.is_terminal(os.environ):
        sys.stderr.write(SHORT_HELP)
        sys.exit(2)
    if not given or (given[0].startswith("-") and given[0] not in ROOT_FLAGS):
        given.insert(0, "ask" if terminal.wants_terminal(given, os.environ) else "recommend")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        app(given, prog_name="p3-advisor")
    except UserError as problem:
        sys.stderr.write(f"p3-advisor: {problem.what}\n  next: {problem.next_step}\n")
        sys.exit(problem.exit_code)
    except InterruptedRunError as interruption:
        sys.stderr.write("p3-advisor: stopped; what was measured is kept: p3-advisor resume\n")
        sys.exit(128 + interruption.number)
    except BrokenPipeError:
        # Whoever read standard output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    sys.exit(0)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for again in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(again, signal.SIG_IGN)
    raise InterruptedRunError(number)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer's callback
    if wanted:
        typer.echo(advisor.__version__)
        raise typer.Exit


def _print_spec(wanted: bool) -> None:  # noqa: FBT001 - Typer's callback
    if wanted:
        from advisor.cli import spec

        typer.echo(spec.render(), nl=False)
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")] = False,
    spec: Annotated[
        bool, typer.Option("--spec", callback=_print_spec, is_eager=True, help="print every option, workflow, criterion and schema as JSON")
    ] = False,
) -> None:
    """Hold the options that belong to no command."""


@app.command()
@takes_answers
def ask(  # noqa: PLR0913 - one for each option
    answers: Answers,
    *,
    replay: Annotated[str, typer.Option(metavar="DIR", help="show a recorded run in the real screens; nothing is measured")] = "",
    speed: Annotated[float, typer.Option(help="how many times as fast as it was recorded", min=0.1, max=1000)] = 8.0,
    plain: Annotated[
        bool, typer.Option("--plain", "--accessible", help="questions and answers line by line: for screen readers and simple terminals")
    ] = False,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="draw with ASCII characters only")] = False,
    theme: Annotated[str, typer.Option(help="colours, by name, such as p3-high-contrast or textual-light")] = "",
    no_color: Annotated[bool, typer.Option("--no-color", help="no colours, as with NO_COLOR in the environment")] = False,
    no_mouse: Annotated[bool, typer.Option("--no-mouse", help="leave the mouse to the terminal")] = False,
    tui: Annotated[bool, typer.Option("--tui", hidden=True, help="ask on the terminal although options are given")] = False,  # noqa: ARG001
) -> None:
    """Ask the questions on the terminal, show the probes while they run, and the results."""
    from advisor.tui.wishes import Wishes

    wishes = Wishes(answers=answers, replay=replay, speed=speed, ascii_only=ascii_only, theme=theme, no_color=no_color, no_mouse=no_mouse)
    if plain:
        from advisor.cli import asking

        code = asking.ask(answers, _world())
    elif terminal.is_terminal(os.environ):
        from advisor.tui import program

        code = program.show(wishes, _world())
    else:
        raise NoTerminalError("the questions need a terminal, and here there is none", "use --json, recommend, or ask --plain")
    raise typer.Exit(code)


@app.command(hidden=True)
def host(run: str) -> None:
    """Work on a run for screens in another process."""
    from advisor.cli import hosting
    from advisor.store import Run

    def say(word: str) -> None:
        typer.echo(word)
        sys.stdout.flush()

    hosting.work(Run(pathlib.Path(run)), _world(), sys.stdin, say)


@app.command()
@takes_answers
def recommend(
    answers: Answers,
    *,
    json: AsJson = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="events as they happen, one JSON object a line, then the document")] = False,
    fleet: Annotated[
        str, typer.Option(metavar="ADDRESS", help="ask on a Ray cluster: its address, auto, or local for the devices of this machine")
    ] = "",
    models: Annotated[str, typer.Option(help="with --fleet: several models, separated by commas")] = "",
    on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DEVICES", help='with --fleet: a kind of device, such as "gpu=H200,count=2,price=3.50" or cpu; may be repeated'
        ),
    ] = None,
) -> None:
    """Probe the model, score the workflows, recommend one."""
    from advisor import pipeline

    world = _world()
    if fleet or answers.gpu == "all":
        from advisor.cli import fleets

        record = fleets.recommend(answers, models, on or [], fleet or "local", world, _note)
        raise typer.Exit(fleets.present(record, world, as_json=json))
    if models or on:
        raise FleetOrderError("--models and --on are asked of a fleet", "add --fleet local, or the address of a Ray cluster")
    try:
        run = pipeline.prepare(answers, world)
    except (GpuNotAttachedError, UnknownGpuError) as absent:
        _present_unattached(answers, world, absent, as_json=json or jsonl)
        return
    _note(f"run {run.directory.name}, kept in {run.directory}")
    _finish(run.directory, as_json=json, as_events=jsonl)


@app.command(name="fleet")
def show_fleet(
    name: Annotated[str, typer.Argument(help="a fleet's id, the beginning of one, or latest")] = "latest", *, json: AsJson = False
) -> None:
    """Show what a fleet has answered."""
    from advisor.cli import fleets

    world = _world()
    raise typer.Exit(fleets.present(world.store.fleet(name), world, as_json=json))


@app.command()
def resume(
    run: Annotated[str, typer.Argument(help="a run's id; default: the newest that has not finished")] = "",
    *,
    json: AsJson = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="events, one a line")] = False,
) -> None:
    """Go on with a run that was interrupted; what it has measured is not measured again."""
    store = _world().store
    _finish((store.find(run) if run else store.unfinished()).directory, as_json=json, as_events=jsonl)


@app.command()
def show(run: RunName = "latest", *, json: AsJson = False) -> None:
    """Show a stored run."""
    from advisor import pipeline

    _present(pipeline.decide(_world().store.find(run)), as_json=json)


@app.command()
def decide(
    run: RunName = "latest",
    *,
    priority: Annotated[str, typer.Option("--priority", "--weights", help="other weights of the three Ps")] = "",
    preset: Annotated[str, typer.Option(help="other priorities, by name")] = "",
    require: Annotated[str, typer.Option(help="other constraints")] = "",
    rubric: Annotated[str, typer.Option(help="another file of criteria")] = "",
    platforms: Annotated[str, typer.Option(help="runs of the same model on other devices, separated by commas")] = "",
    json: AsJson = False,
) -> None:
    """Score and decide again from what is stored, if you like with other weights."""
    from advisor import catalogue, pipeline
    from advisor.question.priorities import choose_priorities, parse_constraints

    priorities = choose_priorities(Answers(priority=priority, preset=preset), catalogue.load()) if priority or preset else None
    constraints = parse_constraints(require) if require else None
    store = _world().store
    decision = pipeline.decide(
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
    workflow: Annotated[str, typer.Argument(help="a workflow or arm; default: the recommended one")] = "",
    criterion: Annotated[str, typer.Argument(help="a criterion; default: all five")] = "",
) -> None:
    """Show the chain from the raw figures to the tiers and the score."""
    from advisor import pipeline
    from advisor.report import document, explanation

    decision = pipeline.decide(_world().store.find(run))
    composed = document.compose(
        decision.header, decision.state, decision.results, decision.scored, decision.recommendation, decision.problem
    )
    typer.echo(explanation.render(composed, workflow, criterion, decision.header.catalogue.published), nl=False)


@app.command()
def build(
    run: RunName = "latest",
    *,
    target: Annotated[str, typer.Option(help="the GPU to build for, such as sm_89; it need not be attached")],
    output: Annotated[str, typer.Option("-o", "--output", help="the directory for what is built")] = ".",
) -> None:
    """Build a run's model for a GPU that is not attached here; it is built, and neither run nor measured."""
    from advisor.domain.events import Event
    from advisor.pipeline import building
    from advisor.report import narration

    for happening in building.build(_world().store.find(run), target, pathlib.Path(output), _world()):
        line = narration.tell(Event(seq=1, at=0.0, happening=happening))
        if line is not None:
            _note(line)
    typer.echo(str(pathlib.Path(output) / f"{target}.engine"))


@app.command()
def history(
    *,
    model: Annotated[str, typer.Option(help="only runs whose model's name has this in it")] = "",
    device: Annotated[str, typer.Option(help="only runs on a device whose name has this in it")] = "",
    noted: Annotated[str, typer.Option(help="only runs whose note has this in it")] = "",
    since: Annotated[str, typer.Option(metavar="DATE", help="only runs from this day on, such as 2026-11-21")] = "",
    finished: Annotated[bool | None, typer.Option("--finished/--stopped", help="only runs that were finished, or that were not")] = None,
    imported: Annotated[bool | None, typer.Option("--imported/--own", help="only runs from other machines, or from this one")] = None,
    json: AsJson = False,
) -> None:
    """List the stored runs, newest first."""
    from advisor.report.table import align
    from advisor.store import Filter, Store, default_home

    wanted = Filter(model=model, device=device, note=noted, since=since, finished=finished, imported=imported)
    entries = Store(default_home(os.environ)).history(wanted)
    if json:
        typer.echo(msgspec.json.encode(entries).decode())
        return
    rows = [["run", "created", "model", "device", "state", "note"]]
    for entry in entries:
        state = ("finished" if entry.finished else "stopped") + (", imported" if entry.imported else "")
        rows.append([entry.run_id, entry.created, entry.model, entry.device, state, entry.note])
    nothing = "No runs yet. p3-advisor --json makes one." if wanted == Filter() else "No run fits."
    typer.echo("\n".join(align(rows)) if entries else nothing)


@app.command()
@takes_answers
def workflows(answers: Answers, *, json: AsJson = False) -> None:
    """List what applies here, what does not and why, how to get it, and where it was verified."""
    from advisor.cli import listing

    typer.echo(listing.render(answers, _world(), as_json=json), nl=False)


@app.command()
def doctor(
    *,
    python: Annotated[str, typer.Option(help="interpreter that has the stacks")] = "",
    observer: Annotated[
        bool, typer.Option("--observer", help="measure whether the screens and the GPU's poller disturb the timing")
    ] = False,
    repair: Annotated[bool, typer.Option("--repair", help="make environments anew that do not work")] = False,
    json: AsJson = False,
) -> None:
    """Look at GPU, driver, interpreter, disk and environments, and say what to mend."""
    from advisor import doctor as examination
    from advisor.report.table import align
    from advisor.store import default_home

    findings = examination.examine(python or sys.executable, default_home(os.environ), os.environ)
    broken = examination.broken_environments(findings)
    if repair and broken:
        for directory in environments.make(broken, python=python):
            _note(f"mended: {directory}")
        findings = examination.examine(python or sys.executable, default_home(os.environ), os.environ)
    if observer:
        from advisor import observer as observation

        seen = observation.observe(python or sys.executable, _world())
        findings.append(examination.Finding(name="observer", status=seen.status, what=seen.words, fix=seen.fix))
    if json:
        typer.echo(msgspec.json.encode(findings).decode())
    else:
        rows = [[finding.status, finding.name, finding.what] for finding in findings]
        for line, finding in zip(align(rows), findings, strict=True):
            typer.echo(line)
            if finding.fix:
                typer.echo(f"      next: {finding.fix}")
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(3)


def _world() -> World:
    from advisor.store import Store, default_home
    from advisor.world import World

    return World(environment=dict(os.environ), store=Store(default_home(os.environ)))


def _finish(directory: pathlib.Path, *, as_json: bool, as_events: bool) -> None:
    """Do what is left of a run, narrate it, and present what follows."""
    from advisor import pipeline
    from advisor.report import narration
    from advisor.store import Run

    run = Run(directory)
    for event in pipeline.execute(run, _world()):
        if as_events:
            typer.echo(msgspec.json.encode(event).decode())
            sys.stdout.flush()
        line = narration.tell(event)
        if line is not None:
            _note(line)
    _present(pipeline.decide(run), as_json=as_json, as_line=as_events)


def _present(decision: pipeline.Decision, *, as_json: bool, as_line: bool = False) -> None:
    """Print a decision; leave with the code of what stands in the way of a recommendation."""
    from advisor.report import document, table

    composed = document.compose(
        decision.header, decision.state, decision.results, decision.scored, decision.recommendation, decision.problem
    )
    if as_line:
        typer.echo(msgspec.json.encode({"document": composed}).decode())
    else:
        typer.echo(document.encode(composed) if as_json else table.render(composed), nl=False)
    if decision.problem is not None:
        _note(f"{decision.problem.what}; next: {decision.problem.next_step}")
        raise typer.Exit(decision.problem.exit_code)


def _present_unattached(answers: Answers, world: World, absent: UserError, *, as_json: bool) -> None:
    """Print what a stored run from such a GPU says, else what published figures say; raise `absent` where there is neither."""
    from advisor.pipeline import imported, unattached
    from advisor.report import document, published, table
    from advisor.report import imported as origin

    found = imported.answer(answers, world)
    composed = origin.compose(found) if found else published.compose(unattached.answer(answers, world, absent))
    typer.echo(document.encode(composed) if as_json else table.render(composed), nl=False)
    if found and found.decision.problem:
        raise typer.Exit(found.decision.problem.exit_code)


def _note(line: str) -> None:
    typer.echo(f"p3-advisor: {line}", err=True)
