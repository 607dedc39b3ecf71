"""Parse the arguments, run the command, and turn errors into exit codes."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, TextIO, cast

import msgspec
import typer
from typer.core import TyperGroup

from advisor.cli import diagnostics, recommendations, reports, stored_runs
from advisor.cli.interruption import InterruptedRunError, interruptions
from advisor.cli.options import GroupedProgram
from advisor.cli.output import DATA_FLAGS, move_behind_command, print_text
from advisor.domain.answer import Problem
from advisor.domain.errors import CommandLineError, OutputFileError, UserError
from advisor.domain.version import __version__

#: Errors of a write: no space, no quota, a file too large, a device or terminal that is gone.
DISK_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
ROOT_FLAGS = {"-h", "--help", "--version", "--spec", "--install-completion", "--show-completion"}
#: The class of usage errors in the copy of Click that some versions of Typer have.
USAGE_ERROR: Any = typer.BadParameter.__base__
#: A shell sets it when it asks for completions.
COMPLETION_VARIABLE = "_P3_ADVISOR_COMPLETE"
app = typer.Typer(
    cls=GroupedProgram,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measure compilation workflows of a PyTorch model on this machine and recommend one.",
    epilog="Without a command, p3-advisor --json means p3-advisor recommend --json; on a terminal,"
    " p3-advisor means p3-advisor ask.",
)

for module in (recommendations, stored_runs, diagnostics, reports):
    app.add_typer(module.app)


@functools.cache
def program() -> TyperGroup:
    """Return the program with all commands, which takes a tenth of a second to make."""
    return cast("TyperGroup", typer.main.get_command(app))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller; no other file may get its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    args = list(sys.argv[1:] if arguments is None else arguments)
    if COMPLETION_VARIABLE in os.environ:
        _run(args)
    if not args and not recommendations.is_terminal(os.environ):
        context = program().make_context("p3-advisor", [], resilient_parsing=True)
        print_text(program().get_help(context), err=True)
        sys.exit(2)
    if any(word in DATA_FLAGS for word in args[:2]):
        args = move_behind_command(args, program())
    if not args or (args[0].startswith("-") and args[0] not in ROOT_FLAGS):
        ask, recommend = (
            {flag for each in program().commands[name].params for flag in each.opts}
            for name in ("ask", "recommend")
        )
        given = {word.partition("=")[0] for word in args}
        is_on_screens = recommendations.is_terminal(os.environ) and given.isdisjoint(DATA_FLAGS)
        args.insert(0, "ask" if is_on_screens or given & (ask - recommend) else "recommend")
    with interruptions():
        try:
            _run(args)
        finally:
            _drop_unwritable_output(sys.stdout)
            _drop_unwritable_output(sys.stderr)
    sys.exit(0)


def _run(args: Sequence[str]) -> None:
    try:
        code = program()(args, prog_name="p3-advisor", standalone_mode=False)
    except UserError as problem:
        _exit_with(problem, args)
    except USAGE_ERROR as problem:
        command = problem.ctx.command_path if problem.ctx else "p3-advisor"
        _exit_with(CommandLineError(problem.format_message(), f"see {command} --help"), args)
    except typer.Abort:
        sys.exit(1)
    except InterruptedRunError as interruption:
        command = interruption.resume_command
        kept = f"; what was measured is kept, resume with: {command}" if command else ""
        print_text(f"p3-advisor: stopped{kept}", err=True)
        sys.exit(128 + interruption.number)
    except SystemExit as ended:
        # Typer exits with 1 where the reader of the output has closed the pipe, as `head` does.
        if isinstance(ended.__context__, BrokenPipeError):
            ended.code = 128 + signal.SIGPIPE
        raise
    except OSError as problem:
        if problem.errno not in DISK_ERRNOS:
            raise
        name = f"{problem.filename}" if problem.filename else "the output"
        _exit_with(
            OutputFileError(
                f"{name} cannot be written: {problem.strerror}",
                "free disk space, or write to another disk",
            ),
            args,
        )
    if isinstance(code, int):
        sys.exit(code)


def _exit_with(problem: UserError, args: Sequence[str]) -> NoReturn:
    # Without a place for the message, the exit code still says what was wrong.
    if {*DATA_FLAGS} & {*args}:
        with contextlib.suppress(OSError):
            print_text(msgspec.json.encode({"problem": Problem.of(problem)}))
    with contextlib.suppress(OSError):
        print_text(f"p3-advisor: {problem.what}\n  next: {problem.next_step}", err=True)
    sys.exit(problem.exit_code)


def _drop_unwritable_output(stream: TextIO) -> None:
    """Discard buffered output that cannot be written: Python would write it again at its end."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@app.callback(invoke_without_command=True)
def root(
    *,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    spec: Annotated[
        bool,
        typer.Option("--spec", help="print every option, workflow, criterion and schema as JSON"),
    ] = False,
) -> None:
    """Print what belongs to no command."""
    if version:
        print_text(__version__)
    elif spec:
        from advisor.cli.schemas import describe_program

        print_text(describe_program(), nl=False)
    if version or spec:
        raise typer.Exit
