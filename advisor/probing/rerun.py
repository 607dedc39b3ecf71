"""Run a recipe in the interpreter that measured it, and hear what it reaches now."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import tempfile
from collections.abc import Mapping

import msgspec

from advisor.errors import VerificationError
from advisor.probing.ending import last_words


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the recipe says of one batch size.

    Its `speedup` is null for a model that eager PyTorch cannot run, its `error_against_eager` for text that is not known to agree.
    """

    batch_size: int
    unit: str
    throughput: float
    seconds: float
    build_seconds: float
    error_against_eager: float | None
    speedup: float | None
    versions: dict[str, str]


def run_recipe(script: str, interpreter: str, environment: Mapping[str, str], seconds: float, patience_seconds: float) -> list[Found]:
    """Return what the script reaches at each batch size; raise `VerificationError` with its own words where it does not get there."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "serve.py").write_text(script, encoding="utf-8")
        with (place / "log").open("wb") as log:
            try:
                process = subprocess.Popen(  # noqa: S603 - an argument list, no shell; the script is one that this machine stored
                    [interpreter, str(place / "serve.py"), "--json", "--seconds", str(seconds)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=dict(environment),
                    start_new_session=True,
                )
            except OSError as problem:
                raise VerificationError(f"{interpreter} cannot be started: {problem.strerror}", "measure again") from problem
            output = _wait(process, patience_seconds)
        if process.returncode != 0:
            raise VerificationError(
                f"the recipe did not get through: {last_words(place / 'log')}", "measure again, or mend the environment"
            )
        try:
            return [msgspec.json.decode(line, type=Found) for line in output.splitlines()]
        except msgspec.MsgspecError as problem:
            raise VerificationError(f"the recipe said what cannot be read: {problem}", "measure again") from problem


def _wait(process: subprocess.Popen[bytes], patience_seconds: float) -> bytes:
    """Return what the process printed; whatever happens meanwhile, nothing of it is left running."""
    try:
        return process.communicate(timeout=patience_seconds)[0]
    except subprocess.TimeoutExpired as problem:
        raise VerificationError(
            f"the recipe took longer than {patience_seconds:g} seconds", "see what it waits for: run it by hand"
        ) from problem
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
