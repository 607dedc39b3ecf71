"""The sections of `--help`: each command and option is in one of them, under its title."""

from __future__ import annotations

import pathlib

from typer.testing import CliRunner

from advisor.ask.answers import Answers
from advisor.cli import command_line, terminal
from advisor.cli.options import COMMAND_GROUPS


def test_an_option_is_listed_below_the_title_of_its_group() -> None:
    lines = CliRunner().invoke(terminal.app, ["ask", "--help"]).output.splitlines()
    sections: dict[str, list[str]] = {}
    title = ""
    for line in lines:
        if line.endswith(":") and not line.startswith(" "):
            title = line.removesuffix(":")
        elif line.startswith("  --"):
            sections.setdefault(title, []).append(line.split()[0].strip(","))
    *titles, last = sections
    assert (titles[0], last) == ("Model", "Output and other options")
    listed = [option for title in titles for option in sections[title]]
    known = [f"--{name.replace('_', '-')}" for name in Answers.__struct_fields__]
    assert sorted(listed) == sorted(known)
    own = ["--replay", "--open", "--speed", "--plain", "--ascii", "--theme", "--no-color"]
    assert sections[last] == [*own, "--no-mouse", "--help"]
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
