"""Runs as files: whole or refused, with the reason; nothing of the sender's machine in them, nothing of the receiver's touched."""

from __future__ import annotations

import hashlib
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import builders
import msgspec
import pytest

from advisor.context import Context
from advisor.domain.machine import CreatedEnvironment
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent, Planned, WorkerReported, WorkerSpawned
from advisor.domain.worker_events import BlockTimed, Environment, Imported, Recipe
from advisor.errors import ExportFileError, RunIsImportedError
from advisor.pipeline import decision as deciding
from advisor.pipeline.decision import decide, evaluate_imported
from advisor.pipeline.execution import execute
from advisor.store import Run, Store, exchange

RECIPE = Recipe(
    imports=("import json",),
    source="",
    requirements=(),
    python="==3.11.*",
    interpreter=sys.executable,
    serving_command=None,
)
IMPORTED = Imported(
    versions={"torch": "2.13.0"},
    settings={},
    seconds=1.0,
    environment=Environment(
        python="3.11",
        interpreter="/home/somebody/own/bin/python3",
        distributions={"torch": "2.13.0"},
        providers={"torch": ("torch",)},
        source_digest="0",
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
    WorkerReported(arm="compiled", process=0, worker_event=RECIPE),
    WorkerReported(arm="compiled", process=0, worker_event=IMPORTED),
)


@pytest.fixture
def run(home: pathlib.Path) -> Run:
    """A stored run whose interpreter has a telling name."""
    interpreter = "/home/somebody/venv/bin/python3"
    machine = builders.machine(
        software=builders.interpreter(executable=interpreter),
        environments={"own": CreatedEnvironment(name="own", python=interpreter, digest="0")},
        engine="/home/somebody/bin/podman",
    )
    made = Store(home).create(
        builders.header(question=builders.question(python=interpreter), machine=machine)
    )
    with made.writer() as writer:
        for event in EVENTS:
            writer.append(event)
    return made


@pytest.fixture
def elsewhere(tmp_path: pathlib.Path) -> Store:
    """Another machine's runs."""
    return Store(tmp_path / "elsewhere")


def written(tmp_path: pathlib.Path, content: bytes) -> pathlib.Path:
    file = tmp_path / "a.p3run"
    file.write_bytes(content)
    return file


def packed(
    header: Header | bytes, events: list[LoggedEvent] | list[bytes], **changes: Any
) -> bytes:
    """Return a file with a right checksum, whatever it holds."""
    lines = [
        line if isinstance(line, bytes) else msgspec.json.encode(line) for line in (header, *events)
    ]
    body = b"".join(line + b"\n" for line in lines)
    run_id = header.run_id if isinstance(header, Header) else builders.header().run_id
    fields = {
        "schema": exchange.SCHEMA,
        "run_id": run_id,
        "advisor_version": "0.1",
        "bytes": len(body),
    }
    return (
        msgspec.json.encode({**fields, "sha256": hashlib.sha256(body).hexdigest(), **changes})
        + b"\n"
        + body
    )


def test_a_run_comes_back_as_it_was_but_for_being_imported(
    run: Run, elsewhere: Store, tmp_path: pathlib.Path
) -> None:
    header, events = exchange.read(written(tmp_path, exchange.pack(run)))
    taken = exchange.put(elsewhere, header, events)
    assert taken.header().imported
    assert taken.header().question.batch_sizes == run.header().question.batch_sizes
    assert [event.seq for event in taken.events()] == [event.seq for event in run.events()]
    (entry,) = elsewhere.history()
    assert (entry.run_id, entry.imported) == (run.directory.name, True)


def test_a_file_names_neither_the_machine_nor_its_interpreters(run: Run) -> None:
    content = exchange.pack(run)
    assert b"somebody" not in content
    assert b'"/' not in b"\n".join(content.splitlines()[1:3]), "a path of the header or the plan"
    assert b'"engine":"podman"' in content
    assert str(pathlib.Path(sys.executable).parent).encode() not in content
    assert b'"host":null' in content
    assert b'"host":"this one"' in exchange.pack(run, "this one")


def test_an_imported_run_is_not_worked_on(
    run: Run, elsewhere: Store, tmp_path: pathlib.Path, fake_context: Callable[[], Context]
) -> None:
    taken = exchange.put(elsewhere, *exchange.read(written(tmp_path, exchange.pack(run))))
    with pytest.raises(RunIsImportedError):
        list(execute(taken, fake_context()))
    assert builders.error_of(elsewhere.unfinished) is not None


def test_a_run_of_a_fleet_travels_too(elsewhere: Store) -> None:
    race = builders.header(run_id="20261121-120000-f1ee-0001-2")
    assert (
        exchange.put(elsewhere, *exchange.unpack(packed(race, EVENTS), "a file")).header().run_id
        == race.run_id
    )


def test_a_run_that_is_there_is_not_replaced(
    run: Run, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ExportFileError, match="already"):
        exchange.put(Store(home), *exchange.read(written(tmp_path, exchange.pack(run))))


HEADER = builders.header()
DEEP = b"[" * 100_000 + b"]" * 100_000
STRANGER = WorkerReported(arm="compiled", process=7, worker_event=RECIPE)
VISIT = BlockTimed(batch_size=1, round=1, seconds=(0.1,), warmup_calls=1, cpu_seconds=0.1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no exported run"),
        (b"\x00\xff\xfe", "no exported run"),
        (DEEP, "no exported run"),
        (b'{"schema": "p3-advisor/export/1"}\n', "no exported run"),
        (b'{"schema": "p3-advisor/export/2"}\n', "schema"),
        (packed(HEADER, EVENTS)[:-20], "truncated"),
        (packed(HEADER, EVENTS) + b"{}\n", "checksum"),
        (packed(HEADER, EVENTS).replace(b'"seed":0', b'"seed":1'), "checksum"),
        (packed(HEADER, EVENTS, bytes=-1), "checksum"),
        (packed(b"{}", EVENTS), "no run"),
        (packed(HEADER, [b"{}"]), "no run"),
        (packed(HEADER, [DEEP]), "no run"),
        (
            packed(HEADER, [msgspec.json.encode(EVENTS[0]).replace(b"compiled", b"compile\xff")]),
            "no run",
        ),
        (b'{"schema": "\xff"}\n', "no exported run"),
        (
            packed(msgspec.structs.replace(HEADER, schema="p3-advisor/run-header/9"), EVENTS),
            "schema",
        ),
        (packed(msgspec.structs.replace(HEADER, run_id="../../evil"), EVENTS), "impossible id"),
        (packed(msgspec.structs.replace(HEADER, run_id="/etc/passwd"), EVENTS), "impossible id"),
        (packed(HEADER, EVENTS, run_id="20261121-120000-ffff"), "impossible id"),
        (packed(HEADER, EVENTS[1:]), "one run"),
        (packed(HEADER, []), "one run"),
        (packed(HEADER, [*EVENTS, EVENTS[0]]), "one run"),
        (
            packed(
                HEADER,
                builders.events(
                    EVENTS[0].run_event, WorkerReported(arm="nobody", process=0, worker_event=VISIT)
                ),
            ),
            "do not fit together",
        ),
        (
            packed(HEADER, builders.events(EVENTS[0].run_event, EVENTS[1].run_event, STRANGER)),
            "do not fit",
        ),
    ],
)
def test_what_is_no_whole_run_is_refused_with_the_reason(
    content: bytes, reason: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ExportFileError, match=reason):
        exchange.read(written(tmp_path, content))


def test_a_file_that_is_too_large_is_refused_without_reading_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MOST_BYTES", 1 << 20)
    with pytest.raises(ExportFileError, match="larger than 1 MiB"):
        exchange.read(written(tmp_path, b"x" * (1 << 21)))
    with pytest.raises(ExportFileError, match="cannot be read"):
        exchange.read(tmp_path / "absent")


def test_figures_that_nobody_can_reckon_with_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(*_: object) -> None:
        raise OverflowError("math range error")

    assert evaluate_imported(HEADER, EVENTS, "a file").recommendation is None
    monkeypatch.setattr(deciding, "evaluate", evaluate)
    with pytest.raises(ExportFileError, match="none that a run can have"):
        evaluate_imported(HEADER, EVENTS, "a file")


@pytest.mark.parametrize(
    "file",
    sorted((pathlib.Path(__file__).parent / "recorded").iterdir()),
    ids=lambda file: file.stem,
)
def test_a_run_of_any_age_reads_back_and_is_decided(file: pathlib.Path, elsewhere: Store) -> None:
    header, events = exchange.read(file)
    decision = evaluate_imported(header, events, file.name)
    assert decision.recommendation is not None
    assert decide(exchange.put(elsewhere, header, events)).recommendation == decision.recommendation
