"""Files that are hostile, and what the program reads of its surroundings."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Callable

import pytest
import recorded_runs
import workers
from builders import question
from forks import RunProgram, assert_error, run_command

from advisor import cli
from advisor.ask import catalogue_files
from advisor.cli import recommendations
from advisor.cli.output import print_status
from advisor.execute import drafts
from advisor.probing import detection, uv_runner
from advisor.probing.env_variables import worker_environment
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.tui.followed_run import RUNNER_COMMAND
from probes.commands import Build

COMMAND = str(pathlib.Path(sys.executable).with_name("p3-advisor"))
DEEP = 200_000


@pytest.mark.usefixtures("made_run")
@pytest.mark.parametrize(
    "arguments",
    [["show", "--json"], ["show"], ["export-run", "-o", "-"], ["history"], ["--help"], ["--spec"]],
    ids=" ".join,
)
def test_a_full_disk_behind_standard_output_is_a_user_error(
    arguments: list[str], run_program: RunProgram
) -> None:
    assert_error(run_program(*arguments, stdout="/dev/full"), 2)


def test_a_full_disk_behind_standard_error_does_not_hide_the_exit_code(
    run_program: RunProgram,
) -> None:
    assert run_program("--model", "no-such-model", stderr="/dev/full").returncode == 2


@pytest.mark.parametrize("content", ['{"a":' * DEEP, "[" * DEEP], ids=["objects", "lists"])
def test_a_nested_model_configuration_is_a_user_error(
    content: str, tmp_path: pathlib.Path, run_program: RunProgram
) -> None:
    (tmp_path / "config.json").write_text(content)
    assert_error(run_program("--json", "--model", str(tmp_path)), 2)


def test_a_nested_rubric_is_a_user_error(tmp_path: pathlib.Path, run_program: RunProgram) -> None:
    (tmp_path / "mine.toml").write_text(f"name = {'[' * 3000}")
    assert_error(run_program("--json", "--rubric", str(tmp_path / "mine.toml")), 2)


def test_a_run_in_which_an_arm_stands_twice_is_damaged(
    made_run: Run, run_program: RunProgram
) -> None:
    file = made_run.directory / "events.jsonl"
    events = file.read_text().splitlines(keepends=True)
    planned = json.loads(events[0])
    planned["run_event"]["plan"]["arms"].append(planned["run_event"]["plan"]["arms"][-1])
    file.write_text(json.dumps(planned) + "\n" + "".join(events[1:]))
    for command in ("show", "report", "explain", "recipe"):
        assert_error(run_program(command, "latest"), 2)


@pytest.mark.parametrize("name", ["md", "csv", "html", "json"])
def test_reports_hold_no_control_characters(
    name: str, made_run: Run, tmp_path: pathlib.Path, run_program: RunProgram
) -> None:
    hostile = "evil\x1b]0;title\x07\u202egnp"
    header = json.loads((made_run.directory / "run.json").read_text())
    header["question"]["model"]["name"] = hostile
    (made_run.directory / "run.json").write_text(json.dumps(header))
    run_program("report", "latest", "-f", name, "-o", str(tmp_path))
    (file,) = tmp_path.glob(f"*.{name}")
    text = file.read_text(encoding="utf-8")
    assert not set("\x1b\x07\u202e") & set(text)
    assert "gnp" in text
    if name == "json":
        assert json.loads(text)["question"]["model"]["name"] == hostile


@pytest.mark.parametrize("run_id", ["../../evil", "/tmp/evil", "", "20261121-120000-0000\n"])
def test_no_file_is_written_where_a_foreign_id_points(
    run_id: str, made_run: Run, tmp_path: pathlib.Path, run_program: RunProgram
) -> None:
    answer = json.loads(run_program("show", "latest", "--json").stdout)
    foreign = tmp_path / "a" / "foreign.json"
    foreign.parent.mkdir()
    foreign.write_text(json.dumps({**answer, "run_id": run_id}))
    header = made_run.directory / "run.json"
    header.write_text(json.dumps({**json.loads(header.read_text()), "run_id": run_id}))
    files = sorted(tmp_path.rglob("*"))
    for name in (str(foreign), str(made_run.directory)):
        assert_error(run_program("report", name, "-f", "md,csv", "-o", str(foreign.parent)), 2)
    assert sorted(tmp_path.rglob("*")) == files


@pytest.mark.parametrize("command", ["verify", "resume"])
def test_a_run_outside_the_store_is_not_executed(
    command: str, tmp_path: pathlib.Path, run_program: RunProgram
) -> None:
    clone = recorded_runs.make_run(Store(tmp_path), finished=False).directory.rename(
        tmp_path / "latest"
    )
    before = sorted(clone.iterdir())
    for name in ("latest", "./latest", str(clone)):
        answer = run_program(command, name)
        assert_error(answer, 2)
        assert ("outside the program's store" in answer.stderr) == (name != "latest")
    assert sorted(clone.iterdir()) == before
    for name in ("show", "report", "explain", "recipe"):
        assert_error(run_program(name, "latest"), 2)


def test_a_line_of_the_status_holds_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_status("\x1b[31m")
    assert capsys.readouterr().err == "p3-advisor: \\u001b[31m\n"


def make_sparse(file: pathlib.Path) -> None:
    file.touch()
    os.truncate(file, 6 << 30)


@pytest.mark.parametrize(
    ("command", "replace"),
    [("explain", make_sparse), ("verify", os.mkfifo)],
    ids=["sparse", "fifo"],
)
def test_events_that_are_no_regular_or_a_huge_file_do_not_hang(
    command: str, replace: Callable[[pathlib.Path], None], made_run: Run, run_program: RunProgram
) -> None:
    events = made_run.directory / "events.jsonl"
    events.unlink()
    replace(events)
    assert_error(run_program(command, str(made_run.directory)), 2)


@pytest.mark.usefixtures("made_run")
def test_a_document_is_not_executed(tmp_path: pathlib.Path, run_program: RunProgram) -> None:
    (tmp_path / "answer.json").write_text(run_program("show", "--json").stdout)
    for command in ("verify", "resume"):
        assert_error(run_program(command, "answer.json"), 2)


@pytest.mark.parametrize(("user", "is_warned"), [(0, True), (1000, False)])
def test_root_is_warned_about_the_sandbox(
    user: int,
    *,
    is_warned: bool,
    made_run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(drafts, "draft_or_answer", lambda *_: made_run)
    monkeypatch.setattr(drafts, "create", lambda draft, _: draft)
    monkeypatch.setattr(recommendations, "execute", lambda *_: None)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(SystemExit) as end:
        cli.main(["recommend", "--sandbox"])
    assert end.value.code == 0
    assert ("sandbox" in capsys.readouterr().err) == is_warned


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-"])
def test_a_closed_standard_stream_is_no_error(closed: str, home: pathlib.Path) -> None:
    command = ["sh", "-c", f"exec '{COMMAND}' history {closed}"]
    answer = run_command(command, {"P3_ADVISOR_HOME": str(home)})
    assert (answer.returncode, "Traceback" in answer.stderr) == (0, False)


#: Modules of the standard library, of pip and of a stack that our children import.
SHADOWED = (
    "json",
    "typing",
    "pathlib",
    "platform",
    "runpy",
    "threading",
    "subprocess",
    "pip",
    "numpy",
    "torch",
    "advisor",
)


@pytest.fixture
def checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory with modules that record that they were imported."""
    directory = tmp_path / "checkout"
    directory.mkdir()
    for name in SHADOWED:
        package = directory / name
        package.mkdir()
        for file in ("__init__.py", "__main__.py", "version.py"):
            (package / file).write_text(
                f"open({str(directory / 'executed')!r}, 'a').write({name + '/' + file!r} + '\\n')\n"
                "raise SystemExit(1)\n"
            )
    return directory


def executed(checkout: pathlib.Path) -> list[str]:
    file = checkout / "executed"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param([COMMAND, "workflows"], id="workflows"),
        pytest.param([COMMAND, "doctor"], id="doctor"),
        pytest.param([*RUNNER_COMMAND, "--help"], id="the runner of the screens"),
    ],
)
def test_commands_execute_nothing_in_the_current_directory(
    command: list[str], checkout: pathlib.Path, home: pathlib.Path
) -> None:
    answer = run_command(command, {"P3_ADVISOR_HOME": str(home)}, checkout)
    assert executed(checkout) == []
    assert answer.returncode in {0, 3}, answer.stderr


@pytest.mark.slow
def test_detection_and_reading_pip_execute_nothing_in_the_current_directory(
    checkout: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    uv_runner.read_pip_settings(os.environ)
    monkeypatch.setenv("PYTHONPATH", "/nowhere:")
    detection.detect_interpreter(sys.executable, ["torch"])
    assert executed(checkout) == []


#: A workflow whose stack starts Python processes in the two usual ways.
STARTS_PYTHON = """
import subprocess, sys
def versions():
    for arguments in (["-m", "json.tool", "--help"], ["-c", "import json, numpy"]):
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return {}
def settings(request):
    return {}
def open_subject(request):
    raise RuntimeError("far enough")
"""


# Python 3.10 ignores PYTHONSAFEPATH, so there the Python processes that a stack starts may import
# from the current directory. docs/security.md says so.
@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs PYTHONSAFEPATH of Python 3.11")
@pytest.mark.slow
@pytest.mark.parametrize("python_path", [None, "/nowhere:"])
def test_processes_of_a_stack_import_nothing_from_the_current_directory(
    python_path: str | None,
    checkout: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workflow = tmp_path / "starts_python.py"
    workflow.write_text(STARTS_PYTHON)
    monkeypatch.chdir(checkout)
    inherited = {**os.environ, **({"PYTHONPATH": python_path} if python_path else {})}
    result = workers.run_worker(
        workers.make_request(workflow, tmp_path),
        tmp_path / "control",
        Build(),
        environment=worker_environment(inherited, question(), 1, tmp_path / "scratch"),
        probes=catalogue_files.probes_directory(),
    )
    assert executed(checkout) == []
    assert "far enough" in json.dumps(result.failure)
