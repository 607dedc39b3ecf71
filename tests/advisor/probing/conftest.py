"""Fixtures: a session of resident workers with fake stacks in real processes."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import builders
import pytest
import sessions

from advisor.domain.machine import Cpu
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor(builders.shipped_catalogue().presets.deadlines) as supervisor:
        yield supervisor


@pytest.fixture
def run_config(tmp_path: pathlib.Path, fake_probes: pathlib.Path) -> RunConfig:
    cpu = Cpu(model="fake", physical_cores=3, usable_processors=2, memory_bytes=1 << 30)
    asked = {"batch_sizes": (2, 4), "seed": 7, "input_tokens": 5}
    machine = builders.machine(cpu=cpu)
    return sessions.run_config(tmp_path, fake_probes, asked=asked, machine=machine)


@pytest.fixture
def session(supervisor: Supervisor, run_config: RunConfig) -> Session:
    return Session(supervisor, run_config, ConditionsMonitor())
