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
#: NVIDIA's driver: it allocates below every library, so that what it gives is seen by the device
#: alone.
DRIVER = "libcuda.so.1"
#: Just below what the GNU C library takes as its limit at most, 32 MiB.
LARGE_BLOCK_BYTES = 31 * 2**20


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
    return Memory(
        peak_rss_bytes(), torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    )


def keep_freed_blocks() -> None:
    """Make the C library keep freed blocks of up to 31 MiB for the next call, in this process, whatever it has done before.

    The GNU one gives memory back to the kernel, and the next call takes a page fault for each page,
    until a large enough block has once been freed. With outputs of 2 MB that made calls of 4.4 ms
    take 5.7 ms, measured on two processors.
    https://sourceware.org/glibc/manual/latest/html_node/Malloc-Tunable-Parameters.html
    """
    bytearray(LARGE_BLOCK_BYTES)


@contextlib.contextmanager
def hold(size: int, device: str) -> Iterator[None]:
    """Hold `size` bytes of the device while the block runs, from outside every library's allocator.

    The GPU must be in use by this thread already: the driver gives memory to the context that it
    has.
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
