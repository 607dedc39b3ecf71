"""A recorded run of pretend workflows, and apps that show it."""

from __future__ import annotations

import datetime as dt
import os
import pathlib
import random
import sys
from collections.abc import Callable

import pytest

from advisor.context import Context
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store import HOME_VARIABLE, Run, Store
from advisor.tui.run.host_process import Host

FAKES = pathlib.Path(__file__).parents[1] / "fakes"


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer's terminal says about colours changes no test."""
    for name in [
        name
        for name in os.environ
        if name.startswith("TEXTUAL") or name in {"NO_COLOR", "COLORTERM"}
    ]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def tui_world(
    tmp_path_factory: pytest.TempPathFactory, fake_probes: pathlib.Path, fake_rubric: pathlib.Path
) -> Context:
    """A world in which only the pretend workflows exist."""
    home = tmp_path_factory.mktemp("home")
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return Context(
        environment={**environment, HOME_VARIABLE: str(home)},
        store=Store(home),
        now=lambda: dt.datetime(2026, 11, 21, 12, 0, tzinfo=dt.timezone.utc),
        random=random.Random(0),
        probes=fake_probes,
        rubric=fake_rubric,
    )


@pytest.fixture(scope="session")
def recorded(tui_world: Context) -> Run:
    """A finished run: `quick` is four times as fast as the baseline, `alike` as fast, and one crashed."""
    answers = Answers(
        batch_sizes="1,2", budget="4", workflows="quick,alike,misbehaving/segfault", gpu="cpu"
    )
    run = prepare(answers, tui_world)
    for _ in execute(run, tui_world):
        pass
    return run


@pytest.fixture
def fake_host(fake_probes: pathlib.Path, fake_rubric: pathlib.Path) -> Callable[[Run], Host]:
    """A starter of processes that work on runs of pretend workflows."""
    command = (sys.executable, str(FAKES / "host.py"), str(fake_probes), str(fake_rubric))
    return lambda run: Host(run, command)
