"""Runs in one file, and the history of stored runs."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
from typing import Any

import builders
import msgspec
import pytest
from recorded_runs import HISTORY, IDS, make_planned_run

from advisor.context import Context
from advisor.decide import decision as deciding
from advisor.decide.decision import evaluate_imported
from advisor.domain.answer import AnswerSummary
from advisor.domain.machine import CreatedEnvironment
from advisor.domain.measurement import Interval
from advisor.domain.run_events import (
    Finished,
    LoggedEvent,
    Planned,
    Resumed,
    WorkerReported,
    WorkerSpawned,
)
from advisor.domain.run_state import Header
from advisor.errors import (
    ExportFileError,
    NewerVersionError,
    RunIsImportedError,
    RunNotControllableError,
)
from advisor.execute.execution import execute
from advisor.store import export_file, runs
from advisor.store.control import RunControl
from advisor.store.runs import ENTRY, HistoryEntry, Run, load_entry, size_of_events
from advisor.store.store import Store
from probes.wire.events import Imported
from probes.wire.facts import InterpreterFacts

IMPORTED = Imported(
    versions={"torch": "2.13.0"},
    settings={},
    environment=InterpreterFacts(
        python="3.11",
        interpreter="/home/somebody/own/bin/python3",
        distributions={"torch": "2.13.0"},
        providers={"torch": ("torch",)},
    ),
)
PLAN = builders.plan("compiled")
EVENTS = builders.events(
    Planned(
        plan=msgspec.structs.replace(
            PLAN, arms=(*PLAN.arms, builders.arm("own", python="/home/somebody/own/bin/python3"))
        )
    ),
    WorkerSpawned(arm="compiled", process=0),
    WorkerReported(arm="compiled", process=0, worker_event=IMPORTED),
    WorkerReported(arm="compiled", process=0, worker_event=IMPORTED),
)


@pytest.fixture
def run(home: pathlib.Path) -> Run:
    """A stored run with identifiable paths."""
    interpreter = "/home/somebody/venv/bin/python3"
    machine = builders.machine(
        software=builders.interpreter(executable=interpreter),
        environments={"own": CreatedEnvironment(name="own", python=interpreter, digest="0")},
    )
    made = Store(home).create(
        builders.header(question=builders.question(python=interpreter), machine=machine)
    )
    with made.writer() as writer:
        for event in EVENTS:
            writer.append(event)
    return made


@pytest.fixture
def other_store(tmp_path: pathlib.Path) -> Store:
    """The store of another machine."""
    return Store(tmp_path / "other_store")


def write_export(tmp_path: pathlib.Path, content: bytes) -> pathlib.Path:
    file = tmp_path / "a.p3run"
    file.write_bytes(content)
    return file


def export_content(
    header: Header | bytes, events: list[LoggedEvent] | list[bytes], **changes: Any
) -> bytes:
    """Return the content of a file with a correct checksum."""
    lines = [
        line if isinstance(line, bytes) else msgspec.json.encode(line) for line in (header, *events)
    ]
    body = b"".join(line + b"\n" for line in lines)
    run_id = header.run_id if isinstance(header, Header) else builders.header().run_id
    fields = {
        "schema": export_file.SCHEMA,
        "run_id": run_id,
        "bytes": len(body),
    }
    return (
        msgspec.json.encode({**fields, "sha256": hashlib.sha256(body).hexdigest(), **changes})
        + b"\n"
        + body
    )


def test_an_imported_run_equals_the_exported_run(
    run: Run, other_store: Store, tmp_path: pathlib.Path
) -> None:
    header, events = export_file.read_export(write_export(tmp_path, export_file.encode_run(run)))
    imported = export_file.import_run(other_store, header, events)
    assert imported.header().foreign
    assert imported.header().question.batch_sizes == run.header().question.batch_sizes
    assert [event.seq for event in imported.events()] == [event.seq for event in run.events()]
    (entry,) = other_store.history()
    assert (entry.run_id, entry.imported) == (run.directory.name, True)


def test_an_export_contains_no_interpreter_paths(run: Run) -> None:
    content = export_file.encode_run(run)
    assert b"somebody" not in content
    assert b'"/' not in b"\n".join(content.splitlines()[1:3]), "a path of the header or the plan"


def test_an_imported_run_cannot_be_executed_or_resumed(
    run: Run, other_store: Store, tmp_path: pathlib.Path, context: Context
) -> None:
    imported = export_file.import_run(
        other_store, *export_file.read_export(write_export(tmp_path, export_file.encode_run(run)))
    )
    with pytest.raises(RunIsImportedError):
        list(execute(imported, context))
    assert list(other_store.resumable_runs()) == []


def test_an_import_does_not_replace_an_existing_run(
    run: Run, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ExportFileError, match="already"):
        export_file.import_run(
            Store(home),
            *export_file.read_export(write_export(tmp_path, export_file.encode_run(run))),
        )


HEADER = builders.header(
    catalogue=builders.catalogue(builders.workflow("compiled"), builders.workflow("own"))
)
DEEP = b"[" * 100_000 + b"]" * 100_000
UNKNOWN_PROCESS = WorkerReported(arm="compiled", process=7, worker_event=IMPORTED)
(VISIT,) = builders.visits([0.1])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not an exported run"),
        (b"\x00\xff\xfe", "not an exported run"),
        (DEEP, "not an exported run"),
        (b'{"schema": "p3-advisor/export/1"}\n', "not an exported run"),
        (export_content(HEADER, EVENTS)[:-20], "truncated"),
        (export_content(HEADER, EVENTS) + b"{}\n", "checksum"),
        (export_content(HEADER, EVENTS).replace(b'"seed":0', b'"seed":1'), "checksum"),
        (export_content(HEADER, EVENTS, bytes=-1), "checksum"),
        (export_content(b"{}", EVENTS), "does not hold a run"),
        (export_content(HEADER, [b"{}"]), "does not hold a run"),
        (export_content(HEADER, [DEEP]), "does not hold a run"),
        (
            export_content(
                HEADER, [msgspec.json.encode(EVENTS[0]).replace(b"compiled", b"compile\xff")]
            ),
            "does not hold a run",
        ),
        (
            export_content(msgspec.structs.replace(HEADER, run_id="../../evil"), EVENTS),
            "invalid id",
        ),
        (export_content(HEADER, EVENTS, run_id="20261121-120000-ffff"), "invalid id"),
        (export_content(HEADER, EVENTS[1:]), "one run"),
        (export_content(HEADER, []), "one run"),
        (export_content(HEADER, [*EVENTS, EVENTS[0]]), "one run"),
        (
            export_content(
                HEADER,
                builders.events(
                    EVENTS[0].run_event, WorkerReported(arm="nobody", process=0, worker_event=VISIT)
                ),
            ),
            "do not fit together",
        ),
        (
            export_content(
                HEADER, builders.events(EVENTS[0].run_event, EVENTS[1].run_event, UNKNOWN_PROCESS)
            ),
            "do not fit",
        ),
    ],
)
def test_a_damaged_or_edited_file_is_refused_with_the_reason(
    content: bytes, reason: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ExportFileError, match=reason):
        export_file.read_export(write_export(tmp_path, content))


@pytest.mark.parametrize(
    "content",
    [
        b'{"schema": "p3-advisor/export/2"}\n',
        export_content(b'{"schema": "p3-advisor/stored-run/5"}', [b'{"of": "a newer version"}']),
    ],
)
def test_a_file_of_a_newer_version_says_so(content: bytes, tmp_path: pathlib.Path) -> None:
    with pytest.raises(NewerVersionError, match="newer version"):
        export_file.read_export(write_export(tmp_path, content))


def test_a_file_above_the_size_limit_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_file, "MAX_BYTES", 1 << 20)
    with pytest.raises(ExportFileError, match="larger than 1 MiB"):
        export_file.read_export(write_export(tmp_path, b"x" * (1 << 21)))
    with pytest.raises(ExportFileError, match="cannot be read"):
        export_file.read_export(tmp_path / "absent")


def test_an_arm_of_an_unknown_workflow_is_refused() -> None:
    with pytest.raises(ExportFileError, match="own"):
        evaluate_imported(builders.header(), EVENTS, "a file")


def test_figures_outside_the_range_of_floats_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(*_: object) -> None:
        raise OverflowError("math range error")

    assert evaluate_imported(HEADER, EVENTS, "a file").recommendation is None
    monkeypatch.setattr(deciding, "evaluate", evaluate)
    with pytest.raises(ExportFileError, match="contradict each other"):
        evaluate_imported(HEADER, EVENTS, "a file")


def run_ids(entries: list[HistoryEntry]) -> list[str]:
    return [entry.run_id for entry in entries]


def test_the_history_is_newest_first_with_model_and_device(three_runs: Store) -> None:
    entries = three_runs.history()
    assert run_ids(entries) == HISTORY
    assert [entry.finished for entry in entries] == [True, False, True]
    assert {(entry.model, entry.device) for entry in entries} == {("synthetic/ffn@8x16", "CPU")}
    assert entries == three_runs.history()


def test_the_history_has_the_measured_gpu(home: pathlib.Path) -> None:
    two = (
        builders.gpu(uuid="GPU-a", name="NVIDIA A100"),
        builders.gpu(uuid="GPU-b", name="NVIDIA H200"),
    )
    Store(home).create(
        builders.header(
            question=builders.question(device="cuda", gpu="GPU-b"),
            machine=builders.gpu_machine(*two),
        )
    )
    assert [entry.device for entry in Store(home).history()] == ["NVIDIA H200"]


def test_the_history_updates_a_run_that_has_finished_and_one_that_goes_on(
    home: pathlib.Path,
) -> None:
    made = make_planned_run(home)
    assert [entry.finished for entry in Store(home).history()] == [False]
    for event, is_finished in ((Finished(), True), (Resumed(), False), (Finished(), True)):
        with made.writer() as writer:
            writer.append(builders.events(event)[0])
        assert [entry.finished for entry in Store(home).history()] == [is_finished]


def test_the_history_drops_removed_runs(three_runs: Store, home: pathlib.Path) -> None:
    three_runs.history()
    (home / "runs" / IDS[2] / "run.json").unlink()
    assert run_ids(three_runs.history()) == HISTORY[1:]


def test_the_history_omits_a_damaged_run(three_runs: Store, home: pathlib.Path) -> None:
    (home / "runs" / IDS[1] / "run.json").write_bytes(b"rubbish")
    assert run_ids(three_runs.history()) == [IDS[2], IDS[0]]


SUMMARY = AnswerSummary(
    arm="compiled",
    decision_word="OPEN",
    trust="C",
    speedup=Interval(value=2.0, low=1.9, high=None),
    headline="Use",
)


def cached_answer(store: Store) -> AnswerSummary | None:
    (entry,) = store.history()
    return entry.answer


def test_an_entry_and_its_answer_hold_for_their_version_and_events(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, store = make_planned_run(home), Store(home)
    (entry,) = store.history()
    assert load_entry(str(run.directory), size_of_events(str(run.directory))) == entry
    assert load_entry(str(run.directory), size_of_events(str(run.directory)) - 1) is None
    store.save_answer(entry, SUMMARY, size_of_events(str(run.directory)) - 1)
    assert cached_answer(store) is None
    store.save_answer(entry, SUMMARY, size_of_events(str(run.directory)))
    assert cached_answer(store) == SUMMARY
    monkeypatch.setattr(runs, "__version__", "0.0.0")
    assert cached_answer(store) is None


def test_an_entry_of_another_run_is_not_used(three_runs: Store, home: pathlib.Path) -> None:
    before = three_runs.history()
    first, second = (home / "runs" / run_id / ENTRY for run_id in HISTORY[:2])
    first.write_bytes(second.read_bytes())
    assert three_runs.history() == before


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b'{"entry": 1}', b"[" * 100_000])
def test_a_damaged_entry_is_made_again(
    content: bytes, three_runs: Store, home: pathlib.Path
) -> None:
    before = three_runs.history()
    file = home / "runs" / HISTORY[0] / ENTRY
    file.write_bytes(content)
    assert three_runs.history() == before
    assert file.read_bytes() != content


def test_the_history_works_where_an_entry_cannot_be_written(
    three_runs: Store, home: pathlib.Path
) -> None:
    (home / "runs" / HISTORY[0] / ENTRY).mkdir()
    assert [entry.run_id for entry in three_runs.history()] == HISTORY


#: The first reads of a new process, in eight threads at once. Threads take turns as often as they
#: can, so that they meet inside msgspec.
FIRST_READS = """
import pathlib, sys, threading
from advisor.store.runs import Run

sys.setswitchinterval(1e-6)
run, begin = Run(pathlib.Path(sys.argv[1])), threading.Barrier(8)

def read():
    begin.wait()
    assert len(run.events()) == 3
    assert run.header().run_id

threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_read_a_run_for_the_first_time_do_not_crash(home: pathlib.Path) -> None:
    made = make_planned_run(
        home,
        IDS[0],
        *builders.events(Planned(plan=builders.plan("compiled")), Resumed(), Finished()),
    )
    for _ in range(3):
        subprocess.run([sys.executable, "-c", FIRST_READS, str(made.directory)], check=True)


def test_commands_are_read_once_and_only_when_they_are_complete(tmp_path: pathlib.Path) -> None:
    control = RunControl(tmp_path)
    assert control.read_commands(0) == ([], 0)
    control.send("pause")
    control.send("skip a/b")
    commands, offset = control.read_commands(0)
    assert commands == ["pause", "skip a/b"]
    assert offset == (tmp_path / "control").stat().st_size
    with (tmp_path / "control").open("a") as file:
        file.write("canc")
    assert control.read_commands(offset) == ([], offset)
    assert oct((tmp_path / "control").stat().st_mode & 0o777) == "0o600"


def test_the_state_is_stored_and_cleared(tmp_path: pathlib.Path) -> None:
    control = RunControl(tmp_path)
    assert not control.is_paused()
    control.set_paused(paused=True)
    assert control.is_paused()
    control.set_paused(paused=False)
    assert not control.is_paused()
    control.set_paused(paused=True)
    control.send("pause")
    control.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_link_or_a_directory_of_another_user_controls_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("cancel\n")
    (tmp_path / "run").mkdir()
    control = RunControl(tmp_path / "run")
    (tmp_path / "run" / "control").symlink_to(elsewhere)
    assert control.read_commands(0) == ([], 0)
    with pytest.raises(RunNotControllableError):
        control.send("pause")
    (tmp_path / "run" / "control").unlink()
    control.send("pause")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert control.read_commands(0) == ([], 0)
    with pytest.raises(RunNotControllableError):
        control.send("pause")
