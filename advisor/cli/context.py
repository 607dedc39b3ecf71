"""What every command stands on: the stored runs, the world that the stages see, and a line to whoever watches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from advisor.cli.output import put

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.store import Store


def store() -> Store:
    """Return the runs of this user."""
    from advisor.store import Store, default_home

    return Store(default_home(os.environ))


def world() -> Context:
    """Return the world as it is."""
    from advisor.context import Context

    return Context(environment=dict(os.environ), store=store())


def say(line: str) -> None:
    """Narrate on standard error, which belongs to no data."""
    put(f"p3-advisor: {line}", err=True)
