"""Workers that do not start, and their folders for temporary files."""

from __future__ import annotations

import errno
import itertools
import os
import pathlib

import msgspec
import psutil
import pytest
import workers
from sessions import (
    ALIKE,
    BASELINE,
    QUICK,
    expect_failure,
    outcomes_by_arm,
    start_workers,
    worker_events_of,
)

from advisor.domain.plan import REFERENCE, arm_directory_name
from advisor.domain.run_events import WorkerSpawned
from advisor.errors import NotWritableError
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.worker_process import Worker
from probes import protocol
from probes.wire.events import Ready

pytestmark = pytest.mark.slow


def test_only_the_arm_with_a_missing_interpreter_ends(
    session: Session, tmp_path: pathlib.Path
) -> None:
    missing = msgspec.structs.replace(ALIKE, python=str(tmp_path / "missing"))
    up = start_workers(session, missing, QUICK)
    assert WorkerSpawned(arm=missing.id, process=0, repeat=0) in up
    failure = expect_failure(outcomes_by_arm(up)[missing.id], "crashed")
    assert (failure.phase, failure.reason) == (
        "start",
        f"{tmp_path / 'missing'} cannot be started: No such file or directory",
    )
    assert failure.fix
    assert not session.is_running(missing.id)
    assert list(session.build(missing.id)) == []
    assert worker_events_of(session.build("quick"), Ready)


def test_no_arm_starts_when_the_reference_does_not(
    session: Session, tmp_path: pathlib.Path
) -> None:
    missing = msgspec.structs.replace(BASELINE, python=str(tmp_path / "missing"))
    up = [*session.start_reference(missing, 0), *session.start([(QUICK, 0)])]
    assert list(outcomes_by_arm(up)) == [REFERENCE]
    assert not session.is_running("quick")


def test_a_full_disk_of_the_scratch_directory_is_a_user_error(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pathlib.Path, "mkdir", refuse)
    with pytest.raises(NotWritableError, match="No space left on device"):
        list(session.start_reference(BASELINE, 0))


#: The path of a socket may have 107 bytes; this leaves room for the name that a stack chooses.
SHORT = 50


def temporary_folder_of(worker: Worker) -> pathlib.Path:
    """Return the folder for temporary files of a worker, which may not show its variables yet."""
    process = psutil.Process(worker.popen.pid)
    workers.wait_until(lambda: protocol.MARK_VARIABLE in process.environ())
    return pathlib.Path(process.environ()["TMPDIR"])


def test_a_worker_keeps_temporary_files_below_its_scratch_directory(run_config: RunConfig) -> None:
    found: list[tuple[str, pathlib.Path, pathlib.Path]] = []
    seen: list[Worker] = []
    with Session(run_config) as session:
        started = itertools.chain(
            session.start_reference(BASELINE, 0),
            session.start([(ALIKE, 0), (QUICK, 0)]),
            session.start([(QUICK, 1)], repeat=1, built={QUICK.id}),
        )
        for run_event in started:
            worker = session.workers.get(getattr(run_event, "arm", ""))
            if worker and worker not in seen:
                seen.append(worker)
                folder = temporary_folder_of(worker)
                found.append((worker.arm, folder, folder.resolve()))
    arms, folders, targets = zip(*found, strict=True)
    assert arms == (REFERENCE, ALIKE.id, QUICK.id, QUICK.id)
    assert folders[2] == folders[3], "a warm build finds the caches of the cold one"
    assert len({*targets}) == 3
    scratch = run_config.scratch_directory.resolve()
    for arm, folder, target in found:
        assert target.is_relative_to(scratch / arm_directory_name(arm))
        assert target.is_dir()
        assert len(str(folder)) < SHORT
        assert not folder.parent.exists(), "the short names are removed with the workers"
