"""Tests of the index: the history stays correct when the index is lost, damaged or locked."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3

import builders
import pytest

from advisor.domain.run_events import Finished, Planned
from advisor.store import index
from advisor.store.index import HistoryEntry
from advisor.store.store import Store

IDS = ("20261120-080000-aaaa", "20261121-120000-0000", "20261121-120000-00ff")
HISTORY = list(reversed(IDS))


def make_run(home: pathlib.Path, run_id: str) -> None:
    with Store(home).create(builders.header(run_id=run_id)).writer() as writer:
        for event in builders.events(Planned(plan=builders.plan()), Finished()):
            writer.append(event)


@pytest.fixture
def three_runs(home: pathlib.Path) -> Store:
    for run_id in IDS:
        make_run(home, run_id)
    return Store(home)


def run_ids(entries: list[HistoryEntry]) -> list[str]:
    return [entry.run_id for entry in entries]


def test_a_deleted_index_is_built_again(three_runs: Store, home: pathlib.Path) -> None:
    before = three_runs.history()
    (home / "index.sqlite").unlink()
    assert three_runs.history() == before


@pytest.mark.parametrize(
    "content", [b"", b"rubbish" * 1000, b"SQLite format 3\x00" + b"\xff" * 4096]
)
def test_a_damaged_index_is_built_again(
    three_runs: Store, home: pathlib.Path, content: bytes
) -> None:
    before = three_runs.history()
    (home / "index.sqlite").write_bytes(content)
    assert three_runs.history() == before


def test_an_index_of_another_layout_is_built_again(three_runs: Store, home: pathlib.Path) -> None:
    before = three_runs.history()
    (home / "index.sqlite").unlink()
    other = sqlite3.connect(home / "index.sqlite")
    other.execute("CREATE TABLE runs (name TEXT)")
    other.close()
    assert three_runs.history() == before


@pytest.mark.parametrize("whole_pages", [1, 2, 10])
def test_an_index_with_damaged_later_pages_is_built_again(
    three_runs: Store, home: pathlib.Path, whole_pages: int
) -> None:
    before, file = three_runs.history(), home / "index.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as other, other:
        rows = [
            (f"gone-{number}", 1, "2026", "a model" * 20, "a device", 1, 1, 0)
            for number in range(1000)
        ]
        other.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    content = file.read_bytes()
    file.write_bytes(content[: whole_pages * 4096].ljust(len(content), b"\xff"))
    for _ in range(2):
        assert three_runs.history() == before
    make_run(home, "20261122-000000-0000")
    assert run_ids(three_runs.history()) == ["20261122-000000-0000", *HISTORY]
    with contextlib.closing(sqlite3.connect(file)) as other:
        assert len(other.execute("SELECT * FROM runs").fetchall()) == 4


def test_the_history_works_where_the_index_cannot_be_made(
    three_runs: Store, home: pathlib.Path
) -> None:
    (home / "index.sqlite").mkdir()
    assert run_ids(three_runs.history()) == HISTORY


def test_a_locked_index_is_left_unchanged(
    three_runs: Store, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "LOCK_TIMEOUT_SECONDS", 0.1)
    before, file = three_runs.history(), home / "index.sqlite"
    content = file.read_bytes()
    make_run(home, "20261122-000000-0000")
    for lock in ("BEGIN EXCLUSIVE", "BEGIN IMMEDIATE"):
        with contextlib.closing(sqlite3.connect(file)) as other:
            other.execute(lock)
            assert three_runs.history()[1:] == before
    assert file.read_bytes() == content
