"""Load modules of probes whose stack is not installed."""

from __future__ import annotations

import importlib.util
import sys
import types
from unittest import mock

from advisor.ask import catalogue_files


def load_with_stubs(path: str, stubs: tuple[str, ...]) -> types.ModuleType:
    """Return the module at a path below `probes`, with stubs for the packages of its stack.

    No other test finds it, or a module that it imports first, in `sys.modules`.
    """
    file = catalogue_files.probes_directory() / path
    spec = importlib.util.spec_from_file_location("probe_with_stubs", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in stubs}):
        spec.loader.exec_module(module)
    return module
