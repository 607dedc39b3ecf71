"""Memory that cannot be what it is said to be is left open, with the reason; what is told is always possible."""

from __future__ import annotations

import random
from typing import Any

import builders
import msgspec
import nvml
import pytest

from advisor.domain.run_events import DeviceMemory, MemoryChecked
from advisor.domain.worker_events import MemoryRead
from advisor.measure import memory
from advisor.probing.device_memory import MemoryWatch, above

MEBIBYTE = 1 << 20
TOTAL = 80 << 30
DEVICE = DeviceMemory(
    arm="compiled",
    process=0,
    before_bytes=1 << 30,
    peak_bytes=900 * MEBIBYTE,
    resident_bytes=700 * MEBIBYTE,
    serving_bytes=800 * MEBIBYTE,
    total_bytes=TOTAL,
)
HOST = MemoryRead(
    peak_rss_bytes=300, device_allocated_bytes=200 * MEBIBYTE, device_reserved_bytes=256 * MEBIBYTE
)


def summarise(
    device: DeviceMemory | None = DEVICE,
    host: MemoryRead | None = HOST,
    checked: MemoryChecked | None = None,
) -> Any:
    return memory.summarise_memory(builders.process(device_memory=device, memory=host), checked)


def seen(mebibytes: float | None) -> MemoryChecked:
    return MemoryChecked(
        allocated_bytes=256 * MEBIBYTE,
        seen_bytes=None if mebibytes is None else round(mebibytes * MEBIBYTE),
    )


def test_what_can_be_is_told_with_what_serving_takes_and_pytorchs_own_count() -> None:
    found = summarise(checked=seen(256))
    assert (found.peak, found.serving, found.torch_reserved) == (
        900 * MEBIBYTE,
        800 * MEBIBYTE,
        256 * MEBIBYTE,
    )
    assert "NVML" in found.source


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"peak_bytes": None}, "did not say"),
        ({"peak_bytes": 0}, "in some containers"),
        ({"peak_bytes": -5}, "in some containers"),
        ({"peak_bytes": TOTAL + 1}, "more than it has"),
        ({"peak_bytes": 255 * MEBIBYTE}, "less than PyTorch alone"),
    ],
)
def test_what_cannot_be_is_left_open_and_said(changes: dict[str, Any], words: str) -> None:
    found = summarise(msgspec.structs.replace(DEVICE, **changes))
    assert (found.peak, found.serving) == (None, None)
    assert found.source.startswith("not known: ")
    assert words in found.source


@pytest.mark.parametrize(
    ("mebibytes", "right"),
    [
        (256, True),
        (248, True),
        (264, True),
        (247.9, False),
        (264.1, False),
        (0, False),
        (None, False),
    ],
)
def test_a_device_that_has_not_seen_a_known_allocation_is_not_believed(
    mebibytes: float | None, right: bool
) -> None:
    found = summarise(checked=seen(mebibytes))
    assert (found.peak is not None) is right
    assert right or "an allocation of 256 MiB was" in found.source


def fuzz(chance: random.Random) -> Any:
    """Return one reply of a management library that lies, fails, or answers; what public reports have shown, and worse."""
    kind = chance.randrange(8)
    if kind == 0:
        raise nvml.NVMLError("Unknown Error")
    gibibytes = chance.uniform(1, 79)
    values = [
        0,
        -chance.randrange(1 << 40),
        chance.randrange(1 << 64),
        365455 * MEBIBYTE,
        18446744073709551615,
        int(gibibytes * (1 << 30)),
    ]
    return values[min(kind - 1, 5)]


def test_a_thousand_replies_of_a_library_that_lies_give_no_figure_that_cannot_be() -> None:
    chance = random.Random(12)
    told = 0
    for _ in range(1000):
        watch = MemoryWatch(nvml.UUID, nvml.Nvml(used=lambda: fuzz(chance), total=TOTAL))
        before, peak, after = (watch.used_bytes() for _ in range(3))
        device = msgspec.structs.replace(
            DEVICE,
            before_bytes=before,
            peak_bytes=above(peak, before),
            resident_bytes=above(after, before),
            total_bytes=watch.total_bytes,
        )
        found = summarise(device)
        assert found.peak is None or HOST.device_reserved_bytes <= found.peak <= TOTAL
        assert found.peak is not None or found.source.startswith("not known: ")
        told += found.peak is not None
    assert told > 20, "what can be is not thrown away with the rest"
