"""The command line: arguments -> pipeline -> presenters. The only place that prints or exits.

Data goes to standard output, narration and errors to standard error; exit codes are those of
`advisor.errors`. Here it begins and ends; the commands are in the modules beside, by subject. They
import what they need when they are called, so that others start quickly.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

import advisor
from advisor.cli import answers, environments, fleet, history, inspection, reports, terminal
from advisor.cli.interruption import InterruptedRunError, Interruptions
from advisor.cli.output import put
from advisor.errors import UserError

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

# In the order in which --help lists them.
for part in (terminal, answers, fleet, inspection, environments, reports, history):
    app.add_typer(part.app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given and not terminal.is_terminal(os.environ):
        sys.stderr.write(SHORT_HELP)
        sys.exit(2)
    if not given or (given[0].startswith("-") and given[0] not in ROOT_FLAGS):
        given.insert(0, "ask" if terminal.wants_terminal(given, os.environ) else "recommend")
    with Interruptions():
        _run(given)
    sys.exit(0)


def _run(given: Sequence[str]) -> None:
    """Run the command line; what ends it early is an exit code."""
    try:
        app(given, prog_name="p3-advisor")
    except UserError as problem:
        put(f"p3-advisor: {problem.what}\n  next: {problem.next_step}", err=True)
        sys.exit(problem.exit_code)
    except InterruptedRunError as interruption:
        kept = (
            f"; what was measured is kept: {interruption.command}" if interruption.command else ""
        )
        put(f"p3-advisor: stopped{kept}", err=True)
        sys.exit(128 + interruption.number)
    except BrokenPipeError:
        # Whoever read standard output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer's callback
    if wanted:
        put(advisor.__version__)
        raise typer.Exit


def _print_spec(wanted: bool) -> None:  # noqa: FBT001 - Typer's callback
    if wanted:
        from advisor.cli import spec

        put(spec.render(), nl=False)
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print the version"),
    ] = False,
    spec: Annotated[
        bool,
        typer.Option(
            "--spec",
            callback=_print_spec,
            is_eager=True,
            help="print every option, workflow, criterion and schema as JSON",
        ),
    ] = False,
) -> None:
    """Hold the options that belong to no command."""
