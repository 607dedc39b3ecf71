"""Known allocations are measured in real processes, whose peaks nothing else has changed."""

from __future__ import annotations

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
