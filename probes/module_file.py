"""Load a module from its file."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types


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
