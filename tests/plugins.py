"""Plugin of the tests: which ones run and in what order, and what keeps their processes quick."""

from __future__ import annotations

import gc
import itertools
import os
import pathlib
import signal
import sys

import pytest

# A shell starts background jobs with these signals ignored. Processes that the tests start and
# interrupt would inherit that.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
# It saves collections that find little: values and screens of tests live as long as their test.
gc.set_threshold(50_000, 20, 50)
# It saves each of a thousand processes to compile the sources again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# It saves processors: threads of OpenMP sleep while they wait, and Inductor starts no processes
# that import torch to compile a few lines, and compiles no program for each instruction set to see
# whether the compiler knows it. The speed of stacks is no subject of the tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
#: The folder whose tests use real stacks.
STACKS = pathlib.Path(__file__).parent / "stacks"
#: Fixtures with which tests start workers or commands. `fake_probes` is none: it copies files, and
#: the screens and drafts that use it start no more than an interpreter to look at its packages.
STARTING = {"command_server", "fake_runner", "module_context", "open_session", "own_context"}
STARTING |= {"recorded_home", "run_commands", "scripts", "waiting_host"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="update the expected screens")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return three more than the processors: it saves the half of the time that slow tests wait."""
    return (os.cpu_count() or 1) + (1 if config.option.markexpr == "not slow" else 3)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order of the files: pytest-xdist would start those with few tests last."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests, begin with slow files, real stacks and others in turn, and leave out long tests.

    Marks are written only where neither folder nor fixtures show them, as at a simulation that
    takes seconds. A file takes one worker of pytest-xdist, so the longest files must not be the
    last ones. Real stacks keep the processors busy, and the other slow tests mostly wait. `-m` may
    name the long tests.
    """
    files: dict[pathlib.Path, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: item.path):
        files.setdefault(item.path, []).append(item)
        fixtures = set(getattr(item, "fixturenames", ()))
        is_in_stacks = STACKS in item.path.parents
        if is_in_stacks or "stack_server" in fixtures:
            item.add_marker("stack")
        if is_in_stacks and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))
        if item.get_closest_marker("stack") or fixtures & STARTING:
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
    """Refuse test modules that import a stack; keep the collector from the objects that stay."""
    gc.collect()
    gc.freeze()
    imported = sys.modules.keys() & {"torch", "transformers", "onnx", "onnxruntime", "pandas"}
    if imported:
        raise pytest.UsageError(f"collecting tests imported {sorted(imported)}: see tests/lazy.py")
