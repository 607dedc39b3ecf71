"""Whatever the user gets wrong ends in one sentence, a next step and its exit code; no traceback, nothing on standard output."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")

CASES = {
    "an unknown model": (["--model", "no-such-model"], 2, "there is no model"),
    "a misspelt model": (["--model", "demmo"], 2, "did you mean demo?"),
    "an unknown block": (["--model", "synthetic/cube"], 2, "is no synthetic model"),
    "a bad size": (["--model", "synthetic/ffn@0x8"], 2, "out of range"),
    "an absurd size": (["--model", "synthetic/ffn@999999999x8"], 2, "out of range"),
    "a size that is none": (["--model", "synthetic/ffn@huge"], 2, "is no size"),
    "a missing file": (["--model", "gone.onnx"], 2, "there is no file"),
    "a missing factory file": (["--model", "gone.py:build"], 2, "there is no file"),
    "a hub name offline": (["--model", "someone/some-model", "--offline"], 2, "from the hub"),
    "an unknown workflow": (
        ["--workflows", "torch-compile-indoctor"],
        2,
        "did you mean torch-compile-inductor?",
    ),
    "an unknown GPU": (["--gpu", "Voodoo 2"], 2, "there is no GPU"),
    "a GPU that is elsewhere": (["--gpu", "RTX 4090"], 3, "is not attached"),
    "an unknown preset": (["--preset", "fastest"], 2, "there is no preset"),
    "weights that do not sum": (
        ["--priority", "performance=60,productivity=25,portability=25"],
        2,
        "sum to 110, not 100",
    ),
    "a weight that is no number": (
        ["--priority", "performance=high,productivity=25,portability=15"],
        2,
        "is no number",
    ),
    "a weight of NaN": (
        ["--priority", "performance=nan,productivity=25,portability=15"],
        2,
        "is not between 0 and 100",
    ),
    "a weight missing": (
        ["--priority", "performance=100"],
        2,
        "gives no weight for productivity, portability",
    ),
    "a constraint that is none": (["--require", "portability>5"], 2, "is no constraint"),
    "a negative batch size": (["--batch-sizes", "-1"], 2, "out of range"),
    "batch sizes in words": (["--batch-sizes", "one,two"], 2, "is no list of whole numbers"),
    "no input tokens": (["--input-tokens", "0"], 2, "out of range"),
    "a budget of nothing": (["--budget", "0"], 2, "is not a positive number"),
    "a budget that is a word": (["--budget", "endless"], 2, "neither a name nor a number"),
    "a build limit below zero": (["--max-build-seconds", "-5"], 2, "is not a positive number"),
    "an interpreter that is none": (
        ["--python", "/bin/true"],
        3,
        "does not run as a Python interpreter",
    ),
    "a rubric that is not there": (["--rubric", "gone.toml"], 2, "cannot be read"),
}


def advise(
    *arguments: str, home: pathlib.Path, directory: pathlib.Path
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "P3_ADVISOR_HOME": str(home)}
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=directory,
        check=False,
    )


def assert_told(answer: subprocess.CompletedProcess[str], code: int, words: str) -> None:
    assert answer.returncode == code, answer.stderr
    assert answer.stdout == ""
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("  next: ")


@pytest.mark.parametrize("case", CASES)
def test_a_bad_answer_is_told_before_anything_is_stored(
    case: str, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    arguments, code, words = CASES[case]
    assert_told(advise("--json", *arguments, home=home, directory=tmp_path), code, words)
    assert not home.exists()


def test_a_key_that_no_rubric_has_is_told_with_its_place(
    home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nminimum_engaged_share = 0.1\ncolour = "red"\nfacts = {}\ncriteria = []\n'
    )
    assert_told(
        advise("--json", "--rubric", "mine.toml", home=home, directory=tmp_path), 2, "colour"
    )


def test_a_directory_of_pickled_weights_is_refused(
    home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (model / "pytorch_model.bin").write_bytes(b"a pickle")
    answer = advise("--json", "--model", str(model), home=home, directory=tmp_path)
    assert_told(answer, 2, "pickle")
    assert "--allow-pickle" in answer.stderr


@pytest.mark.parametrize("content", ["", "{", "[]", '{"hidden_size": 8}'])
def test_a_directory_without_a_usable_configuration_is_refused(
    content: str, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    if content:
        (model / "config.json").write_text(content)
    assert_told(
        advise("--json", "--model", str(model), home=home, directory=tmp_path), 2, "config.json"
    )


@pytest.mark.parametrize("command", ["show", "decide", "resume"])
def test_an_unknown_run_is_told(command: str, home: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert_told(advise(command, "gone", home=home, directory=tmp_path), 2, "there is no run 'gone'")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"rubbish", "is damaged"),
        (b'{"schema": "p3-advisor/run-header/99"}', "this program reads"),
        (b"[]", "is damaged"),
        (b"{}", "this program reads"),
    ],
)
def test_a_run_that_cannot_be_read_is_told(
    content: bytes, words: str, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    directory = home / "runs" / "20260101-000000-0000"
    directory.mkdir(parents=True)
    (directory / "run.json").write_bytes(content)
    assert_told(advise("show", "2026", home=home, directory=tmp_path), 2, words)


def test_a_home_that_cannot_be_written_is_told(tmp_path: pathlib.Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("a file where a directory should be")
    assert_told(
        advise(
            "--json", "--workflows", "pytorch-eager", home=in_the_way / "home", directory=tmp_path
        ),
        3,
        "Not a directory",
    )


def test_without_arguments_and_terminal_there_is_short_help_and_code_2(
    home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    answer = advise(home=home, directory=tmp_path)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert "--json" in answer.stderr
    assert "\x1b" not in answer.stderr
