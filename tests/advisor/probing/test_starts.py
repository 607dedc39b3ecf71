"""Workers that do not start, and the turns that those take who work beside a neighbour that times."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib

import msgspec
import pytest
from sessions import ALIKE, BASELINE, QUICK, bring_up, ends, said

from advisor.domain.outcome import Crashed
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import Ended, Spawned
from advisor.domain.worker_events import Ready
from advisor.errors import NotWritableError
from advisor.probing.conditions import Guard
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor
from advisor.system.host_lock import HostLock


def test_an_arm_whose_interpreter_is_gone_ends_alone(
    session: Session, tmp_path: pathlib.Path
) -> None:
    gone = msgspec.structs.replace(ALIKE, python=str(tmp_path / "gone"))
    up = bring_up(session, gone, QUICK)
    assert Spawned(arm=gone.id, process=0, repeat=0) in up
    assert isinstance(ends(up)[gone.id], Crashed)
    assert not session.is_running(gone.id)
    assert list(session.build(gone.id)) == []
    assert said(session.build("quick"), Ready)


def test_a_reference_whose_interpreter_is_gone_leaves_nothing_to_start_for(
    session: Session, tmp_path: pathlib.Path
) -> None:
    gone = msgspec.structs.replace(BASELINE, python=str(tmp_path / "gone"))
    up = [*session.make_reference(gone, 0), *session.start([(QUICK, 0)])]
    assert list(ends(up)) == [REFERENCE]
    assert not session.is_running("quick")


def test_scratch_space_on_a_full_disk_is_the_users_to_put_right(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pathlib.Path, "mkdir", refuse)
    with pytest.raises(NotWritableError, match="No space left on device"):
        list(session.make_reference(BASELINE, 0))


def may_time(file: pathlib.Path) -> bool:
    """Say whether a neighbour who times would be let in."""
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_nothing_works_while_a_neighbour_may_time(
    supervisor: Supervisor, site: RunConfig, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "turns"
    session = Session(supervisor, site, Guard(), turns=HostLock(file))
    works = [
        session.make_reference(BASELINE, 0),
        session.start([(QUICK, 0)]),
        session.ask(REFERENCE, "peaks"),
        session.build("quick"),
    ]
    for run_events in works:
        # What is told last is told when nothing works any more: whoever hears it may pause.
        told = [(run_event, may_time(file)) for run_event in run_events]
        assert not any(
            free
            for run_event, free in told
            if not (isinstance(run_event, Ended) or said([run_event], Ready, "quick"))
        )
        assert may_time(file) == (run_events is not works[0]), (
            "the reference worker works on until all have been started"
        )
    assert all(may_time(file) for _ in session.visit("quick", 2, 1))
    assert not any(may_time(file) for _ in session.stop())
    assert may_time(file)
