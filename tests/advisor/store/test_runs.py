"""Tests of storing and reading runs, their history and their errors."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import pathlib
from typing import Any

import builders
import msgspec
import platformdirs
import pytest
from recorded_runs import IDS, make_planned_run, planned_header

from advisor.domain import errors
from advisor.domain.run_events import ArmsPlanned, Finished, Resumed, WorkerReported, WorkerSpawned
from advisor.domain.run_state import SCHEMA
from advisor.store import runs
from advisor.store.files import HOME_VARIABLE
from advisor.store.runs import Run
from advisor.store.store import Store, default_home
from probes.events import Ready


def raise_permission_error(*_: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


def ids_of_resumable_runs(store: Store) -> list[str]:
    return [run.directory.name for run, _ in store.resumable_runs()]


def test_a_stored_run_is_read_back_unchanged(home: pathlib.Path) -> None:
    events = builders.events(ArmsPlanned(plan=builders.plan("compiled")), Resumed(), Finished())
    made = make_planned_run(home, IDS[0], *events)
    assert made.header() == planned_header()
    assert Run(made.directory).events() == events
    assert made.arms.is_dir()
    assert made.scratch.is_dir()


def append_raw(run: Run, text: bytes) -> None:
    with (run.directory / "events.jsonl").open("ab") as file:
        file.write(text)


def test_a_partial_last_line_is_ignored(run: Run) -> None:
    before = run.events()
    (whole,) = builders.events(Finished())
    for half in (b"{", msgspec.json.encode(whole)):
        append_raw(run, half)
        assert run.events() == before


def test_the_writer_removes_a_partial_last_line(run: Run) -> None:
    before = run.events()
    append_raw(run, b'{"seq": 2, "at"')
    (event,) = builders.events(Resumed())
    with run.writer() as writer:
        writer.append(event)
    assert run.events() == [*before, event]


@pytest.mark.parametrize(
    "line",
    [
        b"rubbish\n",
        b'{"seq": 2, "at": 0, "run_event": {"event": "repetition_started", "arms": ["\xff"]}}\n',
    ],
)
def test_a_damaged_line_raises_an_error(run: Run, line: bytes) -> None:
    append_raw(run, line)
    for read in (run.events, run.state, lambda: run.read_events_after(0)):
        with pytest.raises(errors.RunFileError, match="damaged"):
            read()


def test_a_run_without_a_plan_raises_an_error_and_is_not_resumed(three_runs: Store) -> None:
    run = three_runs.create(planned_header("20261122-000000-0000"))
    with pytest.raises(errors.RunFileError, match="before its plan") as problem:
        run.state()
    assert run.directory.name in problem.value.next_step
    assert ids_of_resumable_runs(three_runs)[0] == IDS[1]


def test_missing_or_inconsistent_events_raise_an_error(home: pathlib.Path) -> None:
    run_events = (
        ArmsPlanned(plan=builders.plan()),
        WorkerSpawned(arm=builders.BASELINE, process=0),
        Resumed(),
    )
    for missing in range(2):
        events = builders.events(*run_events)
        del events[missing]
        with pytest.raises(errors.RunFileError, match="missing"):
            make_planned_run(home, IDS[missing], *events).state()
    unknown_arm = WorkerReported(arm="nobody", process=0, worker_event=Ready())
    with pytest.raises(errors.RunFileError, match="do not fit together"):
        make_planned_run(home, IDS[2], *builders.events(*run_events, unknown_arm)).state()


def test_files_that_cannot_be_opened_raise_an_error(run: Run) -> None:
    for name, read in (("events.jsonl", run.events), ("run.json", run.header)):
        (run.directory / name).unlink()
        if name == "events.jsonl":  # no event is stored yet where it is missing
            (run.directory / name).mkdir()
        with pytest.raises(errors.RunFileError, match="cannot be read"):
            read()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"rubbish", "is damaged"),
        (b"\xff", "is damaged"),
        (b'{"schema": "\xff"}', "is damaged"),
        (b'{"schema": "p3-advisor/stored-run/1", "run_id": "\xff"}', "is damaged"),
        (b'{"schema": "p3-advisor/another/9"}', "another version"),
        (b'{"schema": "p3-advisor/stored-run/0"}', "another version"),
        (b'{"schema": "p3-advisor/stored-run/\xc2\xb2"}', "another version"),
        (b'{"schema": "p3-advisor/stored-run/1"}', "another version"),
    ],
)
def test_a_header_that_is_damaged_or_of_another_version_says_so(
    run: Run, content: bytes, words: str
) -> None:
    (run.directory / "run.json").write_bytes(content)
    with pytest.raises(errors.RunFileError, match=words) as problem:
        run.header()
    assert problem.value.next_step


@pytest.mark.parametrize("version", ["5", "99", "9" * 5000])
def test_a_run_of_a_newer_version_says_so(run: Run, version: str) -> None:
    newer = f"p3-advisor/stored-run/{version}"
    (run.directory / "run.json").write_text(json.dumps({"schema": newer, "unknown": True}))
    append_raw(run, b'{"seq": 2, "at": 0, "run_event": {"event": "of_a_newer_version"}}\n')
    for read in (run.header, run.events, run.state):
        with pytest.raises(errors.NewerVersionError) as problem:
            read()
        assert newer[:30] in problem.value.what
        assert SCHEMA in problem.value.what
        assert "update the checkout" in problem.value.next_step


def test_only_one_process_writes_a_run_at_a_time(run: Run) -> None:
    with run.writer():
        with pytest.raises(errors.RunIsActiveError, match=IDS[0]), Run(run.directory).writer():
            pass
        assert run.events()
    with Run(run.directory).writer():
        pass


def test_two_programs_that_ask_whether_a_run_is_active_do_not_see_each_other(run: Run) -> None:
    with run.writer():
        assert run.is_active()
    with (run.directory / "lock").open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not run.is_active()


def test_a_run_is_written_as_soon_as_no_program_asks_whether_it_is_active(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run.writer():
        pass
    asking = (run.directory / "lock").open()
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr("advisor.store.runs.time.sleep", lambda _: asking.close())
    with run.writer():
        assert run.is_active()


def test_scratch_can_be_cleared_twice(run: Run) -> None:
    (run.scratch / "weights").write_bytes(b"large")
    run.clear_scratch()
    run.clear_scratch()
    assert not run.scratch.exists()
    assert run.events()


def test_the_builds_of_other_finished_runs_are_removed_unless_a_process_uses_them(
    three_runs: Store,
) -> None:
    used, unfinished, own = found = [three_runs.find(each) for each in IDS]
    with used.writer():
        own.clear_scratch_of_others()
        assert used.scratch.is_dir()
    own.clear_scratch_of_others()
    assert [each for each in found if each.scratch.is_dir()] == [unfinished, own]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("latest", IDS[2]),
        (IDS[1], IDS[1]),
        ("20261120", IDS[0]),
        ("20261121-120000-000", IDS[1]),
        ("20261121-120000-00f", IDS[2]),
    ],
)
def test_a_run_is_found_by_its_id_or_a_unique_prefix(
    three_runs: Store, name: str, found: str
) -> None:
    assert three_runs.find(name).header().run_id == found


def test_latest_skips_runs_that_failed_before_a_measurement(home: pathlib.Path) -> None:
    planned = ArmsPlanned(plan=builders.plan("compiled"))
    timed = WorkerReported(
        arm=builders.BASELINE, process=0, worker_event=builders.visits([0.01])[0]
    )
    spawned = WorkerSpawned(arm=builders.BASELINE, process=0)
    make_planned_run(home, IDS[0], *builders.events(planned, spawned, timed, Finished()))
    make_planned_run(home, IDS[1], *builders.events(planned, spawned, timed))
    make_planned_run(home, IDS[2], *builders.events(planned, spawned))
    Store(home).create(planned_header("20261122-000000-0000"))
    assert Store(home).find("latest").directory.name == IDS[1]
    assert [entry.measured for entry in Store(home).history()] == [False, False, True, True]
    # Again, from the index.
    assert [entry.measured for entry in Store(home).history()] == [False, False, True, True]


def test_latest_reports_a_newest_run_that_is_damaged(three_runs: Store, home: pathlib.Path) -> None:
    (home / "runs" / IDS[2] / "run.json").write_bytes(b"rubbish")
    with pytest.raises(errors.RunFileError):
        three_runs.find("latest").header()


def test_a_complete_id_is_found_although_it_is_a_prefix_of_another(home: pathlib.Path) -> None:
    for run_id in ("20261120-1", "20261120-12"):
        make_planned_run(home, run_id)
    assert Store(home).find("20261120-1").directory.name == "20261120-1"


def test_an_empty_name_deletes_nothing(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only = make_planned_run(home)
    monkeypatch.chdir(only.directory)
    with pytest.raises(errors.UnknownRunError):
        Store(home).delete("")
    assert only.header() == planned_header()


def test_a_run_may_be_deleted_by_several_processes_at_once(
    run: Run, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = os.unlink

    def lose_a_race(file: str, **changes: Any) -> None:
        unlink(file, **changes)
        unlink(file, **changes)

    monkeypatch.setattr(os, "unlink", lose_a_race)
    assert Store(home).delete(run.directory.name) == run.directory.name
    assert not run.directory.exists()


def test_a_note_survives_bad_characters_and_failed_writes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.write_note("before the\nupgrade")
    run.write_note("caf\udce9")
    assert run.note() == "caf?"
    monkeypatch.setattr(pathlib.Path, "write_bytes", raise_permission_error)
    with pytest.raises(errors.NotWritableError):
        run.write_note("lost")
    assert run.note() == "caf?"
    run.write_note(" ")
    assert run.note() == ""


def test_a_run_is_found_by_the_path_of_its_directory(run: Run, tmp_path: pathlib.Path) -> None:
    elsewhere = run.directory.rename(tmp_path / "moved")
    found = Store(tmp_path / "another home").find(str(elsewhere)).header()
    assert found == builders.replace(planned_header(), foreign=True)


def test_a_bare_name_is_no_directory_and_a_path_into_the_store_is_stored(
    three_runs: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = three_runs.find(IDS[0]).directory
    monkeypatch.chdir(stored.parent)
    assert not three_runs.find(f"./{IDS[0]}").header().foreign
    monkeypatch.chdir(stored)
    stored.parent.joinpath(IDS[1]).rename("latest")
    assert three_runs.find("latest").directory.name == IDS[2]
    with pytest.raises(errors.UnknownRunError):
        three_runs.find(".")


@pytest.mark.parametrize(
    "name",
    [
        *("gone", "2026112x", "120000", "latest-", "x" * 300, "", "a\0b"),
        *("/nowhere", "gone.json", "there/gone"),
    ],
)
def test_an_unknown_run_raises_an_error_with_its_name(three_runs: Store, name: str) -> None:
    with pytest.raises(errors.UnknownRunError) as problem:
        three_runs.find(name)
    assert (repr(name) if name else "is empty") in problem.value.what
    is_file = os.sep in name or name.endswith(".json")
    assert ("file" in problem.value.what, "run" in problem.value.what) == (is_file, not is_file)
    assert "history" in problem.value.next_step


def test_a_file_is_no_stored_run(three_runs: Store, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "run.json.txt"
    file.write_text("{}")
    with pytest.raises(errors.UnknownRunError) as problem:
        three_runs.find(str(file))
    assert "import-run" in problem.value.next_step


def test_an_ambiguous_prefix_names_the_newest_runs_and_counts_the_older_ones(
    home: pathlib.Path,
) -> None:
    ids = [f"20261122-00000{number}-0000" for number in range(7)]
    for run_id in ids:
        make_planned_run(home, run_id)
    with pytest.raises(errors.UnknownRunError) as problem:
        Store(home).find("2026")
    assert [run_id for run_id in ids if run_id in problem.value.next_step] == ids[2:]
    assert "7 runs" in problem.value.what
    assert problem.value.next_step.endswith("and 2 older")


def test_without_a_run_the_next_step_is_to_measure(home: pathlib.Path) -> None:
    store = Store(home)
    with pytest.raises(errors.UnknownRunError) as problem:
        store.find("latest")
    assert "p3-advisor recommend" in problem.value.next_step
    assert store.history() == []


def test_a_run_that_cannot_be_stored_raises_an_error(tmp_path: pathlib.Path) -> None:
    # Even root cannot make it, because its parent is a file.
    (tmp_path / "file").touch()
    blocked_home = tmp_path / "file" / "home"
    with pytest.raises(errors.NotWritableError) as problem:
        Store(blocked_home).create(planned_header())
    assert str(blocked_home) in problem.value.what
    assert HOME_VARIABLE in problem.value.next_step
    assert problem.value.exit_code == 3


def test_an_unreadable_directory_of_runs_raises_an_error(
    three_runs: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "scandir", raise_permission_error)
    for read in (
        three_runs.history,
        lambda: ids_of_resumable_runs(three_runs),
        lambda: three_runs.find("latest"),
    ):
        with pytest.raises(errors.NotWritableError, match="cannot be read: Permission denied"):
            read()


def test_a_run_that_cannot_be_locked_raises_an_error(run: Run) -> None:
    (run.directory / "lock").unlink()
    (run.directory / "lock").mkdir()
    with pytest.raises(errors.NotWritableError, match=IDS[0]), run.writer():
        pass


def test_a_full_disk_in_the_writer_raises_only_one_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.directory / "events.jsonl").unlink(missing_ok=True)
    (run.directory / "events.jsonl").symlink_to("/dev/full")
    # It would read that device to its end.
    monkeypatch.setattr(run, "_remove_partial_line", lambda: None)
    with pytest.raises(errors.NotWritableError, match="No space left"):  # noqa: SIM117 - what leaves the writer counts
        with run.writer() as writer:
            writer.append(builders.events(Finished())[0])


def test_an_event_written_in_parts_is_complete() -> None:
    class Slow(io.RawIOBase):
        written = b""

        def write(self, text: Any) -> int:
            self.written += text[:7]
            return len(text[:7])

    slow, (event,) = Slow(), builders.events(Finished())
    runs.Writer(slow).append(event)
    assert slow.written == msgspec.json.encode(event) + b"\n"


def test_the_default_home_is_the_named_directory_or_the_users_state(tmp_path: pathlib.Path) -> None:
    assert default_home({HOME_VARIABLE: str(tmp_path)}) == tmp_path
    assert default_home({HOME_VARIABLE: "state"}) == pathlib.Path.cwd() / "state"
    for variables in ({HOME_VARIABLE: ""}, {}):
        assert default_home(variables) == platformdirs.user_state_path("p3-advisor")
