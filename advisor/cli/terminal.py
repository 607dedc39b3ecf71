"""`ask`: whether there is a terminal to draw on, and what starts there; `host`, with which its screens have a run worked on."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from advisor.cli import context
from advisor.cli.options import takes_answers
from advisor.errors import NoTerminalError
from advisor.question.answers import Answers

app = typer.Typer(rich_markup_mode=None)

#: Flags that only the terminal program has.
TERMINAL_FLAGS = (
    "--replay",
    "--speed",
    "--plain",
    "--accessible",
    "--ascii",
    "--theme",
    "--no-color",
    "--no-mouse",
    "--tui",
)
#: Flags that ask for data on standard output.
DATA_FLAGS = ("--json", "--jsonl")


def is_terminal(environment: Mapping[str, str]) -> bool:
    """Say whether somebody sits at a terminal that can be drawn on."""
    able = environment.get("TERM", "") not in {"", "dumb"} and environment.get(
        "CI", ""
    ).lower() not in {"1", "true"}
    return able and all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def wants_terminal(given: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Say whether options without a command are meant for the terminal program."""
    names = [word.partition("=")[0] for word in given]
    if any(name in TERMINAL_FLAGS for name in names):
        return True
    return is_terminal(environment) and not any(name in DATA_FLAGS for name in names)


@app.command()
@takes_answers
def ask(  # noqa: PLR0913 - one for each option
    answers: Answers,
    *,
    replay: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="show a recorded run in the real screens; nothing is measured"
        ),
    ] = "",
    speed: Annotated[
        float, typer.Option(help="how many times as fast as it was recorded", min=0.1, max=1000)
    ] = 8.0,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            "--accessible",
            help="questions and answers line by line: for screen readers and simple terminals",
        ),
    ] = False,
    ascii_only: Annotated[
        bool, typer.Option("--ascii", help="draw with ASCII characters only")
    ] = False,
    theme: Annotated[
        str, typer.Option(help="colours, by name, such as p3-high-contrast or textual-light")
    ] = "",
    no_color: Annotated[
        bool, typer.Option("--no-color", help="no colours, as with NO_COLOR in the environment")
    ] = False,
    no_mouse: Annotated[
        bool, typer.Option("--no-mouse", help="leave the mouse to the terminal")
    ] = False,
    tui: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--tui", hidden=True, help="ask on the terminal although options are given"),
    ] = False,
) -> None:
    """Ask the questions on the terminal, show the probes while they run, and the results."""
    from advisor.tui.options import LaunchOptions

    wishes = LaunchOptions(
        answers=answers,
        replay=replay,
        speed=speed,
        ascii_only=ascii_only,
        theme=theme,
        no_color=no_color,
        no_mouse=no_mouse,
    )
    if plain:
        from advisor.cli import plain as asking

        code = asking.ask(answers, context.world())
    elif is_terminal(os.environ):
        from advisor.tui import program

        code = program.show(wishes, context.world())
    else:
        raise NoTerminalError(
            "the questions need a terminal, and here there is none",
            "use --json, recommend, or ask --plain",
        )
    raise typer.Exit(code)


@app.command(hidden=True)
def host(run: str) -> None:
    """Work on a run for screens in another process."""
    from advisor.cli import host as hosting
    from advisor.store import Run

    hosting.work(Run(pathlib.Path(run)), context.world(), sys.stdin, hosting.say)
