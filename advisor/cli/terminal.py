"""`ask`: start the terminal program; `host`: execute a run for its screens."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

import typer

from advisor.ask.run_options import RunOptions
from advisor.cli.options import GroupedCommand, takes_run_options
from advisor.cli.output import DATA_FLAGS, make_context, print_text
from advisor.errors import NoTerminalError

app = typer.Typer(rich_markup_mode=None)

Replay = Annotated[
    str,
    typer.Option(metavar="DIR", help="replay a recorded run in the screens; nothing is measured"),
]
OpenRun = Annotated[
    str,
    typer.Option("--open", metavar="RUN", help="open a stored run, or a file that --json wrote"),
]
Speed = Annotated[
    float, typer.Option(help="speed of the replay, in multiples of real time", min=0.1, max=1000)
]
AsciiOnly = Annotated[bool, typer.Option("--ascii", help="draw with ASCII characters only")]
Theme = Annotated[
    str,
    typer.Option(metavar="NAME", help="colour theme, such as p3-high-contrast or textual-light"),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="no colours, as with NO_COLOR")]
NoMouse = Annotated[bool, typer.Option("--no-mouse", help="do not capture the mouse")]


def is_terminal(environment: Mapping[str, str]) -> bool:
    """Return whether the standard streams are an interactive terminal with cursor control."""
    has_cursor = environment.get("TERM", "") not in {"", "dumb"} and environment.get(
        "CI", ""
    ).lower() not in {"1", "true"}
    return has_cursor and all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def wants_terminal(
    args: Sequence[str], environment: Mapping[str, str], own_flags: Collection[str]
) -> bool:
    """Return whether arguments without a command start the terminal program.

    `own_flags` are those that no other command has.
    """
    names = {word.partition("=")[0] for word in args}
    return not names.isdisjoint(own_flags) or (
        is_terminal(environment) and names.isdisjoint(DATA_FLAGS)
    )


@app.command(cls=GroupedCommand, rich_help_panel="Measure")
@takes_run_options
def ask(
    run_options: RunOptions,
    *,
    replay: Replay = "",
    open_run: OpenRun = "",
    speed: Speed = 8.0,
    ascii_only: AsciiOnly = False,
    theme: Theme = "",
    no_color: NoColor = False,
    no_mouse: NoMouse = False,
) -> None:
    """Start the terminal program. It asks for the options and shows the run and its results."""
    from advisor.tui.launch import LaunchOptions

    options = LaunchOptions(
        run_options=run_options,
        replay=replay,
        open=open_run,
        speed=speed,
        ascii_only=ascii_only,
        theme=theme,
        no_color=no_color,
        no_mouse=no_mouse,
    )
    if not is_terminal(os.environ):
        raise NoTerminalError(
            "ask needs a terminal, and the standard streams are not one", "use --json or recommend"
        )
    from advisor.tui import launch

    code, exit_message = launch.run_app(options, make_context())
    if exit_message:
        print_text(exit_message)
    raise typer.Exit(code)


@app.command(hidden=True)
def host(run: str, wait_seconds: float | None = None) -> None:
    """Execute a run for screens in another process."""
    from advisor.cli import run_host

    context = make_context()
    run_host.execute_for_screens(context.store.find(run), context, sys.stdin, wait_seconds)
