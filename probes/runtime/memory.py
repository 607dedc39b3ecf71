"""Read peak memory as the worker sees it, and allocate memory that the advisor can check.

The advisor reads the device's own view from outside of the worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import pathlib
import sys
from collections.abc import Iterator

from probes.wire.events import MemoryRead

KIBIBYTE = 1024
#: NVIDIA's driver. It allocates below every library, so only the device counts its allocations.
DRIVER = "libcuda.so.1"


def peak_rss_bytes(process: int | str = "self") -> int | None:
    """Return a process's peak resident set size (`VmHWM`); None if it cannot be read."""
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * KIBIBYTE
    return None


def peak_rss_bytes_of_tree(process: int) -> int | None:
    """Return the sum of the peaks of a process and its descendants; None if none can be read."""
    waiting, peaks = [process], []
    while waiting:
        pid = waiting.pop()
        peak = peak_rss_bytes(pid)
        if peak is not None:
            peaks.append(peak)
        for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                waiting += map(int, children.read_text(encoding="ascii").split())
    return sum(peaks) if peaks else None


def read_peaks() -> MemoryRead:
    """Return this process's peaks; the device's only if torch is loaded and has used one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return MemoryRead(peak_rss_bytes())
    return MemoryRead(
        peak_rss_bytes(),
        device_allocated_bytes=torch.cuda.max_memory_allocated(),
        device_reserved_bytes=torch.cuda.max_memory_reserved(),
        device_held_bytes=torch.cuda.memory_reserved(),
    )


@contextlib.contextmanager
def hold(size: int, device: str) -> Iterator[None]:
    """Hold `size` bytes of the device, from outside every library's allocator.

    The first time creates the context of the GPU, which takes memory too.
    """
    if device == "cuda":
        with hold_on_gpu(size):
            yield
        return
    with mmap.mmap(-1, size) as held:
        for offset in range(0, size, mmap.PAGESIZE):
            held[offset] = 1  # The kernel provides a page once it is touched.
        yield


@contextlib.contextmanager
def hold_on_gpu(size: int) -> Iterator[None]:
    """Hold memory of the first visible GPU, in the context that every library shares.

    If the driver is missing or refuses, nothing is held; the advisor sees that from outside.
    """
    device, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        yield
        return
    driver.cuInit(0)
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    driver.cuCtxSetCurrent(context)
    refused = driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
    try:
        yield
    finally:
        if not refused:
            driver.cuMemFree_v2(pointer)


#: Just below 32 MiB, the upper limit of the threshold from which the GNU C library maps blocks.
LARGE_BLOCK_BYTES = 31 * 2**20


def keep_freed_blocks() -> None:
    """Make the C library keep freed blocks of up to 31 MiB for the next call.

    By default the GNU C library returns such blocks to the kernel until a larger one has been freed
    once, and the next call takes a page fault for each page. With outputs of 2 MB, calls of 4.4 ms
    then took 5.7 ms, measured on two processors.
    https://sourceware.org/glibc/manual/latest/html_node/Malloc-Tunable-Parameters.html
    """
    bytearray(LARGE_BLOCK_BYTES)
