"""Compile packages that were installed without bytecode, once, into a directory of this program.

uv installs packages without it, and so do many container images. Workers write none, because the
interpreter may be the user's: each of them would compile the sources of its stack, which takes
longer than to import them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
from collections.abc import Iterator, Mapping

import platformdirs

from advisor.domain.import_path import without_current_directory
from advisor.store.files import named_home

#: Tells Python where bytecode is, instead of beside the sources.
DIRECTORY_VARIABLE = "PYTHONPYCACHEPREFIX"
#: Workers import at the same time. With fewer processors they would wait longer than they gain.
FEWEST_PROCESSORS = 8
#: What nearly all workers import. The first shows whether there is bytecode.
PACKAGES = ("torch", "transformers")


@dataclasses.dataclass(frozen=True)
class Bytecode:
    """The bytecode of packages that have none beside their sources."""

    directory: pathlib.Path
    _compiler: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End the compilation, which goes on in the next run, before anything is timed."""
        # Once it has been waited for, its number may be that of another process.
        if self._compiler.poll() is None:
            os.killpg(self._compiler.pid, signal.SIGKILL)
            self._compiler.wait()


@contextlib.contextmanager
def compiled_bytecode(
    python: str, probes: pathlib.Path, inherited: Mapping[str, str], processors: int
) -> Iterator[Bytecode | None]:
    """Yield where the packages of `python` have bytecode, if not beside their sources.

    What is missing is compiled meanwhile, until `stop` is called.
    """
    if processors < FEWEST_PROCESSORS or DIRECTORY_VARIABLE in inherited:
        yield None
        return
    base = named_home(inherited) or platformdirs.user_cache_path("p3-advisor")
    directory = base / "bytecode"
    program = [str(probes / "runtime/bytecode.py"), str(directory), str(processors), *PACKAGES]
    with contextlib.ExitStack() as stack:
        found = None
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            compiler = stack.enter_context(
                subprocess.Popen(  # noqa: S603 - an argument list, no shell
                    [python, *program],
                    # It closes when this process ends, however that happens.
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={
                        **without_current_directory(inherited),
                        DIRECTORY_VARIABLE: str(directory),
                    },
                    start_new_session=True,
                )
            )
            bytecode = Bytecode(directory, compiler)
            stack.callback(bytecode.stop)
            if compiler.stdout and compiler.stdout.read(1) == b"1":
                found = bytecode
        yield found
