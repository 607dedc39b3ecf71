"""The history of stored runs, commands to a run in progress, and files that are written whole."""

from __future__ import annotations

import os
import pathlib
import threading
from unittest import mock

import builders
import pytest
from recorded_runs import HISTORY, IDS, make_planned_run

from advisor.domain.answer import AnswerSummary
from advisor.domain.errors import NotWritableError, RunNotControllableError
from advisor.domain.measurement import Interval
from advisor.domain.run_events import BusyWhileIdle, Finished, Resumed
from advisor.store import runs, store
from advisor.store.control import RunControl
from advisor.store.files import write_atomically
from advisor.store.runs import ENTRY, HistoryEntry, load_entry, size_of_events
from advisor.store.store import Store


def test_a_run_that_cannot_be_written_leaves_no_directory(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "write_atomically", mock.Mock(side_effect=OSError("no space")))
    with pytest.raises(NotWritableError):
        Store(home).create(builders.header())
    assert list((home / "runs").iterdir()) == []


def run_ids(entries: list[HistoryEntry]) -> list[str]:
    return [entry.run_id for entry in entries]


def test_the_history_is_newest_first_with_model_and_device(three_runs: Store) -> None:
    entries = three_runs.history()
    assert run_ids(entries) == HISTORY
    assert [entry.finished for entry in entries] == [True, False, True]
    assert {(entry.model, entry.device_name) for entry in entries} == {
        ("synthetic/ffn@8x16", "CPU")
    }
    assert entries == three_runs.history()


def test_the_history_updates_a_run_that_has_finished_and_one_that_goes_on(
    home: pathlib.Path,
) -> None:
    made = make_planned_run(home)
    assert [entry.finished for entry in Store(home).history()] == [False]
    for event, is_finished in ((Resumed(), False), (Finished(), True), (Resumed(), True)):
        with made.writer() as writer:
            writer.append(builders.events(event)[0])
        assert [entry.finished for entry in Store(home).history()] == [is_finished]


def test_a_run_whose_events_do_not_fit_together_is_listed(home: pathlib.Path) -> None:
    made = make_planned_run(home)
    with made.writer() as writer:
        writer.append(*builders.events(BusyWhileIdle(arm="nobody", process=0, processors=1.0)))
    assert run_ids(Store(home).history()) == [made.directory.name]
    assert Store(home).find("latest").directory == made.directory


def test_the_history_drops_removed_runs(three_runs: Store, home: pathlib.Path) -> None:
    three_runs.history()
    (home / "runs" / IDS[2] / "run.json").unlink()
    assert run_ids(three_runs.history()) == HISTORY[1:]


SUMMARY = AnswerSummary(
    arm="compiled", decision_word="OPEN", trust="C", speedup=Interval(value=2.0, low=1.9, high=None)
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


def test_two_writers_of_a_file_do_not_meet(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, write = tmp_path / "file", pathlib.Path.write_bytes

    def write_twice(self: pathlib.Path, content: bytes) -> None:
        write(self, content)
        if content == b"first":
            other = threading.Thread(target=write_atomically, args=(file, b"second"))
            other.start()
            other.join()

    monkeypatch.setattr(pathlib.Path, "write_bytes", write_twice)
    write_atomically(file, b"first")
    assert file.read_bytes() == b"first"


def test_a_failed_write_keeps_the_old_content_and_leaves_no_partial_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "folder" / "file"
    write_atomically(file, b"older")
    write_atomically(file, b"old")

    def fail(self: pathlib.Path, content: bytes) -> None:
        with self.open("wb") as stream:
            stream.write(content[:1])
        raise OSError

    monkeypatch.setattr(pathlib.Path, "write_bytes", fail)
    with pytest.raises(OSError):  # noqa: PT011 - a full disk, a missing right and others
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(file.parent.iterdir()) == [file]
