"""Save a live module and its example inputs, so that worker processes can open them.

A module whose classes a new process can import is saved by its class: as a pickle, with a factory
that loads it. A class of a notebook or a script cannot be imported elsewhere, so such a module is
exported with `torch.export` and saved as a `.pt2` file; its batch size is dynamic where the model
allows it. This runs in the process of the caller, which has imported torch.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib.util
import io
import pathlib
import pickle
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from probes.adapter import ModelError
from probes.subjects import call_inputs

#: What `torch.export` raises for models that it cannot export: its own errors are `RuntimeError`.
EXPORT_ERRORS = (RuntimeError, ValueError, TypeError, AssertionError, AttributeError, LookupError)
IN_A_FILE = "define it in a file and pass file.py:factory"
FACTORY = '''\
"""Open the module that p3-advisor saved here."""

import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent
sys.path[:0] = {paths!r}


def create():
    """Return the module and its example inputs."""
    # The pickle was written by p3-advisor from a live module.
    return torch.load(HERE / "module.pt", map_location="cpu", weights_only=False)
'''


class NotSavableError(ModelError):
    """The module can be neither pickled nor exported, or it does not take the inputs."""


def save(
    module: torch.nn.Module,
    arguments: tuple[Any, ...],
    directory: pathlib.Path,
    keywords: Mapping[str, Any] | None = None,
) -> str:
    """Save the module below `directory` with example inputs; return its name for `--model`.

    The directory of a model is named after its class and content, so the same model gets the same
    name. Raise `NotSavableError` if the module cannot be saved, or tensors cannot be taken out
    of the inputs, or they have none.
    """
    try:
        arguments, named = call_inputs.detach((tuple(arguments), dict(keywords or {})))
    except ModelError as refused:
        raise NotSavableError(str(refused), refused.fix) from refused
    called, tensors = call_inputs.flatten(module, arguments, named)
    if not tensors:
        raise NotSavableError(
            "the example inputs have no tensor", "pass those of a call of the model"
        )
    names = {type(part).__module__ for part in module.modules()}
    if all(map(_can_import, names)):
        buffer = io.BytesIO()
        # Fails for a function that was defined inside another one, for example.
        with contextlib.suppress(pickle.PicklingError, AttributeError, TypeError, RuntimeError):
            torch.save((module, arguments, named) if named else (module, arguments), buffer)
            folder = _create_folder(module, buffer.getvalue(), directory)
            (folder / "module.pt").write_bytes(buffer.getvalue())
            file = folder / f"{folder.name}.py"
            file.write_text(FACTORY.format(paths=_import_paths(names)), encoding="utf-8")
            return f"{file}:create"
    program = _export(called, tensors)
    # Differs between modules of different structure or weights.
    state = io.BytesIO(repr(module).encode())
    state.seek(0, io.SEEK_END)
    torch.save(module.state_dict(), state)
    folder = _create_folder(module, state.getvalue(), directory)
    exported = folder / f"{folder.name}.pt2"
    torch.export.save(program, exported)
    return str(exported)


def _can_import(name: str) -> bool:
    """Return whether a new process can: not where a module was made at run time."""
    with contextlib.suppress(ImportError, ValueError):
        return name != "__main__" and importlib.util.find_spec(name) is not None
    return False


def _import_paths(names: set[str]) -> list[str]:
    """Return the directories of modules that are in no installed package."""
    paths = set()
    for name in names:
        spec = importlib.util.find_spec(name.partition(".")[0])
        origin = pathlib.Path(spec.origin) if spec and spec.origin else None
        if origin is None or "site-packages" in origin.parts or "dist-packages" in origin.parts:
            continue
        package = origin.parent if origin.name == "__init__.py" else origin
        paths.add(str(package.parent.resolve()))
    return sorted(paths)


def _export(
    module: torch.nn.Module, examples: tuple[torch.Tensor, ...]
) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch")
    shapes: tuple[Any, ...] = tuple({0: batch} if example.dim() else None for example in examples)
    if isinstance(module, call_inputs.StructuredCall):
        shapes = (shapes,)  # its `forward` has one parameter, `*tensors`
    try:
        copied = copy.deepcopy(module)  # the caller's module stays as it is
    except EXPORT_ERRORS as failed:
        reason = f"it can be neither pickled nor copied: {_first_line(failed)}"
        raise NotSavableError(reason, IN_A_FILE) from failed
    copied.eval()
    copied.cpu()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with contextlib.suppress(*EXPORT_ERRORS):
            return torch.export.export(copied, examples, dynamic_shapes=shapes)
        try:
            return torch.export.export(copied, examples)
        except EXPORT_ERRORS as failed:
            problem: Exception = failed
            reason = "it can be neither pickled nor exported"
            fix = IN_A_FILE
            try:
                copied(*examples)
            except EXPORT_ERRORS as raised:
                problem, reason = raised, "it raises an error when it is called with these inputs"
                fix = "call it with them in this process, and fix the error"
            raise NotSavableError(f"{reason}: {_first_line(problem)}", fix) from problem


def _first_line(problem: Exception) -> str:
    return next(iter(str(problem).strip().splitlines()), type(problem).__name__)


def _create_folder(
    module: torch.nn.Module, content: bytes, directory: pathlib.Path
) -> pathlib.Path:
    folder = directory / f"{type(module).__name__}-{hashlib.sha256(content).hexdigest()[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
