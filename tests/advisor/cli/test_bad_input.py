from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator

import pytest
from forks import RunProgram, assert_error
from typer.core import TyperGroup
from typer.testing import CliRunner

from advisor.ask.run_options import RunOptions
from advisor.cli import command_line, recommendations
from advisor.cli.command_line import program
from advisor.cli.options import COMMAND_GROUPS
from advisor.cli.output import DATA_FLAGS, move_behind_command
from advisor.domain.errors import CommandLineError, OptionValueError

#: Each error is tested with the function that raises it; these cover the options and exit codes.
CASES = {
    "an unknown model": (["--model", "no-such-model"], 2, "unknown model"),
    "a GPU that is not attached": (["--gpu", "RTX 4090"], 3, "is not attached"),
    "a limit of opening below zero": (["--max-open-seconds", "-5"], 2, "is out of range"),
    "a program that is not an interpreter": (
        ["--python", "/bin/true"],
        3,
        "does not run as a Python interpreter",
    ),
    "a missing rubric": (["--rubric", "gone.toml"], 2, "cannot be read"),
    "an unknown option": (["--no-such-option"], 2, "No such option"),
    "an unknown choice": (["--dtype", "fp17"], 2, "float16"),
    "a precision that only a model has": (["--dtype", "float64"], 2, "did you mean auto?"),
    "an empty name": (["recommend", ""], 2, "unknown model ''"),
    "two models": (["recommend", "net.py:build", "--model", "demo2"], 2, "two models"),
    "a workflow that cannot run here": (
        ["--workflows", "trt", "--gpu", "cpu"],
        3,
        "cannot run here",
    ),
}


def assert_user_error(answer: subprocess.CompletedProcess[str], code: int, words: str) -> None:
    assert_error(answer, code)
    if {"--json", "--jsonl"} & {*answer.args}:
        problem = json.loads(answer.stdout)["problem"]
        assert problem["exit_code"] == code
        assert words in problem["what"]
        assert problem["what"] in answer.stderr
        assert problem["next_step"] in answer.stderr
    else:
        assert answer.stdout == ""
    assert words in answer.stderr


@pytest.mark.parametrize("case", CASES)
def test_an_invalid_option_is_an_error_before_anything_is_stored(
    case: str, home: pathlib.Path, run_program: RunProgram
) -> None:
    arguments, code, words = CASES[case]
    assert_user_error(run_program("--json", *arguments), code, words)
    assert not home.exists()


@pytest.mark.parametrize(
    ("name", "next_step"),
    [
        ("ls", "did you mean history?"),
        ("shw", "did you mean show?"),
        ("run", "did you mean recommend?"),
        ("version", "did you mean --version?"),
        ("net.py:build", "measure a model with p3-advisor recommend net.py:build"),
        ("env ls", "did you mean list?"),
    ],
)
def test_what_is_no_command_has_a_hint(name: str, next_step: str) -> None:
    with pytest.raises(CommandLineError) as found:
        program()(name.split(), standalone_mode=False)
    assert found.value.next_step == next_step


def test_a_group_without_a_command_is_an_error_of_one_line(run_program: RunProgram) -> None:
    answer = run_program("env")
    assert_user_error(answer, 2, "Missing command")
    assert len(answer.stderr.splitlines()) == 2, "with the next step"


def test_a_directory_is_not_called_missing(tmp_path: pathlib.Path, run_program: RunProgram) -> None:
    assert_user_error(run_program("show", str(tmp_path)), 2, "is no directory of a run")


@pytest.mark.parametrize("command", ["show", "decide", "resume"])
def test_an_unknown_run_is_an_error(command: str, run_program: RunProgram) -> None:
    assert_user_error(run_program(command, "gone"), 2, "there is no run 'gone'")


def test_a_home_that_is_not_writable_is_an_error(
    tmp_path: pathlib.Path, run_program: RunProgram
) -> None:
    file = tmp_path / "file"
    file.write_text("a file where a directory should be")
    assert_user_error(
        run_program("--json", "--workflows", "pytorch-eager", home=file / "home"),
        3,
        "Not a directory",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("recommend", "--json", "--jsonl", "--model", "demo"),
        ("--jsonl", "recommend", "--json", "--model", "demo", "--input-tokens", "32,64"),
        ("resume", "--json", "--jsonl"),
    ],
)
def test_both_flags_of_json_together_are_an_error(
    arguments: tuple[str, ...], home: pathlib.Path, run_program: RunProgram
) -> None:
    assert_user_error(run_program(*arguments), OptionValueError.exit_code, "different formats")
    assert not home.exists()


@pytest.mark.stack
def test_a_run_whose_model_is_refused_is_not_kept(
    home: pathlib.Path, tmp_path: pathlib.Path, run_program: RunProgram
) -> None:
    (tmp_path / "net.py").write_text("def build():\n    raise ValueError('no weights')\n")
    answer = run_program(
        *("recommend", "net.py:build", "--gpu", "cpu", "--workflows", "pytorch-eager", "--json")
    )
    assert_user_error(answer, 2, "no weights")
    assert "the run is not kept" in answer.stderr
    assert json.loads(answer.stdout)["problem"]["name"] == "model-refused"
    assert not [*(home / "runs").iterdir()]


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
    assert sections[last] == [*["--open", "--theme", "--no-color"], "--no-mouse", "--help"]
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
