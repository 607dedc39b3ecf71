"""Run a recipe in the interpreter that measured it, and read its results."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

import msgspec

from advisor.errors import VerificationError
from advisor.probing.termination import kill_worker
from advisor.probing.worker_log import failure_reason
from probes import protocol

#: File that holds the recipe's standard output.
OUTPUT_FILE = "output"


class RecipeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a recipe for one batch size.

    `speedup` is null for a model that eager PyTorch cannot run. `error_against_eager` is null for
    generated text that could not be compared.
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
    timeout_seconds: float,
    probes: pathlib.Path,
) -> list[RecipeResult]:
    """Return the results of the script, one for each batch size.

    Raise `VerificationError` with the reason from its log if it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        recipe = directory / "serve.py"
        recipe.write_text(script, encoding="utf-8")
        watchdog = [interpreter, "-I", "-S", str(probes / "runtime" / "watchdog_script.py")]
        command = [*watchdog, str(recipe), "--json", "--seconds", str(seconds)]
        status = _run(command, directory, environment, timeout_seconds)
        if status != 0:
            raise VerificationError(
                f"the recipe failed: {failure_reason(directory / protocol.LOG)}",
                "measure again, or repair the environment",
            )
        try:
            return [
                msgspec.json.decode(line, type=RecipeResult)
                for line in (directory / OUTPUT_FILE).read_bytes().splitlines()
            ]
        except msgspec.MsgspecError as problem:
            raise VerificationError(
                f"the output of the recipe cannot be read: {problem}", "measure again"
            ) from problem


def _run(
    command: Sequence[str],
    directory: pathlib.Path,
    environment: Mapping[str, str],
    timeout_seconds: float,
) -> int:
    """Return the exit status of the command; kill everything that it started in any case.

    Its output goes to files: a pipe has no end while a subprocess of the recipe holds it open.
    """
    with (
        (directory / OUTPUT_FILE).open("wb") as output,
        (directory / protocol.LOG).open("wb") as log,
    ):
        try:
            process = subprocess.Popen(  # noqa: S603 - an argument list, no shell; the script is one that this machine stored
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=log,
                env={**environment, protocol.MARK_VARIABLE: str(directory)},
                start_new_session=True,
            )
        except OSError as problem:
            raise VerificationError(
                f"{command[0]} cannot be started: {problem.strerror}", "measure again"
            ) from problem
    with process:
        try:
            return process.wait(timeout_seconds)
        except subprocess.TimeoutExpired as problem:
            raise VerificationError(
                f"the recipe took longer than {timeout_seconds:g} seconds",
                "run it by hand to see what it waits for",
            ) from problem
        finally:
            kill_worker(process, directory)
