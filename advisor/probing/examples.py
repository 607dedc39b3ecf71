"""Find the batch size of the inputs that the user gives with a model."""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping

from advisor.domain.import_path import WITHOUT_CURRENT_DIRECTORY, without_current_directory
from advisor.domain.model import FactoryModel
from advisor.domain.question import LARGEST_BATCH, Question
from advisor.probing.env_variables import OFFLINE_VARIABLES
from advisor.probing.processes import kill_process_tree
from advisor.store.files import open_regular
from probes.protocol import MARK_VARIABLE

#: Runs in the interpreter of the workers.
SCRIPT = f"""{WITHOUT_CURRENT_DIRECTORY}
import os, pathlib, runpy
worker, name, given, confined, folder = sys.argv[1:]
runpy.run_path(worker)["register_package"]()
if confined:
    from probes import sandbox
    sandbox.enter([pathlib.Path(folder)], pathlib.Path(folder, "tmp"))
from probes.subjects import factory
pathlib.Path(folder, "rows").write_text(str(factory.count_rows(name, given)))
os._exit(0)
"""
#: A model whose inputs take longer is measured at batch size 1.
MOST_SECONDS = 60.0
LONGEST_NUMBER = 8


def rows_of_examples(
    question: Question, probes: pathlib.Path, environment: Mapping[str, str]
) -> int | None:
    """Return the batch size of the model's own inputs; None if it has none that can be opened."""
    model, given = question.model, getattr(question.model, "inputs", "")
    if not (given or isinstance(model, FactoryModel)):
        return None
    worker, confined = str(probes / "runtime/worker.py"), "sandbox" if question.sandbox else ""
    command = (question.python, "-c", SCRIPT, worker, model.name, given, confined)
    variables = without_current_directory(environment)
    variables |= OFFLINE_VARIABLES if question.offline else {}
    files = {name.rpartition(":")[0] or name for name in (model.name, given)}
    times = tuple(os.stat(each).st_mtime_ns for each in sorted(files) if os.path.isfile(each))  # noqa: PTH113, PTH116 - too long a name is no file
    return _run_script(command, tuple(variables.items()), times)


@functools.lru_cache(maxsize=8)  # the screens make the plan of the same answers again
def _run_script(
    command: tuple[str, ...], variables: tuple[tuple[str, str], ...], _times: tuple[int, ...]
) -> int | None:
    """Return the number that the script writes, for files of these times of change."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(  # noqa: S603 - an argument list, no shell
                [*command, folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**dict(variables), MARK_VARIABLE: folder},
                timeout=MOST_SECONDS,
                check=True,
            )
            file, _ = open_regular(pathlib.Path(folder, "rows"))
            with file:
                rows = int(file.read(LONGEST_NUMBER))
        except (OSError, subprocess.SubprocessError, ValueError):
            return None  # the worker that opens the model reports it
        finally:
            kill_process_tree(pathlib.Path(folder))
    return rows if 1 <= rows <= LARGEST_BATCH else None
