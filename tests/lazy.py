"""Modules of a stack, imported when a test uses them: collecting tests imports no stack."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


class _Lazy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("__", "_mock")):
            # pytest asks every global name of a test module for these.
            raise AttributeError(attribute)
        pytest.importorskip("torch", reason="pip install 'p3-advisor[stack]'")
        return getattr(importlib.import_module(self._name), attribute)


def lazy(name: str) -> Any:
    """Return the module; the test that uses it is skipped if the stack is not installed."""
    return _Lazy(name)
