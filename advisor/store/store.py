"""The store of runs in one home directory."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import platformdirs

from advisor.domain.answer import AnswerSummary
from advisor.domain.errors import (
    NotWritableError,
    RunFileError,
    RunIsActiveError,
    UnknownRunError,
    reported_as,
)
from advisor.domain.run_events import Finished, is_measurement
from advisor.domain.run_state import Header, RunState
from advisor.store.files import HOME_VARIABLE, named_home, report_unwritable, write_atomically
from advisor.store.runs import HistoryEntry, Run, RunStatus, load_entry, save_entry, size_of_events

LATEST = "latest"
#: Runs that an error names when a prefix has several.
MOST_NAMED = 5


def default_home(environment: Mapping[str, str]) -> pathlib.Path:
    return named_home(environment) or platformdirs.user_state_path("p3-advisor")


class Store:
    """All runs below one directory."""

    def __init__(self, home: pathlib.Path) -> None:
        self._home = home
        self._runs = home / "runs"

    def create(self, header: Header) -> Run:
        """Make the directory of a new run; raise `NotWritableError` if it exists."""
        run = self.run(header.run_id)
        next_step = f"make it writable, with free space, or set {HOME_VARIABLE} to another one"
        with report_unwritable(self._home, next_step), contextlib.ExitStack() as on_failure:
            run.directory.mkdir(parents=True)
            on_failure.callback(shutil.rmtree, run.directory, ignore_errors=True)
            write_atomically(run.header_file, msgspec.json.encode(header))
            for folder in (run.arms, run.scratch):
                folder.mkdir()
            on_failure.pop_all()
        return run

    def find(self, name: str) -> Run:
        """Return the run with this id, a unique prefix of it, `latest`, or a path with a slash.

        `latest` is the newest run with a measurement, or the newest run if none has one. Raise
        `UnknownRunError` without a single match.
        """
        if not name:
            raise UnknownRunError("the name of the run is empty", "see p3-advisor history")
        directory = pathlib.Path(name)
        # `Path.is_file` raises an error for a path that is not readable or too long.
        if os.sep in name and os.path.isfile(Run(directory).header_file):  # noqa: PTH113
            return Run(directory, is_outside=not self._holds(directory))
        ids = self._ids()
        matches = (
            self._latest(ids)
            if name == LATEST
            else [name] * (name in ids) or [run_id for run_id in ids if run_id.startswith(name)]
        )
        if len(matches) == 1:
            return self.run(matches[0])
        raise _ambiguous_run(name, matches) if matches else _unknown_run(name)

    def _latest(self, ids: Sequence[str]) -> Sequence[str]:
        """Return the newest of these runs that has a measurement, else the newest one.

        A damaged run counts as measured, so that its error is reported.
        """
        for run_id in reversed(ids):
            entry = self._entry(run_id)
            if entry is None or entry.measured:
                return [run_id]
        return ids[-1:]

    def passed_over(self) -> tuple[HistoryEntry, HistoryEntry] | None:
        """Return the newest run and the one that `latest` is; None if these are the same run."""
        ids = self._ids()
        for run_id in self._latest(ids):
            newest, chosen = self._entry(ids[-1]), self._entry(run_id)
            if newest and chosen and newest != chosen:
                return newest, chosen
        return None

    def _holds(self, directory: pathlib.Path) -> bool:
        return directory.resolve().parent == self._runs.resolve()

    def run(self, run_id: str) -> Run:
        """Return the run with this id, whether or not it exists."""
        return Run(self._runs / run_id)

    def delete(self, name: str) -> str:
        """Remove the directory of a stored run; return its id."""
        run = self.find(name)
        if not self._holds(run.directory):
            raise UnknownRunError(
                f"{name!r} is not one of the stored runs", "remove the directory yourself"
            )
        if run.is_active():
            raise RunIsActiveError(
                f"another process works on run {run.directory.name}", "stop it first"
            )
        what = f"{run.directory} cannot be removed"
        with reported_as(NotWritableError, what, "make it writable"):
            shutil.rmtree(run.directory, onerror=_raise_unless_gone)
        return run.directory.name

    def resumable_runs(self) -> Iterator[tuple[Run, RunState]]:
        """Yield the readable runs that can be resumed, with their states, newest first."""
        for run, _ in self._readable(lambda entry: not (entry.finished or entry.foreign)):
            with contextlib.suppress(RunFileError):
                yield run, run.state()

    def active_ids(self, own: Run | None = None) -> list[str]:
        """Return the runs, or those beside `own`, that processes work on."""
        own_id = own.directory.name if own else ""
        return [
            run_id for run_id in self._ids() if run_id != own_id and self.run(run_id).is_active()
        ]

    def is_empty(self) -> bool:
        """Return whether no run was ever stored, without writing anything."""
        # `Path.is_dir` raises an error for a directory that is not readable.
        return not os.path.isdir(self._runs)  # noqa: PTH112 - see above

    def state_of(self, entry: HistoryEntry) -> RunStatus:
        run = self.run(entry.run_id)
        if entry.foreign:
            return "imported"
        if run.is_active():
            return "paused" if run.control.is_paused() else "running"
        return "finished" if entry.finished else "stopped"

    def history(self) -> list[HistoryEntry]:
        """Return the readable runs, newest first; read only those that changed since."""
        return [
            msgspec.structs.replace(entry, note=self.run(run_id).note())
            for run_id in reversed(self._ids())
            if (entry := self._entry(run_id))
        ]

    def unreadable_ids(self) -> list[str]:
        readable = {entry.run_id for entry in self.history()}
        return [run_id for run_id in reversed(self._ids()) if run_id not in readable]

    def finished_runs(self, model: str) -> Iterator[tuple[Run, Header]]:
        """Return the readable finished runs of a model, newest first."""
        return self._readable(lambda entry: entry.finished and entry.model == model)

    def _readable(self, is_wanted: Callable[[HistoryEntry], bool]) -> Iterator[tuple[Run, Header]]:
        for entry in [] if self.is_empty() else self.history():
            if is_wanted(entry):
                run = self.run(entry.run_id)
                with contextlib.suppress(RunFileError):
                    yield run, run.header()

    def _ids(self) -> list[str]:
        paths: dict[str, str] = {}
        next_step = f"make it readable and writable, or set {HOME_VARIABLE} to another directory"
        with (
            reported_as(NotWritableError, f"{self._runs} cannot be read", next_step),
            contextlib.suppress(FileNotFoundError),
            os.scandir(self._runs) as entries,
        ):
            paths = {entry.name: entry.path for entry in entries if entry.name[0] != "."}
        # With a thousand runs, `Path` objects would take most of the time.
        return sorted(name for name, path in paths.items() if os.path.isfile(f"{path}/run.json"))  # noqa: PTH113 - see above

    def _entry(self, run_id: str) -> HistoryEntry | None:
        """Return the cached entry of a run, or read the run; None if it cannot be read."""
        directory = f"{self._runs}/{run_id}"
        size = size_of_events(directory)
        entry = load_entry(directory, size)
        if entry is None:
            entry = self._read_entry(run_id)
            if entry is not None:
                save_entry(directory, size, entry)
        return entry

    def save_answer(self, entry: HistoryEntry, summary: AnswerSummary, events_bytes: int) -> None:
        """Cache the answer of a run, decided from this many bytes of events, for the next list."""
        answered = msgspec.structs.replace(entry, answer=summary, note="")
        save_entry(f"{self._runs}/{entry.run_id}", events_bytes, answered)

    def _read_entry(self, run_id: str) -> HistoryEntry | None:
        run = self.run(run_id)
        try:
            header, events = run.header(), run.events()
        except RunFileError:
            return None
        question = header.question
        gpu = header.machine.find_gpu(question.gpu)
        return HistoryEntry(
            run_id=run_id,
            created=header.created,
            model=question.model.name,
            device_name=header.device_name if gpu else "CPU",
            finished=any(isinstance(event.run_event, Finished) for event in events),
            measured=any(is_measurement(event.run_event) for event in events),
            foreign=header.foreign,
        )


def _raise_unless_gone(
    _: object, __: str, problem: tuple[type[BaseException], BaseException, object]
) -> None:
    """Raise why a file is not removed, unless another process has removed it."""
    if not isinstance(problem[1], FileNotFoundError):
        raise problem[1]


def _ambiguous_run(name: str, matches: Sequence[str]) -> UnknownRunError:
    newest = matches[: -MOST_NAMED - 1 : -1]
    further = len(matches) - len(newest)
    return UnknownRunError(
        f"{name!r} is the beginning of {len(matches)} runs",
        f"write more of it: {', '.join(newest)}" + (f" and {further} older" * bool(further)),
    )


def _unknown_run(name: str) -> UnknownRunError:
    if os.path.isfile(name):  # noqa: PTH113 - see `Store.find`
        is_answer, file = name.endswith(".json"), shlex.quote(name)
        return UnknownRunError(
            f"{name!r} is a file, and this needs a stored run",
            f"use p3-advisor show, recipe, explain, decide, report or compare with {file}"
            if is_answer
            else f"p3-advisor import-run {file}, and name its id; of --json it has to end in .json",
        )
    if name == LATEST:
        return UnknownRunError("no run is stored yet", "measure one with p3-advisor recommend")
    if os.sep in name or name.endswith(".json"):
        is_there = os.path.isdir(name)  # noqa: PTH112 - as above
        what = f"{name!r} is no directory of a run" if is_there else f"there is no file {name!r}"
        return UnknownRunError(what, "check the path; p3-advisor history lists the stored runs")
    return UnknownRunError(f"there is no run {name!r}", "see p3-advisor history")
