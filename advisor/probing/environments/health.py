"""Check that an environment works.

Its interpreter starts, its packages import, and no package has changed since its creation.
"""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Mapping

import msgspec

from advisor.domain.workflow import Environment
from advisor.probing.environments.registry import interpreter_path, read_record
from advisor.probing.environments.variables import NO_TELEMETRY, without_python_paths

#: Run by the environment's interpreter in isolated mode. It prints its versions before it imports
#: anything, so that a crashing import differs from a broken interpreter.
CHECK_SCRIPT = """
import importlib, importlib.metadata as metadata, json, os, platform, sys
answer = os.dup(1)
os.dup2(2, 1)
packages = {each.metadata["Name"]: each.version for each in metadata.distributions() if each.metadata["Name"]}
os.write(answer, json.dumps({"python_version": platform.python_version(), "packages": packages}).encode())
os.close(answer)
for name in sys.argv[1:]:
    importlib.import_module(name)
"""  # noqa: E501 - a script, kept as one string
CHECK_SECONDS = 600
MAX_FAULT_CHARS = 300


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The versions in an environment, and the fault that makes it unusable."""

    python_version: str = ""
    #: Versions by distribution.
    packages: dict[str, str] = {}
    fault: str | None = None


def inspect(
    directory: pathlib.Path,
    environment: Environment,
    inherited: Mapping[str, str],
    *,
    keep_bytecode: bool = False,
) -> Inspection:
    """Start the interpreter in `directory` and import the environment's modules.

    `keep_bytecode` lets the interpreter store compiled modules.
    """
    command = [
        str(interpreter_path(directory)),
        "-I",
        *([] if keep_bytecode else ["-B"]),
        "-c",
        CHECK_SCRIPT,
        *environment.imports,
    ]
    try:
        result = subprocess.run(  # noqa: S603 - an argument list, no shell
            command,
            capture_output=True,
            timeout=CHECK_SECONDS,
            check=False,
            env={**without_python_paths(inherited), **NO_TELEMETRY},
            cwd=directory,
        )
    except subprocess.TimeoutExpired:
        return Inspection(fault=f"its imports take longer than {CHECK_SECONDS} seconds")
    except OSError as problem:
        return Inspection(fault=f"its interpreter does not start: {problem.strerror}")
    text = result.stderr.decode("utf-8", "replace")
    *_, last_line = ["no output", *filter(None, map(str.strip, text.splitlines()))]
    last_line = last_line[:MAX_FAULT_CHARS]
    try:
        inspection = msgspec.json.decode(result.stdout, type=Inspection)
    except msgspec.MsgspecError:
        return Inspection(fault=f"its interpreter does not run: {last_line}")
    if result.returncode:
        return msgspec.structs.replace(inspection, fault=f"it does not import: {last_line}")
    return inspection


def check(
    directory: pathlib.Path, environment: Environment, inherited: Mapping[str, str]
) -> Inspection:
    """Inspect a created environment, and compare its packages with its record."""
    record = read_record(directory)
    if record is None:
        return Inspection(fault="its creation was not completed")
    inspection = inspect(directory, environment, inherited)
    if inspection.fault is None and inspection.packages != record.packages:
        changed = {*inspection.packages.items()} ^ {*record.packages.items()}
        names = ", ".join(sorted({name for name, _ in changed}))
        fault = f"packages were changed since its creation: {names}"
        return msgspec.structs.replace(inspection, fault=fault[:MAX_FAULT_CHARS])
    return inspection
