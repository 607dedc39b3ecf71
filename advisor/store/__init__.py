"""Stage: runs on disk. A run is a directory; the index over them can be deleted at any time and comes back.

<home>/runs/<id>/run.json       the header
                 events.jsonl   what happened, appended
                 note           what the user wrote about it
                 lock           held by the process that works on it
                 arms/          control directories of the workers, with their logs
                 scratch/       weights, references, caches; removed when the run is finished
<home>/fleets/<id>.json        which runs answer one question of a fleet
              <id>.parquet     their figures, one row for each workflow and batch size
<home>/index.sqlite
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
from collections.abc import Mapping

import msgspec
import platformdirs

from advisor.domain.run import Header
from advisor.domain.run_events import Finished
from advisor.errors import NotWritableError, RunFileError, RunIsActiveError, UnknownRunError
from advisor.store.fleets import Fleets
from advisor.store.index import Entry as Entry
from advisor.store.index import Index
from advisor.store.runs import HOME_VARIABLE as HOME_VARIABLE
from advisor.store.runs import Run as Run

LATEST = "latest"


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs of the history are wanted; what is empty or null does not matter."""

    #: Part of the name, whatever the case.
    model: str = ""
    device: str = ""
    note: str = ""
    #: First day, as 2026-11-21.
    since: str = ""
    finished: bool | None = None
    imported: bool | None = None

    def wants(self, entry: Entry) -> bool:
        """Say whether a run fits."""
        parts = ((self.model, entry.model), (self.device, entry.device), (self.note, entry.note))
        states = ((self.finished, entry.finished), (self.imported, entry.imported))
        return (
            all(part.lower() in whole.lower() for part, whole in parts)
            and entry.created >= self.since
            and all(wanted is None or wanted == is_so for wanted, is_so in states)
        )


def default_home(environment: Mapping[str, str]) -> pathlib.Path:
    """Return where runs are kept: the directory the environment names, else the platform's for a user's state."""
    named = environment.get(HOME_VARIABLE)
    return pathlib.Path(named).absolute() if named else platformdirs.user_state_path("p3-advisor")


class Store:
    """All runs below one directory."""

    def __init__(self, home: pathlib.Path) -> None:
        self._home = home
        self._runs = home / "runs"
        self.fleets = Fleets(home / "fleets")

    def create(self, header: Header) -> Run:
        """Make the directory of a new run."""
        directory = self._runs / header.run_id
        try:
            directory.mkdir(parents=True)
            (directory / "run.json").write_bytes(msgspec.json.encode(header))
            for folder in ("arms", "scratch"):
                (directory / folder).mkdir()
        except OSError as problem:
            what = f"{self._home} cannot be written: {problem.strerror}"
            raise NotWritableError(
                what, f"make it writable, or set {HOME_VARIABLE} to another directory"
            ) from problem
        return Run(directory)

    def find(self, name: str) -> Run:
        """Return the run with this id, an unambiguous beginning of one, `latest`, or a path; raise `UnknownRunError`."""
        if not name:
            raise UnknownRunError("the name of the run is empty", "see p3-advisor history")
        for path in (pathlib.Path(name), self.place_of(name)):
            # What cannot be looked at, or is too long for a path, is no run.
            if os.path.isfile(path / "run.json"):  # noqa: PTH113 - `is_file` raises for it
                return Run(path)
        ids = self._ids()
        matches = (
            ids[-1:] if name == LATEST else [run_id for run_id in ids if run_id.startswith(name)]
        )
        if len(matches) == 1:
            return Run(self._runs / matches[0])
        if matches:
            raise UnknownRunError(
                f"{name!r} is the beginning of {len(matches)} runs",
                f"write more of it: {', '.join(matches[:5])}",
            )
        raise UnknownRunError(f"there is no run {name!r}", "see p3-advisor history")

    def place_of(self, run_id: str) -> pathlib.Path:
        """Return where the run of this id is, or would be."""
        return self._runs / run_id

    def delete(self, name: str) -> str:
        """Remove a stored run with everything that belongs to it; return its id."""
        run = self.find(name)
        if run.directory.resolve().parent != self._runs.resolve():
            raise UnknownRunError(
                f"{name!r} is not among the stored runs", "remove the directory yourself"
            )
        if run.is_active():
            raise RunIsActiveError(
                f"another process works on run {run.directory.name}", "end it first"
            )
        try:
            shutil.rmtree(run.directory)
        except OSError as problem:
            raise NotWritableError(
                f"{run.directory} cannot be removed: {problem.strerror}", "make it writable"
            ) from problem
        return run.directory.name

    def unfinished(self) -> Run:
        """Return the newest run of this machine that can go on; raise `UnknownRunError` if there is none."""
        for entry in self.history():
            if entry.is_waiting:
                run = Run(self._runs / entry.run_id)
                with contextlib.suppress(RunFileError):
                    run.header()
                    run.state()
                    return run
        raise UnknownRunError("there is no run that could be resumed", "see p3-advisor history")

    def is_empty(self) -> bool:
        """Say whether no run was ever stored; nothing is written to find out."""
        return not os.path.isdir(self._runs)  # noqa: PTH112 - `is_dir` raises where it may not look

    def history(self, wanted: Filter | None = None) -> list[Entry]:
        """Return the runs, newest first, from the index; runs that it does not know, or that went on, are read and added."""
        ids, index = self._ids(), Index(self._home / "index.sqlite")
        known, changed = index.read(), dict[str, tuple[int, Entry]]()
        gone = known.keys() - set(ids)
        for run_id in ids:
            size = _bytes_of(f"{self._runs}/{run_id}/events.jsonl")
            if known.get(run_id, (None,))[0] != size:
                entry = self._read_entry(run_id)
                if entry is None:
                    known.pop(run_id, None)
                else:
                    changed[run_id] = (size, entry)
        known.update(changed)
        if changed or gone:
            index.write(changed, gone)
        entries = [
            msgspec.structs.replace(known[run_id][1], note=Run(self._runs / run_id).note())
            for run_id in reversed(ids)
            if run_id in known
        ]
        return [entry for entry in entries if wanted is None or wanted.wants(entry)]

    def _ids(self) -> list[str]:
        try:
            with os.scandir(self._runs) as found:
                places = {each.name: each.path for each in found if each.name[0] != "."}
        except FileNotFoundError:
            return []
        except OSError as problem:
            what = f"{self._runs} cannot be read: {problem.strerror}"
            raise NotWritableError(
                what, f"make it readable and writable, or set {HOME_VARIABLE} to another directory"
            ) from problem
        # Of a thousand runs, paths as objects would take most of the time.
        return sorted(name for name, place in places.items() if os.path.isfile(f"{place}/run.json"))  # noqa: PTH113 - see above

    def _read_entry(self, run_id: str) -> Entry | None:
        run = Run(self._runs / run_id)
        try:
            header, events = run.header(), run.events()
        except RunFileError:
            return None
        question = header.question
        gpu = header.machine.find_gpu(question.gpu)
        finished = any(isinstance(event.run_event, Finished) for event in events)
        return Entry(
            run_id=run_id,
            created=header.created,
            model=question.model.name,
            device=gpu.name if gpu else "CPU",
            finished=finished,
            imported=header.imported,
        )


def _bytes_of(file: str) -> int:
    """Return the size of a file, 0 for one that is not there: events are only ever appended, so it says whether a run went on."""
    try:
        return os.stat(file).st_size  # noqa: PTH116 - see `Store._ids`
    except OSError:
        return 0
