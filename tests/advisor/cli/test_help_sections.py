"""The sections of `--help`: each command and option is in one of them, under its title."""

from __future__ import annotations

import itertools

import typer
from typer.testing import CliRunner

from advisor.ask.answers import Answers
from advisor.cli import command_line, recommendations, terminal
from advisor.cli.options import COMMAND_GROUPS, OPTION_GROUPS, VALUE_NAMES

GROUPED = list(itertools.chain.from_iterable(OPTION_GROUPS.values()))


def option_names(app: typer.Typer, command: str) -> set[str]:
    group = typer.main.get_command(app)
    return {str(parameter.name) for parameter in group.commands[command].params}  # type: ignore[attr-defined]


def test_each_option_of_a_question_is_in_one_group() -> None:
    assert len(GROUPED) == len(set(GROUPED))
    assert set(Answers.__struct_fields__) <= set(GROUPED)
    assert set(GROUPED) <= option_names(recommendations.app, "recommend")
    assert set(VALUE_NAMES) <= set(Answers.__struct_fields__)


def test_an_option_is_listed_below_the_title_of_its_group() -> None:
    lines = CliRunner().invoke(terminal.app, ["ask", "--help"]).output.splitlines()
    sections: dict[str, list[str]] = {}
    title = ""
    for line in lines:
        if line.endswith(":") and not line.startswith(" "):
            title = line.removesuffix(":")
        elif line.startswith("  --"):
            sections.setdefault(title, []).append(line.split()[0].strip(","))
    assert list(sections) == [*OPTION_GROUPS, "Output and other options"]
    own = ["--replay", "--open", "--speed", "--plain", "--ascii", "--theme", "--no-color"]
    assert sections["Output and other options"] == [*own, "--no-mouse", "--help"]
    assert sections["Servers under load"][:2] == ["--ttft", "--itl"]


def test_each_command_is_in_one_group() -> None:
    program = typer.main.get_command(command_line.app)
    shown = [name for name, each in program.commands.items() if not each.hidden]  # type: ignore[attr-defined]
    assert sorted(itertools.chain.from_iterable(COMMAND_GROUPS.values())) == sorted(shown)
    lines = CliRunner().invoke(command_line.app, ["--help"]).output.splitlines()
    titles = [line.removesuffix(":") for line in lines if line.endswith(":")]
    assert titles == ["Options", *COMMAND_GROUPS]
