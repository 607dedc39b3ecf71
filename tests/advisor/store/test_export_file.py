from __future__ import annotations

import hashlib
import os
import pathlib

import builders
import msgspec
import pytest

from advisor.decide import answers
from advisor.decide.answers import answer_from_stored
from advisor.domain.errors import ExportFileError, NewerVersionError, RunFileError
from advisor.domain.event_folding import fold
from advisor.domain.machine import CreatedEnvironment
from advisor.domain.model import FactoryModel
from advisor.domain.run_events import ArmsPlanned, LoggedEvent, WorkerReported, WorkerSpawned
from advisor.domain.run_state import Header
from advisor.store import export_file
from advisor.store.files import write_atomically
from advisor.store.runs import Run
from advisor.store.store import Store
from probes.events import Imported

IMPORTED = Imported(
    versions={"torch": "2.13.0"},
    settings={"trace": "raised in\n/home/somebody/net.py"},
    environment=builders.interpreter_facts(
        {"torch": "2.13.0"}, interpreter="/home/somebody/own/bin/python3"
    ),
)
PLAN = builders.plan("compiled")
EVENTS = builders.events(
    ArmsPlanned(
        plan=builders.replace(
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
    interpreter, asked = "/home/somebody/venv/bin/python3", {"data": "/data/of-somebody"}
    model = FactoryModel(name="/home/somebody/net.py:build")
    machine = builders.machine(
        software=builders.interpreter(executable=interpreter),
        environments={"own": CreatedEnvironment(name="own", python=interpreter, digest="0")},
    )
    made = Store(home).create(
        builders.header(
            question=builders.question(
                python=interpreter,
                model=model,
                asked=asked,
                data="/data/of-somebody/texts.jsonl",
                metric="/home/somebody/score.py:count",
            ),
            machine=machine,
        )
    )
    with made.writer() as writer:
        for event in EVENTS:
            writer.append(event)
    return made


def write_export(tmp_path: pathlib.Path, content: bytes) -> pathlib.Path:
    file = tmp_path / "a.p3run"
    file.write_bytes(content)
    return file


def export_content(header: Header | bytes, events: list[LoggedEvent] | list[bytes]) -> bytes:
    """Return the content of a file with a correct checksum."""
    lines = [
        line if isinstance(line, bytes) else msgspec.json.encode(line) for line in (header, *events)
    ]
    body = b"".join(line + b"\n" for line in lines)
    manifest = {"schema": export_file.SCHEMA, "sha256": hashlib.sha256(body).hexdigest()}
    return msgspec.json.encode(manifest) + b"\n" + body


def test_an_imported_run_equals_the_exported_run(
    run: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_store = Store(tmp_path / "other_store")
    header, events = export_file.read_export(write_export(tmp_path, export_file.encode_run(run)))

    def write(file: pathlib.Path, content: bytes) -> None:
        assert not other_store.run(header.run_id).directory.exists(), "it appears as a whole"
        write_atomically(file, content)

    monkeypatch.setattr(export_file, "write_atomically", write)
    imported = export_file.import_run(other_store, header, events)
    assert imported.header().foreign
    assert imported.header().question.batch_sizes == run.header().question.batch_sizes
    assert [event.seq for event in imported.events()] == [event.seq for event in run.events()]
    (entry,) = other_store.history()
    assert (entry.run_id, entry.foreign) == (run.directory.name, True)
    assert list(other_store.resumable_runs()) == []


def test_an_export_contains_no_directories_of_interpreters_or_of_the_model(run: Run) -> None:
    content = export_file.encode_run(run)
    assert b"somebody" not in content
    assert b'"net.py:build"' in content
    assert b'"/' not in b"\n".join(content.splitlines()[1:3]), "a path of the header or the plan"


HEADER = builders.header_of(*map(builders.workflow, ("compiled", "own")))
WITHOUT_ZONE = msgspec.json.encode(HEADER).replace(b"T12:00:00Z", b"T12:00:00")
DEEP = b"[" * 100_000 + b"]" * 100_000
UNKNOWN_PROCESS = WorkerReported(arm="compiled", process=7, worker_event=IMPORTED)
(VISIT,) = builders.visits([0.1])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"schema": "p3-advisor/export/2"}\n', "newer version"),
        (export_content(b'{"schema": "p3-advisor/stored-run/2"}', [b'{"a": 1}']), "newer version"),
        (b"", "not an exported run"),
        (b"\x00\xff\xfe", "not an exported run"),
        (DEEP, "not an exported run"),
        (b'{"schema": "p3-advisor/export/1"}\n', "not an exported run"),
        (export_content(HEADER, EVENTS)[:-20], "cut off"),
        (export_content(HEADER, EVENTS) + b"{}\n", "checksum"),
        (export_content(HEADER, EVENTS).replace(b'"seed":0', b'"seed":1'), "checksum"),
        (export_content(b"{}", EVENTS), "does not hold a run"),
        (export_content(HEADER, [b"{}"]), "does not hold a run"),
        (export_content(WITHOUT_ZONE, EVENTS), "does not hold a run"),
        (export_content(HEADER, [DEEP]), "does not hold a run"),
        (
            export_content(
                HEADER, [msgspec.json.encode(EVENTS[0]).replace(b"compiled", b"compile\xff")]
            ),
            "does not hold a run",
        ),
        (export_content(builders.replace(HEADER, run_id="../../evil"), EVENTS), "not hold a run"),
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
def test_a_damaged_edited_or_newer_file_is_refused_with_the_reason(
    content: bytes, reason: str, tmp_path: pathlib.Path
) -> None:
    kind = NewerVersionError if reason == "newer version" else ExportFileError
    with pytest.raises(kind, match=reason):
        export_file.read_export(write_export(tmp_path, content))


def test_a_file_above_the_size_limit_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_file, "MAX_EXPORT_BYTES", 1 << 20)
    with pytest.raises(ExportFileError, match="larger than 1 MiB"):
        export_file.read_export(write_export(tmp_path, b"x" * (1 << 21)))
    os.mkfifo(tmp_path / "fifo")
    for name in ("absent", "fifo"):
        with pytest.raises(ExportFileError, match="cannot be read"):
            export_file.read_export(tmp_path / name)


def test_an_arm_of_an_unknown_workflow_is_refused() -> None:
    with pytest.raises(RunFileError, match="own"):
        answer_from_stored(builders.header(), fold(EVENTS), "a file")


def test_figures_outside_the_range_of_floats_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer_from_state(*_: object, **__: object) -> None:
        raise OverflowError("math range error")

    assert answer_from_stored(HEADER, fold(EVENTS), "a file").recommendation is None
    monkeypatch.setattr(answers, "answer_from_state", answer_from_state)
    with pytest.raises(RunFileError, match="a file contradict each other"):
        answer_from_stored(HEADER, fold(EVENTS), "a file")
