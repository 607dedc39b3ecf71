"""Pin the distributions that a script needs to the versions in the worker's environment."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from probes.wire.events import Environment


def pin(
    packages: Collection[str],
    versions: Collection[str],
    environment: Environment,
    extras: Mapping[str, Sequence[str]],
) -> list[str]:
    """Return a requirement for each distribution that provides a package or is in `versions`.

    `packages` are names that are imported; `extras` are the optional dependencies of distributions.
    A local version such as `+cpu` is left out, because the default index does not have it.
    """
    installed = {normalise(name): version for name, version in environment.distributions.items()}
    needed = {min(found) for name in packages if (found := environment.providers.get(name))}
    needed |= set(versions)
    return sorted(
        f"{_with_extras(name, extras)}=={installed[normalise(name)].partition('+')[0]}"
        for name in needed
        if normalise(name) in installed
    )


def _with_extras(name: str, extras: Mapping[str, Sequence[str]]) -> str:
    return f"{name}[{','.join(extras[name])}]" if name in extras else name


def normalise(name: str) -> str:
    """Return the name of a distribution as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
