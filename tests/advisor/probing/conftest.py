"""Fixtures: a session of resident workers with fake stacks in real processes."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator

import builders
import pytest
import sessions
from worker_scripts import DEADLINES, Clock, ScriptedWorkers

from advisor.domain.machine import Cpu
from advisor.probing.run_config import RunConfig
from advisor.probing.session import WorkerSession
from advisor.probing.supervisor import Supervisor


@pytest.fixture
def scripts(tmp_path: pathlib.Path) -> Iterator[ScriptedWorkers]:
    """Scripts that act as workers, under a supervisor whose clock the test advances."""
    clock = Clock()
    with Supervisor(DEADLINES, clock=clock) as supervisor:
        yield ScriptedWorkers(supervisor, tmp_path, clock)


@pytest.fixture
def run_config(tmp_path: pathlib.Path, fake_probes: pathlib.Path) -> RunConfig:
    cpu = Cpu(model="fake", physical_cores=3, usable_processors=2, memory_bytes=1 << 30)
    asked = {"batch_sizes": (2, 4), "seed": 7, "input_tokens": 5}
    machine = builders.machine(cpu=cpu)
    return sessions.run_config(tmp_path, fake_probes, asked=asked, machine=machine)


@pytest.fixture
def open_session(run_config: RunConfig) -> Iterator[Callable[..., WorkerSession]]:
    """A function that opens a session with these monitors, until the test ends."""
    with contextlib.ExitStack() as opened:
        yield lambda *monitors: opened.enter_context(WorkerSession(run_config, *monitors))


@pytest.fixture
def session(open_session: Callable[..., WorkerSession]) -> WorkerSession:
    return open_session()
