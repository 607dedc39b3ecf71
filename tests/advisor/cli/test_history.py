"""Commands on stored runs."""

from __future__ import annotations

import datetime as dt
import functools
import json
import os
import pathlib
import pty
import shutil
import subprocess
from collections.abc import Callable

import builders
import pytest
import recorded_runs
from forks import RunProgram

from advisor.domain.run_events import Finished, Planned
from advisor.store.runs import ENTRY, Run
from advisor.store.store import Store

RunCli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def stored(recorded: pathlib.Path, tmp_path: pathlib.Path) -> Run:
    """A copy of the recorded run in a home of the test's own."""
    return Run(shutil.copytree(recorded, tmp_path / "home" / "runs" / recorded.name))


@pytest.fixture
def run_here(run_cli: RunCli, stored: Run) -> RunCli:
    """Run commands with the home of `stored`."""
    return functools.partial(run_cli, home=stored.directory.parents[1])


def test_an_exported_run_is_imported_as_evidence(
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    exported = run_cli("export-run", recorded.name)
    assert exported.stdout == f"{recorded.name}.p3run\n", exported.stderr
    assert run_cli("import-run", exported.stdout.strip(), home=tmp_path / "home").returncode == 0
    shown = json.loads(run_cli("show", recorded.name, "--json", home=tmp_path / "home").stdout)
    assert shown["imported"]
    evidence = {each["evidence"] for arm in shown["scores"] for each in arm["ratings"].values()}
    assert evidence == {"imported", "declared"}
    assert (
        shown["recommendation"]["arm"]
        == json.loads(run_cli("show", recorded.name, "--json").stdout)["recommendation"]["arm"]
    )
    for command in (("verify", recorded.name), ("resume", recorded.name)):
        assert run_cli(*command, home=tmp_path / "home").returncode == 2
    recipe = run_cli("recipe", recorded.name, "--workflow", "pytorch-eager", home=tmp_path / "home")
    assert "read the code before you run it" in recipe.stderr
    again = run_cli("import-run", exported.stdout.strip(), home=tmp_path / "home")
    assert again.returncode == 2
    assert "already" in again.stderr


def test_a_recipe_that_a_confined_model_may_have_written_is_marked(
    run_here: RunCli, stored: Run
) -> None:
    file = stored.directory / "run.json"
    header = json.loads(file.read_text())
    for sandboxed in (False, True):
        header["question"]["sandbox"] = sandboxed
        file.write_text(json.dumps(header))
        recipe = run_here("recipe", "--workflow", "pytorch-eager")
        assert (recipe.returncode, "sandbox" in recipe.stderr) == (0, sandboxed)


def test_an_export_to_standard_output_is_unchanged(
    run_here: RunCli, stored: Run, tmp_path: pathlib.Path
) -> None:
    file = stored.directory / "run.json"
    header = json.loads(file.read_text())
    header["machine"]["cpu"]["model"] = "hidden\u202e characters"
    file.write_text(json.dumps(header, ensure_ascii=False))
    (tmp_path / "piped.p3run").write_text(run_here("export-run", "-o", "-").stdout)
    imported = run_here("import-run", "piped.p3run", home=tmp_path / "other")
    assert imported.returncode == 0, imported.stderr


def test_a_run_can_be_annotated_and_deleted(
    run_here: RunCli, stored: Run, recorded: pathlib.Path
) -> None:
    name = recorded.name
    assert run_here("note", name, "before the\nupgrade").returncode == 0
    assert "before the upgrade" in run_here("history").stdout
    assert run_here("delete", name).stdout == f"{name}\n"
    assert not stored.directory.exists()
    assert run_here("delete", str(recorded)).returncode == 2
    assert recorded.exists()


@pytest.mark.parametrize(("typed", "is_gone"), [("y\n", True), ("n\n", False), ("", False)])
def test_delete_asks_on_a_terminal(
    typed: str, is_gone: bool, home: pathlib.Path, run_program: RunProgram
) -> None:
    run = recorded_runs.make_run(Store(home), finished=True)
    program, terminal = pty.openpty()
    os.write(program, typed.encode() or b"\x04")
    answer = run_program("delete", run.directory.name, stdin=os.ttyname(terminal))
    os.close(program)
    os.close(terminal)
    assert answer.returncode == (0 if is_gone else 1), answer.stderr
    assert run.directory.name in answer.stderr
    assert run.directory.exists() is not is_gone


def test_a_newer_run_without_a_measurement_is_marked_and_not_shown(
    run_here: RunCli, stored: Run
) -> None:
    store, failed = Store(stored.directory.parents[1]), "20991231-235959-0000"
    with store.create(builders.header(run_id=failed)).writer() as writer:
        writer.append(builders.events(Planned(plan=builders.plan()))[0])
    newest, useful = run_here("history").stdout.splitlines()[1:]
    assert failed in newest
    assert "stopped, no measurement" in newest
    assert "no measurement" not in useful
    assert json.loads(run_here("show", "--json").stdout)["run_id"] == stored.directory.name
    recipe = run_here("recipe", "--workflow", "pytorch-eager")
    assert recipe.returncode == 0, recipe.stderr


def test_the_history_has_the_answer_of_each_finished_run(run_here: RunCli, stored: Run) -> None:
    name, stopped, failed = stored.directory.name, "20991231-000000-0000", "20991231-000000-0001"
    store = Store(stored.directory.parents[1])
    for run_id, ends in ((stopped, ()), (failed, (Finished(),))):
        with store.create(builders.header(run_id=run_id)).writer() as writer:
            for event in builders.events(Planned(plan=builders.plan()), *ends):
                writer.append(event)
    advice = json.loads(run_here("show", name, "--json").stdout)["recommendation"]
    word = advice["decision"]["word"]
    listed = {row["run_id"]: row for row in json.loads(run_here("history", "--json").stdout)}
    answer = listed[name]["answer"]
    assert (answer["arm"], answer["decision_word"]) == (advice["arm"], word)
    assert listed[stopped]["answer"] is None
    assert listed[failed]["answer"]["arm"] is None
    assert listed[failed]["answer"]["headline"]
    failed_line, stopped_line, line = run_here("history").stdout.splitlines()[1:]
    assert f" {advice['arm']} " in line
    created = dt.datetime.fromisoformat(listed[name]["created"]).astimezone()
    assert f"  {created:%Y-%m-%d %H:%M}  " in line
    assert line.endswith(f" {word}")
    assert "no answer" in failed_line
    assert "no answer" not in stopped_line
    other = run_here("decide", name, "--require", "speedup>=1000")
    assert other.returncode != 0, "other constraints have another answer"
    assert run_here("history").stdout.splitlines()[3] == line


def test_the_history_names_the_runs_that_cannot_be_read(run_here: RunCli, stored: Run) -> None:
    assert run_here("history").stderr == ""
    damaged = stored.directory.with_name("20991231-000000-0000")
    shutil.copytree(stored.directory, damaged)
    (damaged / "run.json").write_text("{")
    listed = run_here("history", "--json")
    assert [row["run_id"] for row in json.loads(listed.stdout)] == [stored.directory.name]
    assert (listed.returncode, damaged.name in listed.stderr) == (0, True)


def test_the_history_decides_on_a_run_only_once(run_here: RunCli, stored: Run) -> None:
    (answer,) = [row["answer"] for row in json.loads(run_here("history", "--json").stdout)]
    kept = stored.directory / ENTRY
    kept.write_text(kept.read_text().replace(answer["arm"], "kept-arm"))
    assert "kept-arm" in run_here("history").stdout


def test_the_history_distinguishes_runs_that_are_being_measured(
    run_here: RunCli, stored: Run
) -> None:
    with stored.writer():
        assert "running" in run_here("history").stdout
        stored.control.set_paused(paused=True)
        assert "paused" in run_here("history").stdout
        stored.control.set_paused(paused=False)
    listed = run_here("history").stdout
    assert "finished" in listed
    assert "running" not in listed


def test_a_document_states_that_its_run_is_in_progress(run_here: RunCli, stored: Run) -> None:
    def states() -> tuple[bool, bool]:
        shown = json.loads(run_here("show", "--json").stdout)
        return shown["finished"], shown["in_progress"]

    with stored.writer():
        assert states() == (True, False), "nothing is left to measure"
    file = stored.directory / "events.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert states() == (False, False)
    with stored.writer():
        assert states() == (False, True)
        assert "in progress" in run_here("show").stderr


def test_a_run_document_needs_no_import(run_cli: RunCli, recorded: pathlib.Path) -> None:
    document = recorded.parent.parent / "answer.json"
    document.write_text(run_cli("show", recorded.name, "--json").stdout)
    refused = run_cli("import-run", str(document))
    assert refused.returncode == 2
    assert "p3-advisor show" in refused.stderr


@pytest.mark.parametrize(("no_color", "is_marked"), [("", True), ("1", False)])
def test_an_answer_is_marked_on_a_terminal_only(
    no_color: str, is_marked: bool, home: pathlib.Path, run_program: RunProgram
) -> None:
    recorded_runs.make_run(Store(home), finished=True)
    environment = {"NO_COLOR": no_color, "TERM": "xterm"}
    program, terminal = pty.openpty()
    shown = run_program("show", environment=environment, stdout=os.ttyname(terminal))
    assert shown.returncode == 0, shown.stderr
    printed = os.read(program, 1 << 16)
    os.close(program)
    os.close(terminal)
    assert (b"\x1b[1m" in printed) is is_marked
    piped = run_program("show", environment=environment).stdout
    assert "\x1b" not in piped
    assert piped.splitlines()[0].encode() in printed
