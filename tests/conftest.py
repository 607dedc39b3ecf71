from __future__ import annotations

import datetime as dt
import fcntl
import gc
import itertools
import os
import pathlib
import re
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator

import pytest
import sessions
from forks import ForkServer, RunScript
from recorded_runs import make_run
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from advisor.ask import catalogue_files
from advisor.ask.context import Context
from advisor.store.runs import Run
from advisor.store.store import Store

FAKES = pathlib.Path(__file__).parent / "fakes"
IGNORED = shutil.ignore_patterns("__pycache__")
#: What a test module has that imports a stack here or in a server of forks; see `tests/lazy.py`.
IMPORTS_TORCH = re.compile(
    r'lazy import|reference_cases|run_script|stack_server|importorskip\("(torch|onnx|transformers)"'
    "|    import torch"
)

# A shell starts background jobs with these signals ignored. Processes that the tests start and
# interrupt would inherit that.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


# Values and screens of tests live as long as their test: collections find little and take a tenth
# of the time.
gc.set_threshold(50_000, 20, 50)
# The tests start a thousand processes, which would each compile the sources again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# The speed of stacks is no subject of the tests: threads of OpenMP sleep while they wait, and
# Inductor starts no further processes, which would import torch to compile a few lines, and does
# not compile a program for each instruction set to see whether the compiler knows it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return three more than the processors, because slow tests wait half of the time."""
    return (os.cpu_count() or 1) + (1 if config.option.markexpr == "not slow" else 3)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="update the expected screens")


class FewImports(LoadFileScheduling):  # type: ignore[misc] # pytest-xdist has no types
    """Distributes files; two processes run all files that import torch, which takes seconds."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._scopes: dict[str, str] = {}
        self._turns = itertools.cycle(("torch 1", "torch 2"))

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if file not in self._scopes:
            code = (self.config.rootpath / file).read_text(encoding="utf-8")
            self._scopes[file] = next(self._turns) if IMPORTS_TORCH.search(code) else file
        return self._scopes[file]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FewImports | None:
    return FewImports(config, log) if config.option.dist == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order of the files: pytest-xdist would start those with few tests last."""
    config.option.loadscopereorder = False
    config.pluginmanager.register(ImportedModules())


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Collect different files first in each process: the first one to see a file compiles it."""
    report = yield
    if report.result and isinstance(collector, pytest.Directory):
        number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        start = len(report.result) * number // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        report.result = [*report.result[start:], *report.result[:start]]
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with slow files, those with real stacks and others in turn; leave out long tests.

    A file takes one worker of pytest-xdist, so the longest files must not be the last ones. Real
    stacks keep the processors busy, and the other slow tests mostly wait. `-m` may name the long
    tests.
    """
    files: dict[pathlib.Path, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: item.path):
        files.setdefault(item.path, []).append(item)
        if item.get_closest_marker("stack"):
            item.add_marker("slow")
    marked = {
        path: {marker.name for item in tests for marker in item.iter_markers()}
        for path, tests in files.items()
    }
    stacks = [path for path in files if "stack" in marked[path]]
    others = [path for path in files if "stack" not in marked[path]]
    others.sort(key=lambda path: "slow" not in marked[path])
    pairs = itertools.zip_longest(stacks, others)
    items[:] = [item for pair in pairs for path in pair if path for item in files[path]]
    if "long" in config.option.markexpr:
        return
    long_tests = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long_tests)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_collection_finish() -> None:
    """Refuse modules that import a stack; keep the collector from the objects that stay."""
    gc.collect()
    gc.freeze()
    imported = sys.modules.keys() & {"torch", "transformers", "onnx", "onnxruntime", "pandas"}
    if imported:
        raise pytest.UsageError(f"collecting tests imported {sorted(imported)}: see tests/lazy.py")


class ImportedModules:
    """Keeps the collector from what a test imports, such as a stack: blocks of calls collect."""

    #: A stack has more modules than this.
    MANY = 200

    def __init__(self) -> None:
        self._frozen = len(sys.modules)

    def pytest_runtest_teardown(self) -> None:
        if len(sys.modules) > self._frozen + self.MANY:
            gc.collect()
            gc.freeze()
            self._frozen = len(sys.modules)


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
    sessions.shorten(
        catalogue / "presets.toml",
        ("visit_seconds = 0.05", "visit_seconds = 0.016"),
        ("cpu = 0.2, cuda = 0.3", "cpu = 0.01, cuda = 0.01"),
        ("measure = 120", "measure = 3"),
        ("measuring_seconds = 120", "measuring_seconds = 4"),
        ("= 40\nnew_", "= 0.4\nnew_"),
        ("\nsample_seconds = 0.5", "\nsample_seconds = 0.01"),
        # Each repetition starts further workers; runs with the standard budget have them.
        ("repeats = 1\n", "repeats = 0\n"),
    )
    # Outputs are compared in as few calls as are enough.
    sessions.shorten(catalogue / "accuracy.toml", ("\nseconds = 0.5\n", "\nseconds = 0.01\n"))
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
