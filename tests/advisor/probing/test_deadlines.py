"""Deadlines of a supervisor with the real clock."""

from __future__ import annotations

import pathlib
import time

import msgspec
from sessions import expect_failure
from worker_scripts import DEADLINES, messages_until_end, next_message, start

from advisor.probing.supervisor import Supervisor
from probes.wire.events import Engagement


def test_a_deadline_needs_no_message(tmp_path: pathlib.Path) -> None:
    with Supervisor(msgspec.structs.replace(DEADLINES, start=0.1)) as supervisor:
        worker = start(supervisor, tmp_path, "time.sleep(3600)\n")
        (outcome,) = messages_until_end(supervisor, worker)
    expect_failure(outcome, "timed-out")


def test_a_deadline_may_be_months_away(tmp_path: pathlib.Path) -> None:
    with Supervisor(msgspec.structs.replace(DEADLINES, imports=3e6)) as supervisor:
        worker = start(
            supervisor,
            tmp_path,
            "enter_phase('import')\ntime.sleep(0.2)\n"
            "send_event('engagement', share=1.0, proof='', facts={})",
        )
        next_message(supervisor, Engagement)
        assert worker.deadline > time.monotonic() + 2e6
