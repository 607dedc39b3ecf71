"""Commands on stored runs."""

from __future__ import annotations

import datetime as dt
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
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    run = shutil.copytree(recorded, tmp_path / "home" / "runs" / recorded.name)
    header = json.loads((run / "run.json").read_text())
    for sandboxed in (False, True):
        header["question"]["sandbox"] = sandboxed
        (run / "run.json").write_text(json.dumps(header))
        recipe = run_cli("recipe", "--workflow", "pytorch-eager", home=tmp_path / "home")
        assert (recipe.returncode, "sandbox" in recipe.stderr) == (0, sandboxed)


def test_an_export_to_standard_output_is_unchanged(
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home = tmp_path / "home"
    directory = shutil.copytree(recorded, home / "runs" / recorded.name)
    header = json.loads((directory / "run.json").read_text())
    header["machine"]["cpu"]["model"] = "hidden\u202e characters"
    (directory / "run.json").write_text(json.dumps(header, ensure_ascii=False))
    (tmp_path / "piped.p3run").write_text(
        run_cli("export-run", recorded.name, "-o", "-", home=home).stdout
    )
    imported = run_cli("import-run", "piped.p3run", home=tmp_path / "other")
    assert imported.returncode == 0, imported.stderr


def test_a_run_can_be_annotated_and_deleted(
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home = tmp_path / "home"
    name = recorded.name
    directory = shutil.copytree(recorded, home / "runs" / name)
    assert run_cli("note", name, "before the\nupgrade", home=home).returncode == 0
    assert "before the upgrade" in run_cli("history", home=home).stdout
    assert run_cli("delete", name, home=home).stdout == f"{name}\n"
    assert not directory.exists()
    assert run_cli("delete", str(recorded), home=home).returncode == 2
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
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home, failed = tmp_path / "home", "20991231-235959-0000"
    shutil.copytree(recorded, home / "runs" / recorded.name)
    with Store(home).create(builders.header(run_id=failed)).writer() as writer:
        writer.append(builders.events(Planned(plan=builders.plan()))[0])
    newest, useful = run_cli("history", home=home).stdout.splitlines()[1:]
    assert failed in newest
    assert "stopped, no measurement" in newest
    assert "no measurement" not in useful
    assert json.loads(run_cli("show", "--json", home=home).stdout)["run_id"] == recorded.name
    recipe = run_cli("recipe", "--workflow", "pytorch-eager", home=home)
    assert recipe.returncode == 0, recipe.stderr


def test_the_history_has_the_answer_of_each_finished_run(
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home, stopped, failed = tmp_path / "home", "20991231-000000-0000", "20991231-000000-0001"
    run = shutil.copytree(recorded, home / "runs" / recorded.name)
    for run_id, ends in ((stopped, ()), (failed, (Finished(),))):
        with Store(home).create(builders.header(run_id=run_id)).writer() as writer:
            for event in builders.events(Planned(plan=builders.plan()), *ends):
                writer.append(event)
    advice = json.loads(run_cli("show", recorded.name, "--json").stdout)["recommendation"]
    word = advice["decision"]["word"]
    listed = {row["run_id"]: row for row in json.loads(history(run_cli, home, "--json"))}
    answer = listed[recorded.name]["answer"]
    assert (answer["arm"], answer["decision_word"]) == (advice["arm"], word)
    assert listed[stopped]["answer"] is None
    assert listed[failed]["answer"]["arm"] is None
    assert listed[failed]["answer"]["headline"]
    failed_line, stopped_line, line = history(run_cli, home).splitlines()[1:]
    assert f" {advice['arm']} " in line
    created = dt.datetime.fromisoformat(listed[recorded.name]["created"]).astimezone()
    assert f"  {created:%Y-%m-%d %H:%M}  " in line
    assert line.endswith(f" {word}")
    assert "no answer" in failed_line
    assert "no answer" not in stopped_line
    other = run_cli("decide", run.name, "--require", "speedup>=1000", home=home)
    assert other.returncode != 0, "other constraints have another answer"
    assert history(run_cli, home).splitlines()[3] == line


def test_the_history_names_the_runs_that_cannot_be_read(
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home, damaged = tmp_path / "home", "20991231-000000-0000"
    shutil.copytree(recorded, home / "runs" / recorded.name)
    assert run_cli("history", home=home).stderr == ""
    shutil.copytree(recorded, home / "runs" / damaged)
    (home / "runs" / damaged / "run.json").write_text("{")
    listed = run_cli("history", "--json", home=home)
    assert [row["run_id"] for row in json.loads(listed.stdout)] == [recorded.name]
    assert (listed.returncode, damaged in listed.stderr) == (0, True)


def test_the_history_decides_on_a_run_only_once(
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home = tmp_path / "home"
    run = shutil.copytree(recorded, home / "runs" / recorded.name)
    (answer,) = [row["answer"] for row in json.loads(history(run_cli, home, "--json"))]
    kept = run / ENTRY
    kept.write_text(kept.read_text().replace(answer["arm"], "kept-arm"))
    assert "kept-arm" in history(run_cli, home)


def history(run_cli: RunCli, home: pathlib.Path, *flags: str) -> str:
    return run_cli("history", *flags, home=home).stdout


def test_the_history_distinguishes_runs_that_are_being_measured(
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home = tmp_path / "home"
    run = Run(shutil.copytree(recorded, home / "runs" / recorded.name))
    with run.writer():
        assert "running" in run_cli("history", home=home).stdout
        run.control.set_paused(paused=True)
        assert "paused" in run_cli("history", home=home).stdout
        run.control.set_paused(paused=False)
    listed = run_cli("history", home=home).stdout
    assert "finished" in listed
    assert "running" not in listed


def test_a_document_states_that_its_run_is_in_progress(
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home = tmp_path / "home"
    run = Run(shutil.copytree(recorded, home / "runs" / recorded.name))

    def states() -> tuple[bool, bool]:
        shown = json.loads(run_cli("show", "--json", home=home).stdout)
        return shown["finished"], shown["in_progress"]

    with run.writer():
        assert states() == (True, False), "nothing is left to measure"
    events = (run.directory / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run.directory / "events.jsonl").write_bytes(b"".join(events[:-1]))
    assert states() == (False, False)
    with run.writer():
        assert states() == (False, True)
        assert "in progress" in run_cli("show", home=home).stderr


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
