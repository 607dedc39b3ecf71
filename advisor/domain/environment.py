"""Where the worker of a workflow runs: an interpreter or an environment."""

from __future__ import annotations

from typing import Literal

import msgspec


class InstallFootprint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Disk space and time that an environment took when it was created.

    Packages in the cache of uv are not downloaded again and need no space.
    """

    disk_mib: int
    seconds: int
    #: Machine of the measurement.
    where: str


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Environment of a workflow's worker.

    `shared` is the interpreter of `--python`, `own` an environment created for the workflow.
    """

    kind: Literal["shared", "own"]
    requirements: tuple[str, ...] = ()
    #: Workflows with the same name share the environment; the default is the workflow's id.
    name: str = ""
    #: Supported versions of Python.
    python: str = ">=3.10,<3.14"
    #: Build of torch: none, the CPU build, or the build for the machine.
    torch: Literal["none", "cpu", "auto"] = "none"
    #: Required packages that are not installed, because no worker uses them.
    excluded_packages: tuple[str, ...] = ()
    #: Modules whose import is the test of a created environment.
    imports: tuple[str, ...] = ()
    #: Environments that cannot be installed in the same interpreter.
    conflicts: tuple[str, ...] = ()
    licence: str = ""
    footprint: InstallFootprint | None = None
