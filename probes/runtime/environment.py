"""Describe the interpreter of a worker and what is installed for it."""

from __future__ import annotations

import pathlib
import sys
from importlib import metadata

from probes.runtime.source_digest import source_digest
from probes.wire.events import Environment

PROBES = pathlib.Path(__file__).parents[1]


def read_environment() -> Environment:
    """Return what a script needs to run like this worker."""
    return Environment(
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        interpreter=sys.executable,
        distributions=read_versions(),
        providers=read_providers(),
        source_digest=source_digest(PROBES),
    )


def read_versions() -> dict[str, str]:
    """Return the version of each installed distribution; of several, that of the first found."""
    versions: dict[str, str] = {}
    for distribution in metadata.distributions():
        name, version = distribution.metadata["Name"], distribution.version
        if name and version:
            versions.setdefault(name, version)
    return versions


def read_providers() -> dict[str, tuple[str, ...]]:
    """Return the distributions that provide each importable top-level package."""
    return {
        package: tuple(sorted(set(distributions)))
        for package, distributions in metadata.packages_distributions().items()
        if package.isidentifier()
    }
