"""Load a module from its file, and write files so that they exist complete or not at all."""

from __future__ import annotations

import contextlib
import importlib.util
import pathlib
import sys
import types
from collections.abc import Iterator


def load_module(name: str, file: pathlib.Path) -> types.ModuleType:
    """Execute `file` as the module `name`, which later imports find."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        message = f"no module can be loaded from {str(file)!r}"
        raise ImportError(message)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def replace_when_complete(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a path to write to, and rename it to `path` when the block ends without an error.

    A killed process leaves only `part-NAME`, which the next process overwrites.
    """
    partial = path.with_name(f"part-{path.name}")
    yield partial
    partial.rename(path)
