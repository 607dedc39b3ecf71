"""What a worker reports about its environment, its caches and its memory."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
import threading
import types
from importlib import metadata
from typing import Any

import psutil
import pytest
import workers
from forks import run_command

from advisor.ask import rubric_files
from probes import files
from probes.runtime import environment, process, reference
from probes.runtime.cells import Job


@pytest.mark.parametrize(("role", "is_reported"), [("measure", True), ("reference", False)])
def test_only_a_measured_worker_reports_its_environment(
    role: str, is_reported: bool, fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    workflow = fake_probes / "workflows" / "pytorch_eager.py"
    request = workers.make_request(workflow, tmp_path, role=role)
    answer = workers.run_worker(request, tmp_path / "control", "stop\n", probes=fake_probes)
    (imported,) = answer.events_of("imported")
    assert (imported["environment"] is not None) == is_reported
    if is_reported:
        assert imported["environment"]["interpreter"] == sys.executable


def test_packages_are_those_that_the_standard_library_finds() -> None:
    found = environment.read_environment()
    versions, providers = found.distributions, found.providers
    assert found.python == "{}.{}".format(*sys.version_info)
    assert versions == {
        each.metadata["Name"]: each.version for each in [*metadata.distributions()][::-1]
    }
    # Before Python 3.12 the standard library leaves out extension modules; later it adds folders.
    expected = metadata.packages_distributions()
    imported = expected.keys() & sys.modules.keys()
    assert "msgspec" in imported
    assert {name: set(providers[name]) for name in imported} == {
        name: set(expected[name]) for name in imported
    }


def test_the_bytes_of_all_files_are_counted(tmp_path: pathlib.Path) -> None:
    (tmp_path / "inductor" / "ab").mkdir(parents=True)
    (tmp_path / "inductor" / "ab" / "kernel.cpp").write_bytes(b"x" * 700)
    (tmp_path / "model.pt2").write_bytes(b"x" * 50)
    (tmp_path / "link").symlink_to(tmp_path)
    assert files.count_bytes(tmp_path) == 750
    assert files.count_bytes(tmp_path / "absent") == files.count_bytes(tmp_path / "link") == 0


@pytest.mark.parametrize(
    ("device", "most_seconds", "waits"),
    [("cpu", 60.0, True), ("cpu", 0.1, False), ("cuda", 60.0, False)],
)
def test_calls_on_the_cpu_wait_for_those_of_another_worker(
    device: str, most_seconds: float, waits: bool, tmp_path: pathlib.Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(process, "MOST_WAITING_SECONDS", most_seconds)
    request: Any = types.SimpleNamespace(device=device, shared_directory=str(tmp_path))
    order = []

    def call() -> None:
        with process.exclusive_calls(request):
            order.append("second")

    other = threading.Thread(target=call)
    with process.exclusive_calls(request):
        other.start()
        other.join(0.3 if waits else None)
        order.append("first")
    other.join()
    assert order == (["first", "second"] if waits else ["second", "first"])


@pytest.mark.timeout(20)
def test_a_lock_that_another_worker_replaced_is_refused(tmp_path: pathlib.Path) -> None:
    request: Any = types.SimpleNamespace(device="cpu", shared_directory=str(tmp_path))
    lock, kept = tmp_path / "calls.lock", tmp_path / "kept"
    kept.write_text("text", encoding="utf-8")
    for is_link in (False, True):
        if is_link:
            lock.symlink_to(kept)
        else:
            os.mkfifo(lock)
        with pytest.raises(OSError, match="lock"), process.exclusive_calls(request):
            pytest.fail("the lock is no plain file")
        lock.unlink()
    assert kept.read_text(encoding="utf-8") == "text"


MEBIBYTE = 1 << 20
ROOT = rubric_files.probes_directory().parent
GROWTH = """
import sys
sys.path.insert(0, {root!r})
from probes.runtime import process, reference
from probes.runtime.cells import Job
before = process.peak_rss_bytes()
{action}
print(process.peak_rss_bytes() - before)
"""


@pytest.mark.parametrize(
    "action",
    [
        "with process.hold({size}, 'cpu'):\n    pass",
        "kept = bytearray({size}); kept[::4096] = b'1' * len(kept[::4096])",
    ],
    ids=["outside every allocator", "by Python's own"],
)
def test_a_known_allocation_is_measured(action: str) -> None:
    size = 256 * MEBIBYTE
    script = GROWTH.format(root=str(ROOT), action=action.format(size=size))
    grown = int(run_command([sys.executable, "-c", script]).stdout)
    assert abs(grown - size) <= 8 * MEBIBYTE


def test_without_a_driver_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "DRIVER", "libnobody-has-this.so.1")
    before = psutil.Process().memory_info().rss
    with process.hold(256 * MEBIBYTE, "cuda"):
        assert psutil.Process().memory_info().rss - before < 128 * MEBIBYTE


@dataclasses.dataclass
class Allocator:
    """PyTorch's allocator on a GPU: bytes in use, of graphs, and free ones that it keeps."""

    used: int = 0
    free: int = 0
    is_used: bool = True

    @property
    def cuda(self) -> Allocator:
        return self

    def is_initialized(self) -> bool:
        return self.is_used

    def empty_cache(self) -> None:
        self.free = 0

    def memory_reserved(self) -> int:
        return self.used + self.free


def test_memory_that_a_build_keeps_is_counted_without_free_and_other_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = Allocator(used=100, free=50)
    monkeypatch.setitem(sys.modules, "torch", device)
    kept = process.KeptMemory()
    with kept.counting():
        device.used, device.free = 130, 70
    device.used += 1000  # inputs
    with kept.counting():
        device.used += 7
    assert kept.bytes == 37


@pytest.mark.parametrize("module", [None, Allocator(is_used=False)])
def test_memory_that_a_build_keeps_is_not_known_without_a_gpu(
    module: Allocator | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", module)
    kept = process.KeptMemory()
    for _ in range(2):
        with kept.counting():
            pass
    assert kept.bytes is None


@pytest.mark.parametrize(
    ("device", "threads", "left"), [("cpu", 8, 4), ("cpu", 1, 1), ("cuda", 8, 8)]
)
def test_the_reference_leaves_half_of_the_processors_of_a_cpu_to_builds(
    device: str, threads: int, left: int, tmp_path: pathlib.Path
) -> None:
    applied = []
    workflow: Any = types.SimpleNamespace(settings=lambda request: applied.append(request.threads))
    request = workers.make_request(tmp_path / "eager.py", tmp_path, device=device, threads=threads)
    job = reference.leave_processors(Job(request, channel=None, workflow=workflow))  # type: ignore[arg-type]
    assert job.request.threads == left
    assert applied == ([left] if device == "cpu" else [])
