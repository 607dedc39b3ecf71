"""The sections of `--help`: each command and option is in one of them, under its title."""

from __future__ import annotations

import itertools
import pathlib

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


def test_each_command_names_its_section_and_is_in_the_readme() -> None:
    readme = (pathlib.Path(__file__).parents[3] / "README.md").read_text()
    described = readme[readme.index("## Commands") :]
    for name, command in command_line.program().commands.items():
        if not command.hidden:
            assert getattr(command, "rich_help_panel", None) in COMMAND_GROUPS, name
            assert name == "ask" or f"`{name}" in described or f"{name} " in described, name
    lines = CliRunner().invoke(command_line.app, ["--help"]).output.splitlines()
    titles = [line.removesuffix(":") for line in lines if line.endswith(":")]
    assert titles == ["Options", *COMMAND_GROUPS]
