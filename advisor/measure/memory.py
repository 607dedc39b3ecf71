"""What an arm's memory comes to, and whether what the device says about it can be: a wrong figure is worse than none."""

from __future__ import annotations

from advisor.domain.measurement import MemoryBytes
from advisor.domain.run_events import DeviceMemory, MemoryChecked
from advisor.domain.run_state import ProcessState
from advisor.domain.worker_events import MemoryRead

MEBIBYTE = 1 << 20
#: By how much the device may be off for an allocation that is known.
MOST_OFF_BYTES = 8 * MEBIBYTE
DEVICE_SOURCE = "device memory above what was used before the worker, by NVML"
HOST_SOURCE = "resident set of the worker process, high-water mark"


def summarise_memory(process: ProcessState, checked: MemoryChecked | None) -> MemoryBytes:
    """Return the arm's peak and who saw it; null with the reason where nobody did, or nobody can be believed."""
    device, host = process.device_memory, process.memory
    if device is None:
        if host is None or host.peak_rss_bytes is None:
            return MemoryBytes(peak=None, source="nobody could see it")
        return MemoryBytes(peak=host.peak_rss_bytes, source=HOST_SOURCE)
    problem = find_problem(device, host, checked)
    if problem:
        return MemoryBytes(
            peak=None,
            source=f"not known: {problem}",
            torch_reserved=host.device_reserved_bytes if host else None,
        )
    return MemoryBytes(
        peak=device.peak_bytes,
        source=DEVICE_SOURCE,
        serving=device.serving_bytes,
        torch_reserved=host.device_reserved_bytes if host else None,
    )


def find_problem(
    device: DeviceMemory, host: MemoryRead | None, checked: MemoryChecked | None
) -> str | None:
    """Return why the device's figure cannot be; None where nothing speaks against it."""
    if checked is not None and not is_right(checked):
        seen = (
            "not seen"
            if checked.seen_bytes is None
            else f"seen as {checked.seen_bytes / MEBIBYTE:,.0f} MiB"
        )
        return f"an allocation of {checked.allocated_bytes / MEBIBYTE:.0f} MiB was {seen} by the device's own count"
    if device.peak_bytes is None:
        return "the device did not say how much is in use"
    if device.peak_bytes <= 0:
        return "the device counts nothing for it, as it does in some containers"
    if device.total_bytes is not None and device.peak_bytes > device.total_bytes:
        return "the device counts more than it has"
    reserved = host.device_reserved_bytes if host else None
    if reserved is not None and device.peak_bytes < reserved:
        return "the device counts less than PyTorch alone had reserved, so others gave memory back meanwhile"
    return None


def is_right(checked: MemoryChecked) -> bool:
    """Say whether the device's count has seen a known allocation as what it was."""
    return (
        checked.seen_bytes is not None
        and abs(checked.seen_bytes - checked.allocated_bytes) <= MOST_OFF_BYTES
    )
