"""Peak memory as the worker itself sees it; the device's own view is taken by the advisor from outside."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import pathlib
import sys
from collections.abc import Iterator

from probes.protocol import Memory

KIBIBYTE = 1024
#: NVIDIA's driver: it allocates below every library, so that what it gives is seen by the device alone.
DRIVER = "libcuda.so.1"


def peak_rss_bytes() -> int | None:
    """Return the high-water mark of this process's resident set (`VmHWM`); None where the kernel does not tell."""
    try:
        status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * KIBIBYTE
    return None


def read() -> Memory:
    """Return this process's peaks; the device's only if torch is loaded and has used one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return Memory(peak_rss_bytes(), None, None)
    return Memory(peak_rss_bytes(), torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())


@contextlib.contextmanager
def hold(size: int, device: str) -> Iterator[None]:
    """Hold `size` bytes of the device while the block runs, from outside every library's allocator.

    The GPU must be in use by this thread already: the driver gives memory to the context that it has.
    """
    with hold_on_gpu(size) if device == "cuda" else hold_on_host(size):
        yield


@contextlib.contextmanager
def hold_on_host(size: int) -> Iterator[None]:
    """Hold memory of the host, each page touched so that the kernel has to give it."""
    with mmap.mmap(-1, size) as held:
        for place in range(0, size, mmap.PAGESIZE):
            held[place] = 1
        yield


@contextlib.contextmanager
def hold_on_gpu(size: int) -> Iterator[None]:
    """Hold memory of the GPU that is current in this thread; nothing where the driver gives none, which the advisor then sees."""
    pointer = ctypes.c_uint64()
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        yield
        return
    refused = driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
    try:
        yield
    finally:
        if not refused:
            driver.cuMemFree_v2(pointer)
