"""Contexts and runs for the terminal program, with fake workflows."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import inspect
import os
import pathlib
import shutil
import sys

import pytest
import sessions
from builders import replace
from onscreen import opened_app
from recorded_runs import make_run
from textual._compositor import Compositor

from advisor.ask.context import Context
from advisor.store.files import HOME_VARIABLE
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.tui import actions
from advisor.tui.app import AdvisorApp
from advisor.tui.followed_run import RunnerProcess, StartRunner
from advisor.tui.launch import LaunchOptions

FAKES = pathlib.Path(__file__).parents[1] / "fakes"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Run each test that is a coroutine in an event loop of its own."""
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        pyfuncitem.obj = lambda **fixtures: asyncio.run(test(**fixtures))


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the colour settings of the developer's terminal."""
    for name in list(os.environ):
        if name.startswith("TEXTUAL") or name in {"NO_COLOR", "COLORTERM"}:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def drawn_when_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw a screen when a test reads or waits for it, not at each change: no terminal shows it.

    The tests in a real terminal draw in a process of their own.
    """

    def forget_changes(self: Compositor, **_: object) -> None:
        self._dirty_regions.clear()

    monkeypatch.setattr(Compositor, "render_update", forget_changes)


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start runs without a question, however busy the machine of the tests is."""
    monkeypatch.setattr(actions, "find_quiet_problems", lambda *_: ())


@pytest.fixture(scope="session")
def tui_context(
    tmp_path_factory: pytest.TempPathFactory,
    fake_probes: pathlib.Path,
    fake_catalogue: pathlib.Path,
) -> Context:
    """A context whose catalogue has only the fake workflows."""
    home = tmp_path_factory.mktemp("home")
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return sessions.fake_context(
        home,
        fake_probes,
        fake_catalogue,
        environment={**environment, HOME_VARIABLE: str(home)},
        now=lambda: dt.datetime(2026, 11, 21, 12, 0, tzinfo=dt.timezone.utc),
    )


@pytest.fixture
def context(tui_context: Context, tmp_path: pathlib.Path) -> Context:
    """The context with a store of the test's own."""
    home = tmp_path / "stored"
    environment = {**tui_context.environment, HOME_VARIABLE: str(home)}
    return replace(tui_context, environment=environment, store=Store(home))


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run made by hand."""
    return make_run(Store(tmp_path_factory.mktemp("sample")), finished=True)


@pytest.fixture
def app(context: Context) -> AdvisorApp:
    """The app with a store of the test's own; it opens nothing."""
    return AdvisorApp(LaunchOptions(), context)


@pytest.fixture
def sample_app(tui_context: Context, sample_run: Run) -> AdvisorApp:
    return opened_app(tui_context, sample_run)


@pytest.fixture
def recorded_app(tui_context: Context, recorded: Run) -> AdvisorApp:
    return opened_app(tui_context, recorded)


@pytest.fixture(scope="session")
def recorded(tui_context: Context, recorded_home: pathlib.Path) -> Run:
    """The run of `recorded_home` in the store of the screens."""
    (directory,) = (recorded_home / "runs").glob("*-*")
    run = tui_context.store.run(directory.name)
    shutil.copytree(directory, run.directory)
    return run


@pytest.fixture
def fake_runner(fake_probes: pathlib.Path, fake_catalogue: pathlib.Path) -> StartRunner:
    """Return a function that starts the runner of a run of fake workflows."""
    command = (sys.executable, str(FAKES / "runner.py"), str(fake_probes), str(fake_catalogue))
    return functools.partial(RunnerProcess, command=command)


@pytest.fixture
def waiting_host() -> StartRunner:
    """Return a function that starts a process in place of the runner, until the test ends."""
    command = (sys.executable, "-c", "import sys; sys.stdin.read()")
    return functools.partial(RunnerProcess, command=command)
