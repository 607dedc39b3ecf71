"""Did a build begin with empty caches?

What lies in the arm's own folders, and what PyTorch's compiler says it found.
"""

from __future__ import annotations

import os
import pathlib
import sys


def count_bytes(directory: pathlib.Path) -> int:
    """Return the bytes of all files below `directory`; 0 where there is none."""
    return sum(
        size_of(pathlib.Path(folder, name))
        for folder, _, files in os.walk(directory)
        for name in files
    )


def size_of(file: pathlib.Path) -> int:
    """Return a file's bytes; 0 for a compiler's own temporary file that is gone meanwhile."""
    try:
        return file.lstat().st_size
    except OSError:
        return 0


def count_hits() -> int | None:
    """Return how often Inductor took a whole graph from a cache; None where it is not loaded."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return None
    return int(
        dynamo.counters["inductor"]["fxgraph_cache_hit"]
        + dynamo.counters["aot_autograd"]["autograd_cache_hit"]
    )
