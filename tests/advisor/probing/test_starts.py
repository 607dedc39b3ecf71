"""Workers that do not start, and their folders for temporary files."""

from __future__ import annotations

import errno
import os
import pathlib

import psutil
import pytest
import workers
from builders import replace
from sessions import (
    ALIKE,
    BASELINE,
    QUICK,
    expect_failure,
    outcomes_by_arm,
    start_workers,
    worker_events_of,
)

from advisor.domain.errors import NotWritableError
from advisor.domain.plan import REFERENCE, arm_directory_name
from advisor.domain.run_events import WorkerSpawned
from advisor.probing.run_config import RunConfig
from advisor.probing.session import WorkerSession
from advisor.probing.worker_process import Worker
from probes import protocol
from probes.events import Ready

pytestmark = pytest.mark.slow


def test_only_the_arm_with_a_missing_interpreter_ends(
    session: WorkerSession, tmp_path: pathlib.Path
) -> None:
    missing = replace(ALIKE, python=str(tmp_path / "missing"))
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
    session: WorkerSession, tmp_path: pathlib.Path
) -> None:
    missing = replace(BASELINE, python=str(tmp_path / "missing"))
    up = [*session.start_reference(missing, 0), *session.start([(QUICK, 0)])]
    assert list(outcomes_by_arm(up)) == [REFERENCE]
    assert not session.is_running("quick")


def test_a_full_disk_of_the_scratch_directory_is_a_user_error(
    session: WorkerSession, monkeypatch: pytest.MonkeyPatch
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
    scratch = run_config.scratch_directory.resolve()
    with WorkerSession(run_config) as session:
        list(session.start_reference(BASELINE, 0))
        list(session.start([(ALIKE, 0), (QUICK, 0)]))
        folders = {arm: temporary_folder_of(worker) for arm, worker in session.workers.items()}
        assert {*folders} == {REFERENCE, ALIKE.id, QUICK.id}
        for arm, folder in folders.items():
            assert folder.resolve().is_relative_to(scratch / arm_directory_name(arm))
            assert folder.is_dir()
            assert len(str(folder)) < SHORT
        list(session.start([(QUICK, 1)], repeat=1, built={QUICK.id}))
        assert temporary_folder_of(session.workers[QUICK.id]) == folders[QUICK.id], (
            "a warm build finds the caches of the cold one"
        )
    for folder in folders.values():
        assert not folder.parent.exists(), "the short names are removed with the workers"
