"""Tests of summarising memory and of discarding implausible figures."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import builders
import msgspec
import nvml
import pytest

from advisor.decide import arm_figures
from advisor.domain.run_events import DeviceMemory, MemoryChecked
from advisor.probing.device_memory import DeviceMemoryMonitor, increase
from probes.wire.events import MemoryRead

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
    last: MemoryRead | None = None,
) -> Any:
    process = builders.process(device_memory=device, warm_memory=host, memory=last or host)
    return arm_figures.summarise_memory(process, checked)


def checked_allocation(mebibytes: float | None) -> MemoryChecked:
    return MemoryChecked(
        allocated_bytes=256 * MEBIBYTE,
        seen_bytes=None if mebibytes is None else round(mebibytes * MEBIBYTE),
    )


def test_plausible_memory_has_peak_serving_and_reserved_bytes() -> None:
    found = summarise(checked=checked_allocation(256))
    assert (found.peak, found.serving, found.torch_reserved) == (
        900 * MEBIBYTE,
        800 * MEBIBYTE,
        256 * MEBIBYTE,
    )
    assert "NVML" in found.source


@pytest.mark.parametrize(
    ("host", "checked"),
    [
        (HOST, None),
        (dataclasses.replace(HOST, device_reserved_bytes=None), checked_allocation(256)),
    ],
)
def test_memory_of_the_host_is_no_memory_of_a_gpu(
    host: MemoryRead, checked: MemoryChecked | None
) -> None:
    found = summarise(device=None, host=host, checked=checked)
    assert found.peak is None
    assert found.source == arm_figures.PENDING_SOURCE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"peak_bytes": None}, "does not report"),
        ({"peak_bytes": 0}, "in some containers"),
        ({"peak_bytes": -5}, "in some containers"),
        ({"peak_bytes": TOTAL + 1}, "more memory than the device has"),
        ({"peak_bytes": 255 * MEBIBYTE}, "less than PyTorch alone"),
    ],
)
def test_implausible_memory_is_null_with_the_reason(changes: dict[str, Any], reason: str) -> None:
    found = summarise(msgspec.structs.replace(DEVICE, **changes))
    assert (found.peak, found.serving) == (None, None)
    assert found.source.startswith("not known: ")
    assert reason in found.source


@pytest.mark.parametrize(
    ("held", "peak"), [(56, 700 + 200), (256, 700), (None, 700)], ids=["released", "kept", "unread"]
)
def test_what_the_allocator_released_before_the_end_belongs_to_the_peak(
    held: int | None, peak: int
) -> None:
    freed = msgspec.structs.replace(DEVICE, peak_bytes=700 * MEBIBYTE, source="freed")
    held_bytes = None if held is None else held * MEBIBYTE
    host = dataclasses.replace(HOST, device_held_bytes=held_bytes)
    assert summarise(freed, host).peak == peak * MEBIBYTE
    assert summarise(DEVICE, host).peak == DEVICE.peak_bytes


@pytest.mark.parametrize("source", ["grown", "freed"])
def test_batch_sizes_that_were_tried_later_are_no_part_of_the_peak(source: Any) -> None:
    device = msgspec.structs.replace(DEVICE, source=source)
    last = dataclasses.replace(HOST, device_reserved_bytes=1800 * MEBIBYTE)
    found = summarise(device, last=last)
    assert (found.peak, found.torch_reserved) == (900 * MEBIBYTE, 256 * MEBIBYTE)


def test_a_worker_that_released_memory_may_free_less_at_its_end_than_it_had_reserved() -> None:
    freed = msgspec.structs.replace(DEVICE, peak_bytes=100 * MEBIBYTE, source="freed")
    host = dataclasses.replace(HOST, device_held_bytes=90 * MEBIBYTE)
    assert summarise(freed, host).peak == (100 + 256 - 90) * MEBIBYTE
    assert summarise(msgspec.structs.replace(freed, source="grown"), host).peak is None
    assert summarise(freed, HOST).peak is None


@pytest.mark.parametrize(
    ("mebibytes", "is_plausible"),
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
def test_memory_is_not_known_if_the_device_miscounts_a_known_allocation(
    mebibytes: float | None, is_plausible: bool
) -> None:
    found = summarise(checked=checked_allocation(mebibytes))
    assert (found.peak is not None) is is_plausible
    assert (found.source == summarise().source) is is_plausible


def random_reply(generator: random.Random) -> Any:
    """Return a right or wrong reply of NVML, or raise its error, as in public bug reports."""
    kind = generator.randrange(8)
    if kind == 0:
        raise nvml.NVMLError("Unknown Error")
    gibibytes = generator.uniform(1, 79)
    values = [
        0,
        -generator.randrange(1 << 40),
        generator.randrange(1 << 64),
        365455 * MEBIBYTE,
        18446744073709551615,
        int(gibibytes * (1 << 30)),
    ]
    return values[min(kind - 1, 5)]


def test_random_replies_of_nvml_never_give_an_implausible_figure() -> None:
    generator = random.Random(12)
    plausible = 0
    for _ in range(1000):
        library = nvml.FakeNvml(used=lambda: random_reply(generator), total=TOTAL)
        monitor = DeviceMemoryMonitor([nvml.UUID], library)
        before, peak, after = (monitor.used_bytes() for _ in range(3))
        device = msgspec.structs.replace(
            DEVICE,
            before_bytes=before,
            peak_bytes=increase(before, peak),
            resident_bytes=increase(before, after),
            total_bytes=monitor.total_bytes,
        )
        found = summarise(device)
        assert found.peak is None or HOST.device_reserved_bytes <= found.peak <= TOTAL
        assert found.peak is not None or found.source.startswith("not known: ")
        plausible += found.peak is not None
    assert plausible > 20, "plausible figures are discarded too"
