"""Write a command's output to a file or to standard output."""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import typer
from typer.core import TyperGroup

from advisor.domain.errors import OptionValueError, OutputFileError, choose_among, reported_as
from advisor.domain.text import escape_control_chars

if TYPE_CHECKING:
    from advisor.ask.context import Context

STANDARD_OUTPUT = "-"
#: What a coding agent reads first.
SKILL = pathlib.Path(__file__).with_name("SKILL.md")
#: Format of standard output: text for a reader, one indented JSON document, or a line of JSON for
#: each event and for the document.
OutputFormat = Literal["text", "json", "json-lines"]
#: What stands out on a terminal.
MARKS: list[tuple[str, dict[str, Any]]] = [
    (r"^CLEAR\b", {"fg": "green", "bold": True}),
    (r"^LIKELY\b", {"fg": "cyan", "bold": True}),
    (r"^OPEN\b", {"fg": "yellow", "bold": True}),
    (r"^(Cost|Next|All figures|Measured):", {"bold": True}),
    (r"^ {0,2}# .*", {"bold": True}),
    (r"^    (?! ).*", {"fg": "cyan"}),
]

Document = TypeVar("Document", bound=msgspec.Struct)
DATA_FLAGS = ("--json", "--jsonl")


def choose_output_format(*, json: bool, jsonl: bool = False) -> OutputFormat:
    """Return the format of the flags `--json` and `--jsonl`; raise `OptionValueError` for both."""
    if json and jsonl:
        raise OptionValueError(
            "--json and --jsonl ask for different formats",
            "leave out one of them: the last line of --jsonl has the document that --json prints",
        )
    if jsonl:
        return "json-lines"
    return "json" if json else "text"


def known_name(kind: str, name: str, known: Collection[str]) -> str:
    """Return the name of a format or style; raise `OptionValueError` for an unknown one."""
    if name not in known:
        raise OptionValueError(f"unknown {kind} {name!r}", choose_among(name, known))
    return name


def print_rows(
    rows: Sequence[msgspec.Struct], render: Callable[[], Iterable[str]], *, json: bool
) -> None:
    as_json = msgspec.json.format(msgspec.json.encode(rows), indent=2) if json else b""
    print_text(as_json or "\n".join(render()))


def table_width(output: str = STANDARD_OUTPUT) -> float:
    """Return the columns of the terminal; infinite for a file or a pipe, which lose nothing."""
    columns = shutil.get_terminal_size((0, 0)).columns if output == STANDARD_OUTPUT else 0
    return columns or math.inf


def print_document(
    document: Document, output_format: OutputFormat, render: Callable[[Document], str]
) -> None:
    from advisor.domain.answer import encode

    match output_format:
        case "json-lines":
            print_text(msgspec.json.encode({"document": document}))
        case "json":
            print_text(encode(document), nl=False)
        case "text":
            print_text(render(document), nl=False, mark=emphasise)


def emphasise(text: str) -> str:
    if os.environ.get("NO_COLOR"):
        return text
    paragraph, gap, rest = text.partition("\n\n")
    first = re.match(r"[^\n]*(\n  [^\n]*)*", paragraph)
    end = first.end() if first else 0
    marked = typer.style(paragraph[:end], bold=True) + paragraph[end:] + gap + rest
    for pattern, style in MARKS:
        marked = re.sub(pattern, typer.style(r"\g<0>", **style), marked, flags=re.MULTILINE)
    return marked


def print_text(
    text: object = "", *, err: bool = False, nl: bool = True, mark: Callable[[str], str] = str
) -> None:
    """Print text or JSON with its control characters escaped.

    `mark` adds colours after that; they are left out where the output is no terminal.
    """
    escaped = escape_control_chars(text.decode() if isinstance(text, bytes) else str(text))
    typer.echo(mark(escaped), err=err, nl=nl)


def write_output(output: str, content: str | bytes) -> None:
    """Write text with its control characters escaped, or unchanged bytes, to a file or to stdout.

    Raise `OutputFileError` when the file cannot be written.
    """
    if output == STANDARD_OUTPUT and isinstance(content, str):
        print_text(content, nl=False)
        return
    raw = escape_control_chars(content).encode() if isinstance(content, str) else content
    if output == STANDARD_OUTPUT:
        # A program reads it. It must not be escaped, because the file has a checksum.
        sys.stdout.buffer.write(raw)
        sys.stdout.flush()
        return
    what, next_step = f"{output} cannot be written", "name another place with --output"
    with reported_as(OutputFileError, what, next_step):
        pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(output).write_bytes(raw)


def move_behind_command(args: Sequence[str], command: object) -> list[str]:
    """Return the arguments with the data flags behind the name of the command that they precede.

    Arguments that name no command are returned as they are.
    """
    flags: list[str] = []
    names: list[str] = []
    rest = list(args)
    while isinstance(command, TyperGroup):
        while rest and rest[0] in DATA_FLAGS:
            flags.append(rest.pop(0))
        if not rest or rest[0] not in command.commands:
            break
        names.append(rest.pop(0))
        command = command.commands[names[-1]]
    return [*names, *flags, *rest] if names else list(args)


def make_context() -> Context:
    from advisor.ask.context import Context

    return Context.of_process()


def describe_latest(name: str) -> str:
    """Say that `latest` is not the newest run, and what to do; empty for another name."""
    from advisor.store.runs import GOING_ON
    from advisor.store.store import LATEST

    store = make_context().store
    passed_over = store.passed_over() if name == LATEST else None
    if passed_over is None:
        return ""
    newest, chosen = passed_over
    state, has_none = store.state_of(newest), "has no measurement yet"
    problem = f"{has_none}; p3-advisor resume {newest.run_id} goes on with it"
    if state in GOING_ON:
        problem = f"{has_none} and is being measured"
    elif state != "stopped":
        problem = f"has no measurement; p3-advisor show {newest.run_id} says why"
    return (
        f"this is run {chosen.run_id} of {chosen.model}: the newest run, {newest.run_id} of "
        f"{newest.model}, {problem}"
    )


def print_status(line: str) -> None:
    # A run continues when its log cannot be written.
    with contextlib.suppress(OSError):
        print_text(f"p3-advisor: {line}", err=True)
