"""Commands on stored runs, and reports of a run in which `quick` is four times as fast."""

from __future__ import annotations

import datetime as dt
import functools
import json
import os
import pathlib
import pty
import shutil
import subprocess
import sys
from typing import Any

import builders
import jsonschema
import pytest
import recorded_runs
from forks import RunCli, RunProgram, assert_error
from generate import schema_file

from advisor.cli.reports import UNDECIDED_CODE
from advisor.domain.errors import CommandLineError, RunFileError
from advisor.domain.run_events import ArmsPlanned, Finished
from advisor.store.runs import ENTRY, Run
from advisor.store.store import Store


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
    assert shown["foreign"]
    evidence = {
        each["evidence"] for scored in shown["scores"] for each in scored["ratings"].values()
    }
    assert evidence == {"imported", "declared"}
    original = json.loads(run_cli("show", recorded.name, "--json").stdout)
    assert shown["recommendation"]["arm"] == original["recommendation"]["arm"]
    for command in ("verify", "resume"):
        refused = run_cli(command, recorded.name, home=tmp_path / "home")
        assert (refused.returncode, "was imported or" in refused.stderr) == (2, True)
    recipe = run_cli("recipe", recorded.name, "pytorch-eager", home=tmp_path / "home")
    assert "read the code before you run it" in recipe.stderr
    again = run_cli("import-run", exported.stdout.strip(), home=tmp_path / "home")
    own = run_cli("import-run", exported.stdout.strip())
    assert (again.returncode, own.returncode, "already" in own.stderr) == (0, 2, True)


def test_a_recipe_that_a_confined_model_may_have_written_is_marked(
    run_here: RunCli, stored: Run
) -> None:
    file = stored.directory / "run.json"
    header = json.loads(file.read_text())
    for sandboxed in (False, True):
        header["question"]["sandbox"] = sandboxed
        file.write_text(json.dumps(header))
        recipe = run_here("recipe", "latest", "pytorch-eager")
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
    assert run_here("delete", "--yes", name).stdout == f"{name}\n"
    assert not stored.directory.exists()
    assert run_here("delete", "--yes", str(recorded)).returncode == 2
    assert recorded.exists()


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("", 2)])
def test_delete_asks(
    typed: str, code: int, is_terminal: bool, made_run: Run, run_program: RunProgram
) -> None:
    program, terminal = pty.openpty()
    os.write(program, typed.encode() or b"\x04")
    (piped := made_run.directory.parents[1] / "piped").write_text(typed)
    stdin = os.ttyname(terminal) if is_terminal else str(piped)
    answer = run_program("delete", made_run.directory.name, stdin=stdin)
    os.close(program)
    os.close(terminal)
    assert answer.returncode == code, answer.stderr
    assert made_run.directory.name in answer.stderr
    assert ("next: confirm with --yes" in answer.stderr) == (code == 2)
    assert made_run.directory.exists() == bool(code)


def test_a_newer_run_without_a_measurement_is_marked_and_not_shown(
    run_here: RunCli, stored: Run
) -> None:
    failed = "20991231-235959-0000"
    recorded_runs.make_planned_run(stored.directory.parents[1], failed)
    newest, useful = run_here("history").stdout.splitlines()[1:]
    assert failed in newest
    assert "stopped, no measurement" in newest
    assert "no measurement" not in useful
    for command in ("show", "explain", "recipe"):
        shown = run_here(command)
        assert f"this is run {stored.directory.name} of demo" in shown.stderr
        assert (shown.returncode, f"p3-advisor resume {failed} goes" in shown.stderr) == (0, True)


def test_the_history_has_the_answer_of_each_finished_run(run_here: RunCli, stored: Run) -> None:
    name, stopped, failed = stored.directory.name, "20991231-000000-0000", "20991231-000000-0001"
    for run_id, ends in ((stopped, ()), (failed, (Finished(),))):
        events = builders.events(ArmsPlanned(plan=builders.plan()), *ends)
        recorded_runs.make_planned_run(stored.directory.parents[1], run_id, *events)
    advice = json.loads(run_here("show", name, "--json").stdout)["recommendation"]
    word = advice["decision"]["word"]
    listed = {row["run_id"]: row for row in json.loads(run_here("history", "--json").stdout)}
    answer = listed[name]["answer"]
    assert (answer["arm"], answer["decision_word"]) == (advice["arm"], word)
    assert listed[stopped]["answer"] is None
    assert listed[failed]["answer"]["arm"] is None
    assert listed[failed]["answer"]["problem"]["what"]
    shown = run_here("show", failed)
    assert (shown.returncode, shown.stderr) == (0, ""), "it is shown, and the reason stands in it"
    assert listed[failed]["answer"]["problem"]["what"] in " ".join(shown.stdout.split())
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
    shutil.rmtree(stored.directory)
    assert "No runs yet" not in run_here("history").stdout
    resumed = run_here("resume", "latest")
    assert (resumed.returncode, "Traceback" in resumed.stderr) == (RunFileError.exit_code, False)


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
        shown = run_here("show").stdout
        assert "still being measured" in shown
        assert "resume" not in shown
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    with stored.writer():
        assert json.loads(run_here("show", "--json").stdout)["problem"]["name"] == "run-is-active"


def test_a_run_document_needs_no_import(run_cli: RunCli, recorded: pathlib.Path) -> None:
    document = recorded.parent.parent / "answer.json"
    document.write_text(run_cli("show", recorded.name, "--json").stdout)
    refused = run_cli("import-run", str(document))
    assert refused.returncode == 2
    assert "p3-advisor show" in refused.stderr


@pytest.mark.usefixtures("made_run")
@pytest.mark.parametrize(("no_color", "is_marked"), [("", True), ("1", False)])
def test_an_answer_is_marked_on_a_terminal_only(
    no_color: str, is_marked: bool, run_program: RunProgram
) -> None:
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


def test_a_report_is_written_in_each_format(
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    answer = run_cli("report", recorded.name, "--format", "html,md,csv,json", "-o", "reports")
    assert answer.returncode == 0, answer.stderr
    files = [tmp_path / line for line in answer.stdout.splitlines()]
    assert [file.suffix for file in files] == [".html", ".md", ".csv", ".json"]
    assert "quick" in files[0].read_text()
    assert files[3].read_text() == run_cli("show", recorded.name, "--json").stdout
    assert run_cli("report", recorded.name, "-f", "md", "-o", "-").stdout == files[1].read_text()
    assert run_cli("report", recorded.name, "--format", "pdf").returncode == 2
    assert "cannot be written" in run_cli("report", recorded.name, "-o", str(files[0])).stderr
    exported = run_cli("report", recorded.name, "--to", "parquet")
    assert exported.stdout == f"{recorded.name}.parquet\n", exported.stderr
    assert (tmp_path / f"{recorded.name}.parquet").stat().st_size


@pytest.mark.stack
def test_a_recipe_runs_and_is_verified(
    run_cli: RunCli, recorded: pathlib.Path, fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    written = run_cli("recipe", recorded.name, "quick", "-o", "lines.py")
    assert written.returncode == 0, written.stderr
    subprocess.run([sys.executable, "lines.py"], check=True, cwd=tmp_path)
    limits = ("--seconds", "0.1", "--tolerance", "99%")
    verified = run_cli("verify", recorded.name, "quick", *limits, "--json", probes=fake_probes)
    found = json.loads(verified.stdout)
    undecided = found["result"] == "undecided"
    assert verified.returncode == undecided * UNDECIDED_CODE, verified.stderr
    jsonschema.validate(found, json.loads(schema_file("verification").read_text()))
    assert (found["arm"], found["baseline"]) == ("quick", "pytorch-eager")
    assert found["shape"]["batch_size"] in {1, 2}, "at which it is faster depends on the machine"
    assert found["compared"]
    assert_error(run_cli("verify", recorded.name, "pytorch-eager", probes=fake_probes), 3)


def test_a_recipe_that_cannot_be_written_is_refused(
    run_cli: RunCli, recorded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert run_cli("recipe", recorded.name, "absent").returncode == 2
    assert run_cli("recipe", recorded.name, "--style", "check").returncode == 2
    shadowing = run_cli("recipe", recorded.name, "pytorch-eager", "-o", "json.py")
    assert (shadowing.returncode, (tmp_path / "json.py").exists()) == (2, False), shadowing.stderr
    (tmp_path / "net.py").write_text("mine")
    assert_error(run_cli("recipe", recorded.name, "pytorch-eager", "-o", "net.py"), 2)
    assert (tmp_path / "net.py").read_text() == "mine"


def test_a_run_compared_with_itself_shows_no_change_in_either_spelling_of_json(
    run_cli: RunCli, recorded: pathlib.Path
) -> None:
    asked = ("compare", recorded.name, recorded.name)
    answer = run_cli(*asked, "--fail-on-regression", "90%", "--format", "json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert (found["conclusion"], found["differences"], found["changes"]) == ("same-run", [], [])
    assert run_cli(*asked, "--fail-on-undecided").returncode == UNDECIDED_CODE == 4
    assert "Nothing differs." not in run_cli(*asked).stdout
    assert run_cli(*asked, "--fail-on-regression", "much").returncode == 2
    by_format = run_cli(*asked, "--format", "json").stdout
    assert run_cli(*asked, "--json").stdout == by_format
    assert run_cli("--json", *asked, "--format", "json").stdout == by_format
    refused = run_cli(*asked, "--json", "--format", "md")
    assert refused.returncode == 2, refused.stderr
    assert "--format md" in json.loads(refused.stdout)["problem"]["what"]
    assert run_cli(*asked, "--format", "yaml").returncode == 2


@pytest.fixture
def devices(tmp_path: pathlib.Path) -> tuple[pathlib.Path, list[str]]:
    """A home with runs on a CPU and on a GPU, and the ids of the runs."""
    store = Store(tmp_path / "home")
    runs = [
        recorded_runs.make_run(store, finished=True),
        recorded_runs.make_gpu_run(store, batch_sizes=(1,)),
    ]
    return tmp_path / "home", [run.directory.name for run in runs]


def test_a_report_of_several_devices_has_their_portability(
    run_cli: RunCli, devices: tuple[pathlib.Path, list[str]], tmp_path: pathlib.Path
) -> None:
    home, (here, there) = devices
    answer = run_cli("report", here, there, "--format", "html,csv,json", home=home)
    assert answer.returncode == 0, answer.stderr
    file = answer.stdout.splitlines()[-1]
    assert run_cli("report", file, file, home=home).returncode == CommandLineError.exit_code
    page, table, text = (
        pathlib.Path(tmp_path, line).read_text() for line in answer.stdout.splitlines()
    )
    portability = json.loads(text)["results"]["portability"]
    found = {entry["application"]: entry for entry in portability["applications"]}
    speeds = [39 / 41, 39 / 78]
    assert list(found["compiled"]["efficiencies"].values()) == pytest.approx(speeds, rel=0.01)
    assert found["compiled"]["performance_portability"] == pytest.approx(
        2 / sum(1 / speed for speed in speeds), rel=0.01
    )
    assert 'id="platforms"' in page
    assert f"{found['compiled']['performance_portability']:.2f}" in page
    assert {line.partition(",")[0] for line in table.splitlines()[1:]} == {here, there}
    alone = run_cli("report", here, home=home).stdout.strip()
    assert 'id="platforms"' not in pathlib.Path(tmp_path, alone).read_text()


def test_the_conclusion_sets_the_exit_code(run_cli: RunCli, home: pathlib.Path) -> None:
    slow = {**recorded_runs.SECONDS, "compiled": 2 * recorded_runs.SECONDS["compiled"]}
    half = builders.question(dtype="float16")
    changes: tuple[dict[str, Any], ...] = ({}, {"seconds_of": slow}, {"question": half})
    before, slower, other = (
        recorded_runs.make_run(Store(home), finished=True, run_id=run_id, **each).directory.name
        for run_id, each in zip(recorded_runs.IDS, changes, strict=True)
    )
    for runs, code in (((before, slower), 1), ((slower, before), 0)):
        answer = run_cli("compare", *runs, "--fail-on-regression", "1%", home=home)
        assert answer.returncode == code, answer.stderr
        document = json.loads(run_cli("compare", *runs, "-f", "json", home=home).stdout)
        assert (document["conclusion"] == "regression") == (code == 1)
    for asked in ((), ("--fail-on-regression", "1%")):
        refused = run_cli("compare", before, other, *asked, "--json", home=home)
        assert refused.returncode == 2
        assert json.loads(refused.stdout)["conclusion"] == "not-comparable", "the one document"
        assert refused.stderr.startswith("p3-advisor: not-comparable: ")
        assert "precision" in refused.stderr


def test_every_json_output_is_valid_against_its_schema(
    run_cli: RunCli, recorded: pathlib.Path
) -> None:
    outputs = {
        "run": ("show", recorded.name, "--json", "--times"),
        "comparison": ("compare", recorded.name, recorded.name, "--format", "json"),
        "history": ("history", "--json"),
    }
    for name, arguments in outputs.items():
        schema = json.loads(schema_file(name).read_bytes())
        assert schema["$id"] == f"urn:p3-advisor:schema:{name}"
        printed = json.loads(run_cli(*arguments).stdout)
        jsonschema.Draft202012Validator(schema).validate(printed)


def test_a_run_has_percentiles_and_on_request_all_times(
    run_cli: RunCli, recorded: pathlib.Path
) -> None:
    plain = json.loads(run_cli("show", recorded.name, "--json").stdout)
    full = json.loads(run_cli("show", recorded.name, "--json", "--times").stdout)
    refused = run_cli("show", recorded.name, "--times")
    assert (refused.returncode, "add --json" in refused.stderr) == (2, True)
    plain_cells, cells = (
        [cell for each in shown["results"]["measurements"] for cell in each["cells"]]
        for shown in (plain, full)
    )
    assert cells
    for cell in cells:
        seconds = sorted(each for visit in cell["times"] for each in visit["seconds"])
        assert len(seconds) == cell["seconds"]["samples"]
        percentiles = [cell["percentiles"][name] for name in ("p50", "p90", "p95", "p99")]
        assert percentiles == sorted(percentiles)
        assert set(percentiles) <= set(seconds)
        assert percentiles[0] == seconds[(len(seconds) - 1) // 2]
    assert all(cell["times"] is None for cell in plain_cells)


def test_json_lines_begin_with_the_run_and_its_plan(
    run_cli: RunCli, recorded: pathlib.Path
) -> None:
    answer = run_cli("resume", recorded.name, "--jsonl")
    first, planned, *_, last = map(json.loads, answer.stdout.splitlines())
    assert first["run_id"] == recorded.name
    assert first["question"]["batch_sizes"] == [1, 2]
    assert (planned["seq"], planned["run_event"]["event"]) == (1, "arms_planned")
    assert last["document"]["run_id"] == recorded.name
    answer_lines = [f"p3-advisor: {line['text']}" for line in last["document"]["headline"]]
    told = answer.stderr.splitlines()
    start = told.index(answer_lines[0])
    assert told[start : start + len(answer_lines)] == answer_lines
