"""`--json` and `--jsonl` work before and after the name of a command."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable, Iterator

import pytest
from typer.core import TyperGroup

from advisor.cli.command_line import program
from advisor.cli.output import DATA_FLAGS, move_behind_command

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


@pytest.mark.parametrize("command", [("show",), ("decide",), ("env", "list"), ("history",)])
def test_a_command_prints_json_wherever_the_flag_is(
    run_cli: RunCli, recorded: pathlib.Path, command: tuple[str, ...]
) -> None:
    run = [recorded.name] if command in {("show",), ("decide",)} else []
    before, after = run_cli("--json", *command, *run), run_cli(*command, *run, "--json")
    assert before.returncode == after.returncode == 0, before.stderr
    assert json.loads(before.stdout) == json.loads(after.stdout)
