"""Known allocations are measured in real processes, whose peaks nothing else has changed."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from advisor.ask import rubric_files
from probes.runtime import process

MEBIBYTE = 1 << 20
ROOT = rubric_files.probes_directory().parent
GROWTH = """
import sys
sys.path.insert(0, {root!r})
from probes.runtime import process
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
    grown = int(
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, check=True, text=True
        ).stdout
    )
    assert abs(grown - size) <= 8 * MEBIBYTE


def test_without_a_driver_nothing_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "DRIVER", "libnobody-has-this.so.1")
    with process.hold(MEBIBYTE, "cuda"):
        pass


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
