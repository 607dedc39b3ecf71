from __future__ import annotations

import datetime as dt
import fcntl
import itertools
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator

import pytest
import sessions
from forks import ForkServer, RunScript
from recorded_runs import make_run

from advisor.ask import catalogue_files
from advisor.ask.context import Context
from advisor.store.runs import Run
from advisor.store.store import Store

pytest_plugins = ["plugins"]
FAKES = pathlib.Path(__file__).parent / "fakes"
IGNORED = shutil.ignore_patterns("__pycache__")
#: Each repetition starts further workers: only runs with the standard budget have them.
SHORT = """
visit_seconds = 0.016
warmup_seconds = { cpu = 0.01, cuda = 0.01 }
budgets.quick.repeats = 0
budgets.standard = { measuring_seconds = 4, sustained_seconds = 0.4 }
deadlines.measure = 3
quiet.sample_seconds = 0.01
"""
MakeOnce = Callable[[str, Callable[[pathlib.Path], object]], pathlib.Path]


@pytest.fixture(scope="session")
def make_once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """Return a function that returns a directory, which no test changes.

    The first process of pytest-xdist fills the directory, and the others wait for it.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def make(name: str, fill: Callable[[pathlib.Path], object]) -> pathlib.Path:
        original = shared / f"original-{name}"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not original.exists():
                staging = tmp_path_factory.mktemp(name) / "filled"
                fill(staging)
                staging.rename(original)
        return original

    return make


@pytest.fixture(scope="session")
def stack_server() -> Iterator[ForkServer]:
    """A server whose forks have imported torch and its compiler."""
    server = ForkServer("torch._inductor.compile_fx", "transformers", "workers")
    yield server
    server.close()


@pytest.fixture(scope="session")
def run_script(stack_server: ForkServer) -> RunScript:
    """Return a function that runs scripts with real and fake stacks in processes of their own."""
    return stack_server.run_script


@pytest.fixture
def here(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The working directory of a test, which is its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def home(tmp_path: pathlib.Path) -> pathlib.Path:
    """The directory with the runs of a test."""
    return tmp_path / "home"


@pytest.fixture
def made_run(home: pathlib.Path) -> Run:
    """A finished run that is made by hand, alone in the home of a test."""
    return make_run(Store(home), finished=True)


def fill_fake_probes(probes: pathlib.Path) -> None:
    replaced = shutil.ignore_patterns("workflows", "__pycache__")
    shutil.copytree(catalogue_files.probes_directory(), probes, ignore=replaced)
    shutil.copytree(FAKES / "probes" / "workflows", probes / "workflows", ignore=IGNORED)
    (probes / "workflows" / "__init__.py").write_text('"""Simulated workflows."""\n')


@pytest.fixture(scope="session")
def fake_probes(make_once: MakeOnce) -> pathlib.Path:
    """The real worker and harness with simulated workflows."""
    return make_once("probes", fill_fake_probes)


@pytest.fixture(scope="session")
def fake_catalogue(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The shipped catalogue with fake workflows, short calls, deadlines and standard budget."""
    catalogue = tmp_path_factory.mktemp("fakes") / "catalogue"
    shutil.copytree(catalogue_files.catalogue_directory(), catalogue, ignore=IGNORED)
    shutil.copy(FAKES / "catalogue" / "workflows.toml", catalogue / "workflows.toml")
    sessions.change_fields(catalogue / "presets.toml", SHORT)
    # Outputs are compared in as few calls as are enough.
    sessions.change_fields(catalogue / "accuracy.toml", "repeats.seconds = 0.01")
    return catalogue


@pytest.fixture(scope="session")
def recorded_home(
    fake_probes: pathlib.Path,
    fake_catalogue: pathlib.Path,
    make_once: MakeOnce,
    tmp_path_factory: pytest.TempPathFactory,
) -> pathlib.Path:
    """A directory with one finished run of fake workflows.

    `quick` is four times as fast as the baseline, `alike` is as fast as the baseline, and
    `misbehaving/segfault` crashes.
    """

    def record(home: pathlib.Path) -> None:
        context = sessions.fake_context(home, fake_probes, fake_catalogue, seed=1)
        workflows = "quick,alike,misbehaving/segfault"
        short = sessions.short_options(workflows, batch_sizes="1,2", budget="2s")
        sessions.execute_run(context, short)

    copy = tmp_path_factory.mktemp("recorded") / "home"
    return pathlib.Path(shutil.copytree(make_once("recorded", record), copy))


@pytest.fixture
def context(home: pathlib.Path, fake_probes: pathlib.Path, fake_catalogue: pathlib.Path) -> Context:
    """The context of a store of runs, with simulated workflows."""
    counter = itertools.count()
    return sessions.fake_context(
        home,
        fake_probes,
        fake_catalogue,
        environment=os.environ,
        now=lambda: dt.datetime(2026, 11, 21, 12, 0, next(counter) % 60, tzinfo=dt.timezone.utc),
    )
