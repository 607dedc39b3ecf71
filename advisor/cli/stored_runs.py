"""Commands on stored runs: show, decide again, explain, and build for another GPU."""

from __future__ import annotations

import pathlib
from typing import Annotated

import typer

from advisor.ask.answers import Answers
from advisor.cli.execution import print_answer
from advisor.cli.options import AsJson, RunName, StoredRunName
from advisor.cli.output import (
    choose_output_format,
    make_context,
    open_store,
    print_status,
    print_text,
)
from advisor.domain.priorities import CRITERIA

app = typer.Typer(rich_markup_mode=None)


@app.command()
def show(
    run: RunName = "latest",
    *,
    json: AsJson = False,
    times: Annotated[
        bool, typer.Option("--times", help="with --json: the seconds of every timed call, too")
    ] = False,
) -> None:
    """Show the results of a stored run."""
    output_format = choose_output_format(json=json)
    from advisor.decide.decision import decide
    from advisor.report import opening

    if times and not opening.is_file(run):
        answer = decide(open_store().find(run), with_times=True)
    else:
        answer = opening.open_answer(run, open_store())
    if answer.in_progress:
        print_status("the run is in progress; arms that wait are listed as not measured")
    print_answer(answer, output_format)


@app.command("decide")
def decide_again(
    run: RunName = "latest",
    *,
    priority: Annotated[
        str,
        typer.Option(
            "--priority", "--weights", metavar="WEIGHTS", help="new weights, as in recommend"
        ),
    ] = "",
    preset: Annotated[str, typer.Option(metavar="NAME", help="new priorities, by name")] = "",
    require: Annotated[str, typer.Option(metavar="CONSTRAINTS", help="new constraints")] = "",
    rubric: Annotated[
        str, typer.Option(metavar="FILE", help="a file that replaces criteria.toml")
    ] = "",
    platforms: Annotated[
        str,
        typer.Option(
            metavar="RUNS", help="comma-separated runs of the same model on other devices"
        ),
    ] = "",
    json: AsJson = False,
) -> None:
    """Score a stored run again. The options replace those of the run."""
    from advisor.ask import rubric_files
    from advisor.ask.constraints import parse_constraints
    from advisor.ask.priorities import choose_priorities
    from advisor.decide.decision import decide
    from advisor.report import opening

    priorities = (
        choose_priorities(Answers(priority=priority, preset=preset), rubric_files.load())
        if priority or preset
        else None
    )
    constraints = parse_constraints(require) if require else None
    criteria = pathlib.Path(rubric) if rubric else None
    output_format = choose_output_format(json=json)
    store = open_store()
    if opening.is_file(run):
        answer = opening.open_answer(
            run, store, priorities=priorities, constraints=constraints, rubric=criteria
        )
        print_answer(answer, output_format)
        return
    answer = decide(
        store.find(run),
        priorities=priorities,
        constraints=constraints,
        rubric=criteria,
        platforms=[store.find(name.strip()) for name in platforms.split(",") if name.strip()],
    )
    print_answer(answer, output_format)


@app.command()
def explain(
    run: RunName = "latest",
    workflow: Annotated[
        str, typer.Argument(help="a workflow or arm; default: the recommended one")
    ] = "",
    criterion: Annotated[
        str, typer.Argument(help=f"one of {', '.join(CRITERIA)}; default: all of them")
    ] = "",
) -> None:
    """Explain the score of a workflow: each figure, its rule and its source."""
    from advisor.ask import rubric_files
    from advisor.report import explanation, opening

    published = rubric_files.load().published
    print_text(
        explanation.render(opening.open_answer(run, open_store()), workflow, criterion, published),
        nl=False,
    )


@app.command()
def build(
    run: StoredRunName = "latest",
    *,
    target: Annotated[
        str,
        typer.Option(
            metavar="GPU", help="the GPU to build for, such as sm_89; it need not be attached"
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="DIR", help="the directory for the engine")
    ] = ".",
) -> None:
    """Build a run's model for a GPU that is not attached. The engine is not run."""
    from advisor.domain.run_events import LoggedEvent
    from advisor.execute import cross_build
    from advisor.report import progress_lines

    for run_event in cross_build.build(
        open_store().find(run), target, pathlib.Path(output), make_context()
    ):
        line = progress_lines.render_event(LoggedEvent(seq=1, at=0.0, run_event=run_event))
        if line is not None:
            print_status(line)
    print_text(str(pathlib.Path(output) / f"{target}.engine"))
