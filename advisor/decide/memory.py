"""Summarise an arm's memory; discard figures of the device that are implausible."""

from __future__ import annotations

from advisor.domain.measurement import MemoryBytes
from advisor.domain.run_events import DeviceMemory, MemoryChecked
from advisor.domain.run_state import ProcessState
from probes.wire.events import MemoryRead

MEBIBYTE = 1 << 20
#: The device's count of a known allocation may differ from its size by this much.
TOLERANCE_BYTES = 8 * MEBIBYTE
DEVICE_SOURCE = "increase in used device memory since before the worker started, by NVML"
FREED_SOURCE = "device memory that the end of the worker freed, by NVML"
PENDING_SOURCE = "not known yet: the device's memory is read when the worker ends"
HOST_SOURCE = "peak resident set size of the worker process"


def summarise_memory(process: ProcessState, checked: MemoryChecked | None) -> MemoryBytes:
    """Return the arm's peak memory and its source; null with the reason where it is not known.

    The memory of a device is that of the built batch sizes. Other sizes are tried later.
    """
    device, host, warm = process.device_memory, process.memory, process.warm_memory
    reserved = warm.device_reserved_bytes if warm else None
    if device is None and (checked is not None or reserved is not None):
        return MemoryBytes(peak=None, source=PENDING_SOURCE, torch_reserved=reserved)
    if device is None:
        if host is None or host.peak_rss_bytes is None:
            return MemoryBytes(peak=None, source="not measured")
        return MemoryBytes(peak=host.peak_rss_bytes, source=HOST_SOURCE)
    problem = implausible_because(device, warm, checked)
    if problem:
        return MemoryBytes(
            peak=None,
            source=f"not known: {problem}",
            torch_reserved=reserved,
        )
    assert device.peak_bytes is not None  # noqa: S101 - for the type checker: it is plausible
    is_freed = device.source == "freed"
    return MemoryBytes(
        peak=device.peak_bytes + (released_earlier(warm) if is_freed else 0),
        source=FREED_SOURCE if is_freed else DEVICE_SOURCE,
        serving=device.serving_bytes,
        torch_reserved=reserved,
    )


def released_earlier(warm: MemoryRead | None) -> int:
    """Return the bytes that PyTorch's allocator released after its peak.

    Weights that are quantised on the device after they were loaded are such bytes.
    """
    if warm is None or warm.device_reserved_bytes is None or warm.device_held_bytes is None:
        return 0
    return max(warm.device_reserved_bytes - warm.device_held_bytes, 0)


def implausible_because(
    device: DeviceMemory, warm: MemoryRead | None, checked: MemoryChecked | None
) -> str | None:
    """Return why the device's figure is implausible; None for a plausible one."""
    if checked is not None and not matches_allocation(checked):
        counted = (
            "nothing" if checked.seen_bytes is None else f"{checked.seen_bytes / MEBIBYTE:,.0f} MiB"
        )
        size = checked.allocated_bytes / MEBIBYTE
        return f"NVML reported {counted} for a test allocation of {size:.0f} MiB"
    if device.peak_bytes is None:
        return "the device does not report its memory use"
    if device.peak_bytes <= 0:
        return "NVML reports no memory for the worker, as in some containers"
    if device.total_bytes is not None and device.peak_bytes > device.total_bytes:
        return "NVML reports more memory than the device has"
    reserved = warm.device_reserved_bytes if warm else None
    if device.source == "freed" and reserved is not None:
        reserved -= released_earlier(warm)
    if reserved is not None and device.peak_bytes < reserved:
        return (
            "NVML reports less than PyTorch alone reserved, "
            "so other processes freed memory at the same time"
        )
    return None


def matches_allocation(checked: MemoryChecked) -> bool:
    """Return whether the device counted a known allocation with its size."""
    return (
        checked.seen_bytes is not None
        and abs(checked.seen_bytes - checked.allocated_bytes) <= TOLERANCE_BYTES
    )
