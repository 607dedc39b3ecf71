"""Run a recipe in the interpreter that measured it, and hear what it reaches now."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

import msgspec

from advisor.errors import VerificationError
from advisor.probing.termination import failure_reason, kill_all
from probes import protocol

#: File with what a recipe printed.
OUTPUT = "output"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the recipe says of one batch size.

    Its `speedup` is null for a model that eager PyTorch cannot run, its `error_against_eager` for
    text that is not known to agree.
    """

    batch_size: int
    unit: str
    throughput: float
    seconds: float
    build_seconds: float
    error_against_eager: float | None
    speedup: float | None
    versions: dict[str, str]


def run_recipe(
    script: str,
    interpreter: str,
    environment: Mapping[str, str],
    seconds: float,
    patience_seconds: float,
    probes: pathlib.Path,
) -> list[Found]:
    """Return what the script reaches at each batch size; raise `VerificationError` with its own words where it does not get there."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "serve.py").write_text(script, encoding="utf-8")
        below = [interpreter, "-I", "-S", str(probes / "runtime" / "watchdog_script.py")]
        status = _run(
            [*below, str(place / "serve.py"), "--json", "--seconds", str(seconds)],
            place,
            environment,
            patience_seconds,
        )
        if status != 0:
            raise VerificationError(
                f"the recipe did not get through: {failure_reason(place / protocol.LOG)}",
                "measure again, or mend the environment",
            )
        try:
            return [
                msgspec.json.decode(line, type=Found)
                for line in (place / OUTPUT).read_bytes().splitlines()
            ]
        except msgspec.MsgspecError as problem:
            raise VerificationError(
                f"the recipe said what cannot be read: {problem}", "measure again"
            ) from problem


def _run(
    command: Sequence[str],
    place: pathlib.Path,
    environment: Mapping[str, str],
    patience_seconds: float,
) -> int:
    """Return the status that the command leaves with; whatever happens meanwhile, nothing of it is left running.

    It writes to files, as a pipe that a child of it holds open has no end.
    """
    with (place / OUTPUT).open("wb") as output, (place / protocol.LOG).open("wb") as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - an argument list, no shell; the script is one that this machine stored
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=log,
                env={**environment, protocol.MARK: str(place)},
                start_new_session=True,
            )
        except OSError as problem:
            raise VerificationError(
                f"{command[0]} cannot be started: {problem.strerror}", "measure again"
            ) from problem
    with process:
        try:
            return process.wait(patience_seconds)
        except subprocess.TimeoutExpired as problem:
            raise VerificationError(
                f"the recipe took longer than {patience_seconds:g} seconds",
                "see what it waits for: run it by hand",
            ) from problem
        finally:
            kill_all(process, place)
