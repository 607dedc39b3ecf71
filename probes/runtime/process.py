"""The worker's own process: its interpreter, its memory, memory to check, its turn to run.

The advisor reads the device's own view from outside of the worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import fcntl
import os
import pathlib
import sys
import time
from collections.abc import Iterator
from importlib import metadata

from probes import protocol
from probes.events import MemoryRead
from probes.facts import InterpreterFacts
from probes.timing import torch_on_gpu

KIBIBYTE = 1024
#: NVIDIA's driver. It allocates below every library, so only the device counts its allocations.
DRIVER = "libcuda.so.1"
#: Seconds between two looks for free processors.
POLL_SECONDS = 0.05
#: A worker waits so long for the calls of another one, which may have been suspended.
MOST_WAITING_SECONDS = 60.0


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
    torch = torch_on_gpu()
    if torch is None:
        return MemoryRead(peak_rss_bytes())
    return MemoryRead(
        peak_rss_bytes(),
        device_reserved_bytes=torch.cuda.max_memory_reserved(),
        device_held_bytes=torch.cuda.memory_reserved(),
    )


def held_bytes() -> int | None:
    """Return what PyTorch holds on the GPU beside its free cache, which is emptied; None without.

    The memory of captured CUDA graphs is held: no other code can use it.
    """
    torch = torch_on_gpu()
    if torch is None:
        return None
    torch.cuda.empty_cache()
    return int(torch.cuda.memory_reserved())


@dataclasses.dataclass
class KeptMemory:
    """Sums what the code in several `with` blocks leaves in the memory of the GPU."""

    #: Bytes that were left so far; None where PyTorch uses no GPU.
    bytes: int | None = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        before = held_bytes()
        yield
        after = held_bytes()
        if self.bytes is None or before is None or after is None:
            self.bytes = None
        else:
            self.bytes += after - before


@contextlib.contextmanager
def hold_memory(size: int) -> Iterator[None]:
    """Hold `size` bytes of the first visible GPU, from outside every library's allocator.

    They are in the context that every library shares; the first time creates it, which takes memory
    too. If the driver is missing or refuses, nothing is held; the advisor sees that from outside.
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


def keep_freed_blocks() -> bool:
    """Make the GNU C library keep freed blocks of up to 31 MiB; False with another C library.

    By default it returns such blocks to the kernel until a larger one has been freed once, and the
    next call takes a page fault for each page. With outputs of 2 MB, calls of 4.4 ms then took
    5.7 ms, measured on two processors.
    https://sourceware.org/glibc/manual/latest/html_node/Malloc-Tunable-Parameters.html
    """
    bytearray(LARGE_BLOCK_BYTES)
    return hasattr(ctypes.CDLL(None), "gnu_get_libc_version")


@contextlib.contextmanager
def exclusive_calls(request: protocol.Request) -> Iterator[None]:
    """Let no other worker of the run call a model on the CPU meanwhile.

    Threads of two processes that wait for each other by spinning take more than twice as long as
    one process after the other.
    """
    if request.device != "cpu":
        yield
        return
    file = pathlib.Path(request.shared_directory, "calls.lock")
    with open(file, "w", opener=_open_plain) as lock:
        end = time.monotonic() + MOST_WAITING_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # a process that was forked meanwhile has it too


def _open_plain(path: str, flags: int) -> int:
    """Open a file that another worker may have replaced, by a link or a pipe for example."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


#: Ends of the names of files that can be imported.
MODULES = (".py", ".so", ".pyd")


def read_environment() -> InterpreterFacts:
    """Return what a script needs to run like this worker.

    If a distribution is installed several times, the version is that of the first found.
    `importlib.metadata` parses all descriptions three times for this, half of a worker's start.
    """
    versions: dict[str, str] = {}
    providers: dict[str, set[str]] = {}
    for distribution in metadata.distributions():
        described = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
        head = dict(
            line.partition(": ")[::2] for line in described.partition("\n\n")[0].splitlines()
        )
        name, version = head.get("Name"), head.get("Version")
        if not name:
            continue
        if version:
            versions.setdefault(name, version)
        for package in _top_level_packages(distribution):
            if package.isidentifier():
                providers.setdefault(package, set()).add(name)
    return InterpreterFacts(
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        interpreter=sys.executable,
        distributions=versions,
        providers={package: tuple(sorted(names)) for package, names in providers.items()},
    )


def _top_level_packages(distribution: metadata.Distribution) -> set[str]:
    declared = distribution.read_text("top_level.txt")
    if declared:
        return set(declared.split())
    record = distribution.read_text("RECORD")
    files = (
        map(str, distribution.files or ())
        if record is None
        else (line.partition(",")[0] for line in record.splitlines())
    )
    return {file.partition("/")[0].partition(".")[0] for file in files if file.endswith(MODULES)}
