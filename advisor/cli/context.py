"""The stored runs, the pipeline's context and status lines, as every command uses them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from advisor.cli.output import print_text

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.store.store import Store


def open_store() -> Store:
    from advisor.store.store import Store, default_home

    return Store(default_home(os.environ))


def make_context() -> Context:
    """Return the context of the pipeline with this process's environment and clocks."""
    from advisor.context import Context

    return Context(environment=dict(os.environ), store=open_store())


def print_status(line: str) -> None:
    """Print a status line on standard error, which carries no data."""
    # A run continues when its log cannot be written.
    with contextlib.suppress(OSError):
        print_text(f"p3-advisor: {line}", err=True)
