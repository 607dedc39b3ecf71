"""Known allocations are measured in real processes, whose peaks nothing else has changed."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import get_args

import pytest
import workers

from advisor.ask import rubric_files
from probes.runtime import memory
from probes.wire.outcome import Phase

MEBIBYTE = 1 << 20
ROOT = rubric_files.probes_directory().parent
GROWTH = """
import sys
sys.path.insert(0, {root!r})
from probes.runtime import memory
before = memory.peak_rss_bytes()
{action}
print(memory.peak_rss_bytes() - before)
"""


@pytest.mark.parametrize(
    "action",
    [
        "with memory.hold({size}, 'cpu'):\n    pass",
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
    monkeypatch.setattr(memory, "DRIVER", "libnobody-has-this.so.1")
    with memory.hold(MEBIBYTE, "cuda"):
        pass


def test_the_reference_worker_holds_and_releases_memory_before_it_measures_peaks(
    fake_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    request = workers.make_request(
        fake_probes / "workflows" / "pytorch_eager.py", tmp_path, role="reference", batch_sizes=[2]
    )
    answer = workers.run_worker(
        request,
        tmp_path / "control",
        f"allocate {MEBIBYTE}\nallocate 0\npeaks\nbuild\noutputs\n",
        probes=fake_probes,
    )
    assert answer.failure is None, answer.log
    assert sum(event["event"] == "ready" for event in answer.events) == 4
    phases = [event["phase"] for event in answer.events if event["event"] == "phase_started"]
    assert set(phases) <= {*get_args(Phase)}
    first, last = phases.index("measure"), len(phases) - phases[::-1].index("measure")
    assert phases[first:last] == ["measure"] * 3, "two allocations and the peaks"
    assert set(phases[last:]) == {"load", "correctness"}, "the model and its outputs follow"
