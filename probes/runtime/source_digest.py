"""Identify the source of the probes, to find out whether it has changed since a measurement."""

from __future__ import annotations

import hashlib
import pathlib


def source_digest(probes: pathlib.Path) -> str:
    """Return the SHA-256 of the names and contents of all Python files below `probes`."""
    digest = hashlib.sha256()
    for file in sorted(probes.rglob("*.py")):
        digest.update(file.relative_to(probes).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
