"""Check whether this system can confine workers."""

from __future__ import annotations

from advisor.errors import SandboxError
from probes.runtime import sandbox


def require() -> None:
    """Raise `SandboxError` with the reason where workers cannot be confined."""
    obstacle = sandbox.find_obstacle()
    if obstacle is not None:
        raise SandboxError(
            f"the sandbox cannot be used here: {obstacle}",
            "omit --sandbox for a model that you trust, or run in a container or virtual machine",
        )
