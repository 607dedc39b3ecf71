"""Does an environment work: its interpreter starts, what it is for imports, and nothing in it has been changed since it was made."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Mapping

import msgspec

from advisor.domain.workflow import Environment
from advisor.probing.environments import NO_TELEMETRY, without_foreign
from advisor.probing.environments.places import python_in, read_record

#: Run by the environment's interpreter in isolation; says what it is before it imports, so that a
#: crash is told apart from a broken Python.
CHECK = """
import importlib, importlib.metadata as metadata, json, os, platform, sys
answer = os.dup(1)
os.dup2(2, 1)
packages = {each.metadata["Name"]: each.version for each in metadata.distributions() if each.metadata["Name"]}
os.write(answer, json.dumps({"python_version": platform.python_version(), "packages": packages}).encode())
os.close(answer)
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
CHECK_SECONDS = 600
#: Longest piece of what an import says that is passed on.
LONGEST_REASON = 300


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What an interpreter says of itself, and what keeps it from being used."""

    python_version: str = ""
    packages: dict[str, str] = {}
    fault: str | None = None


def look(
    directory: pathlib.Path,
    environment: Environment,
    inherited: Mapping[str, str],
    *,
    keep_bytecode: bool = False,
) -> Found:
    """Start the interpreter in `directory` and import what the environment is for; `keep_bytecode` leaves it compiled there."""
    command = [
        str(python_in(directory)),
        "-I",
        *([] if keep_bytecode else ["-B"]),
        "-c",
        CHECK,
        *environment.imports,
    ]
    try:
        answer = subprocess.run(  # noqa: S603 - an argument list, no shell
            command,
            capture_output=True,
            timeout=CHECK_SECONDS,
            check=False,
            env={**without_foreign(inherited), **NO_TELEMETRY},
            cwd=directory,
        )
    except subprocess.TimeoutExpired:
        return Found(fault=f"its imports take longer than {CHECK_SECONDS} seconds")
    except OSError as problem:
        return Found(fault=f"its interpreter does not start: {problem.strerror}")
    last = _last_line(answer.stderr)
    try:
        found = msgspec.json.decode(answer.stdout, type=Found)
    except msgspec.MsgspecError:
        return Found(fault=f"its interpreter does not run: {last}")
    return (
        msgspec.structs.replace(found, fault=f"it does not import: {last}")
        if answer.returncode
        else found
    )


def check(directory: pathlib.Path, environment: Environment, inherited: Mapping[str, str]) -> Found:
    """Look at an environment that was made, and hold what is in it against what was put there."""
    record = read_record(directory)
    if record is None:
        return Found(fault="it was not made to the end")
    found = look(directory, environment, inherited)
    if found.fault is None and found.packages != record.packages:
        changed = {*found.packages.items()} ^ {*record.packages.items()}
        names = ", ".join(sorted({name for name, _ in changed}))
        return msgspec.structs.replace(
            found, fault=f"packages were changed since it was made: {names}"[:LONGEST_REASON]
        )
    return found


def _last_line(text: bytes) -> str:
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:LONGEST_REASON] if lines else "it says nothing"
