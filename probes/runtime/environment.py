"""Describe the interpreter of a worker and what is installed for it."""

from __future__ import annotations

import sys
from importlib import metadata

from probes.wire.facts import Environment

#: Ends of the names of files that can be imported.
MODULES = (".py", ".so", ".pyd")


def read_environment() -> Environment:
    """Return what a script needs to run like this worker."""
    versions, providers = read_distributions()
    return Environment(
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        interpreter=sys.executable,
        distributions=versions,
        providers=providers,
    )


def read_distributions() -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the version of each distribution, and the distributions that provide each package.

    Of a distribution that is installed several times, the version is that of the first found.
    `importlib.metadata` parses all descriptions three times for this, half of a worker's start.
    """
    versions: dict[str, str] = {}
    providers: dict[str, set[str]] = {}
    for distribution in metadata.distributions():
        described = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
        head = dict(
            line.partition(": ")[::2] for line in described.partition("\n\n")[0].splitlines()
        )
        name, version = head.get("Name"), head.get("Version")
        if not name:
            continue
        if version:
            versions.setdefault(name, version)
        for package in _packages_of(distribution):
            if package.isidentifier():
                providers.setdefault(package, set()).add(name)
    return versions, {package: tuple(sorted(names)) for package, names in providers.items()}


def _packages_of(distribution: metadata.Distribution) -> set[str]:
    """Return the importable top-level names of a distribution."""
    declared = distribution.read_text("top_level.txt")
    if declared:
        return set(declared.split())
    record = distribution.read_text("RECORD")
    files = (
        map(str, distribution.files or ())
        if record is None
        else (line.partition(",")[0] for line in record.splitlines())
    )
    return {file.partition("/")[0].partition(".")[0] for file in files if file.endswith(MODULES)}
