"""Load a module from its file, write files completely or not at all, and count their bytes."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import shutil
import sys
import types
from collections.abc import Iterator


def load_module(name: str, file: pathlib.Path) -> types.ModuleType:
    """Execute `file` as the module `name`, which later imports find."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module can be loaded from {str(file)!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def replace_when_complete(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a path to write to, and rename it to `path` when the block ends without an error.

    A killed process leaves only `part-NAME`, a file that the next process overwrites or a folder
    that it removes.
    """
    partial = path.with_name(f"part-{path.name}")
    shutil.rmtree(partial, ignore_errors=True)
    yield partial
    partial.rename(path)


def count_bytes(directory: pathlib.Path) -> int:
    """Sum the files but not links: they lead to the user's or, if a worker made them, anywhere."""
    total = 0
    for folder, _, names in os.walk(directory) if not directory.is_symlink() else ():
        for file in (pathlib.Path(folder, name) for name in names):
            # A compiler may have removed a temporary file meanwhile.
            with contextlib.suppress(OSError):
                total += 0 if file.is_symlink() else file.lstat().st_size
    return total
