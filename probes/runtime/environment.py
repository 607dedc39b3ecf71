"""Describe the interpreter of a worker and the packages that are installed for it."""

from __future__ import annotations

import sys
from importlib import metadata

from probes.facts import InterpreterFacts

#: Ends of the names of files that can be imported.
MODULES = (".py", ".so", ".pyd")


def read_environment() -> InterpreterFacts:
    """Return what a script needs to run like this worker.

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
        for package in _top_level_packages(distribution):
            if package.isidentifier():
                providers.setdefault(package, set()).add(name)
    return InterpreterFacts(
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        interpreter=sys.executable,
        distributions=versions,
        providers={package: tuple(sorted(names)) for package, names in providers.items()},
    )


def _top_level_packages(distribution: metadata.Distribution) -> set[str]:
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
