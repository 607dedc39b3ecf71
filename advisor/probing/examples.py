"""Find the batch size of the inputs that a model comes with, in the interpreter of its workers."""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

from advisor.domain.import_path import WITHOUT_CURRENT_DIRECTORY, without_current_directory
from advisor.domain.model import ExportedModel, FactoryModel, OnnxModel
from advisor.domain.question import LARGEST_BATCH, Question
from advisor.probing.env_variables import OFFLINE_VARIABLES
from advisor.probing.processes import kill_process_tree
from advisor.store.files import open_regular
from probes.protocol import MARK_VARIABLE

#: The modules of `probes.subjects` that count the rows of a kind of model.
MODULES: dict[type, str] = {
    FactoryModel: "factory",
    ExportedModel: "exported",
    OnnxModel: "onnx_inputs",
}
SCRIPT = f"""{WITHOUT_CURRENT_DIRECTORY}
import importlib, os, pathlib, runpy
worker, module, name, given, confined, folder = sys.argv[1:]
runpy.run_path(worker)["register_package"]()
importlib.import_module("probes.watchdog").start(1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the watchdog's
if confined:
    from probes import sandbox
    sandbox.enter([pathlib.Path(folder)], pathlib.Path(folder, "tmp"))
rows, is_fixed = importlib.import_module(f"probes.subjects.{{module}}").count_rows(name, given)
pathlib.Path(folder, "rows").write_text(f"{{rows}} {{is_fixed:d}}")
os._exit(0)
"""
#: A model whose inputs take longer is measured at batch size 1.
MOST_SECONDS = 60.0
LONGEST_ANSWER = 16


class OwnBatch(NamedTuple):
    """The batch size of a model's own inputs, and whether it takes no other."""

    size: int
    is_fixed: bool


def find_own_batch(
    question: Question, probes: pathlib.Path, environment: Mapping[str, str]
) -> OwnBatch | None:
    """Return None for a model without inputs of its own, and where these cannot be opened."""
    model = question.model
    if not isinstance(model, (FactoryModel, ExportedModel, OnnxModel)):
        return None
    worker, confined = str(probes / "runtime/worker.py"), "sandbox" if question.sandbox else ""
    module, given = MODULES[type(model)], model.inputs
    command = (question.python, "-c", SCRIPT, worker, module, model.name, given, confined)
    variables = without_current_directory(environment)
    variables |= OFFLINE_VARIABLES if question.offline else {}
    files = {name.rpartition(":")[0] or name for name in (model.name, given)}
    times = tuple(os.stat(each).st_mtime_ns for each in sorted(files) if os.path.isfile(each))  # noqa: PTH113, PTH116 - too long a name is no file
    return _run_script(command, tuple(variables.items()), times)


@functools.lru_cache(maxsize=8)  # the screens make the plan of the same answers again
def _run_script(
    command: tuple[str, ...], variables: tuple[tuple[str, str], ...], _times: tuple[int, ...]
) -> OwnBatch | None:
    """Return what the script writes, for files of these times of change."""
    read, write = map(os.fdopen, os.pipe(), "rw")
    # The watchdog ends the process with this one, which holds the other end of its standard input.
    with tempfile.TemporaryDirectory() as folder, read, write:
        try:
            subprocess.run(  # noqa: S603 - an argument list, no shell
                [*command, folder],
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**dict(variables), MARK_VARIABLE: folder},
                timeout=MOST_SECONDS,
                check=True,
                start_new_session=True,
            )
            file, _ = open_regular(pathlib.Path(folder, "rows"))
            with file:
                size, is_fixed = map(int, file.read(LONGEST_ANSWER).split())
        except (OSError, subprocess.SubprocessError, ValueError):
            return None  # the worker that opens the model reports it
        finally:
            kill_process_tree(pathlib.Path(folder))
    return OwnBatch(size, bool(is_fixed)) if 1 <= size <= LARGEST_BATCH else None
