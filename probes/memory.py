"""Peak memory as the worker itself sees it; the device's own view is taken by the advisor from outside."""

from __future__ import annotations

import pathlib
import sys

from probes.protocol import Memory

KIBIBYTE = 1024


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
