"""Options: their sections in `--help`, and data flags before and after the name of a command."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable, Iterator

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from advisor.ask.run_options import RunOptions
from advisor.cli import command_line, recommendations
from advisor.cli.command_line import program
from advisor.cli.options import COMMAND_GROUPS
from advisor.cli.output import DATA_FLAGS, move_behind_command


def test_an_option_is_listed_below_the_title_of_its_group() -> None:
    lines = CliRunner().invoke(recommendations.app, ["ask", "--help"]).output.splitlines()
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
    known = [f"--{name.replace('_', '-')}" for name in RunOptions.__struct_fields__]
    assert sorted(listed) == sorted(known)
    own = ["--replay", "--open", "--speed", "--ascii", "--theme", "--no-color"]
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


RunCli = Callable[..., subprocess.CompletedProcess[str]]


def commands_with_data() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each command and each data flag that it takes."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), program())]
    while waiting:
        path, command = waiting.pop()
        if isinstance(command, TyperGroup):
            waiting += [((*path, name), child) for name, child in command.commands.items()]
            continue
        options = {name for parameter in command.params for name in parameter.opts}  # type: ignore[attr-defined]
        yield from ((path, flag) for flag in DATA_FLAGS if flag in options)


@pytest.mark.parametrize(("path", "flag"), [*commands_with_data()])
def test_a_data_flag_before_a_command_is_its_flag(path: tuple[str, ...], flag: str) -> None:
    for place in range(len(path)):
        given = [*path[:place], flag, *path[place:], "--", "latest"]
        assert move_behind_command(given, program()) == [*path, flag, "--", "latest"]


@pytest.mark.parametrize("args", [["--json"], ["--json", "--model", "show"], ["--jsonl", "--gpu"]])
def test_a_data_flag_without_a_command_stays(args: list[str]) -> None:
    assert move_behind_command(args, program()) == args
