"""Measure an arm's caches, to show whether its first build started with cold caches.

The bytes are those in the arm's own folders; the hits are those that PyTorch's compiler counts.
"""

from __future__ import annotations

import os
import pathlib
import sys


def count_bytes(directory: pathlib.Path) -> int:
    """Return the bytes of all files below `directory`; 0 if it does not exist."""
    return sum(
        file_bytes(pathlib.Path(folder, name))
        for folder, _, files in os.walk(directory)
        for name in files
    )


def file_bytes(file: pathlib.Path) -> int:
    """Return the bytes of a file; 0 for a temporary file that a compiler has removed meanwhile."""
    try:
        return file.lstat().st_size
    except OSError:
        return 0


def count_hits() -> int | None:
    """Return how many whole graphs Inductor took from a cache; None if it is not loaded."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return None
    return int(
        dynamo.counters["inductor"]["fxgraph_cache_hit"]
        + dynamo.counters["aot_autograd"]["autograd_cache_hit"]
    )
