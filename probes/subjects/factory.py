"""Load a user's model from a function that returns the module and example inputs.

It is named `package.module:factory` or `file.py:factory`. Example inputs are a tensor, a tuple of
positional inputs, or a dictionary of keyword inputs; a third value of the factory,
`example_kwargs`, has keyword inputs next to positional ones. Inputs may hold tensors in
dictionaries, tuples and lists, and values that are not tensors.
"""

from __future__ import annotations

import importlib
import inspect
import pathlib
import shlex
import sys
import types
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from probes.adapter import ModelError
from probes.facts import TRAINING_MODE
from probes.files import load_module
from probes.protocol import Request
from probes.subjects import adjustments, higher_precision
from probes.subjects.call_inputs import ExampleLike, are_different_tensors, flatten
from probes.subjects.loaded_model import LoadedModel

CONTRACT = (
    "the factory must return (module, inputs) or (module, inputs, example_kwargs): inputs are a"
    " tuple of tensors or a dictionary of keyword inputs"
)


def create(request: Request) -> LoadedModel:
    target, given = request.subject["name"], request.subject.get("inputs", "")
    made = call_factory(target)
    if given:
        made = (made[0] if isinstance(made, tuple) and made else made, *read_given(given))
    returned = check_returned(made, target)
    adjusted = {TRAINING_MODE: "switched off by model.eval()"} if returned[0].training else {}
    if isinstance(returned[0], torch.jit.ScriptModule):
        adjusted["TorchScript"] = (
            "kept; torch.compile and torch.export take only the module before it"
        )
    module, examples = flatten(adjustments.uncompile(returned[0], adjusted), *returned[1:])
    if not examples:
        fix = f"{CONTRACT}; a text is one by its tokens' ids, an array by torch.from_numpy"
        raise ModelError(f"{target!r} returned example inputs without a tensor", fix)
    refuse_without_values(module)
    if request.dtype != "own":
        dtype = getattr(torch, request.dtype)
        module = higher_precision.cast_module(module, dtype)
        examples = tuple(higher_precision.cast(example, dtype) for example in examples)
    return LoadedModel(
        module=module,
        arguments=arguments_like(examples, request.batch_sizes, fixed=bool(given)),
        shares_weights=any(True for _ in (*module.parameters(), *module.buffers())),
        names=keyword_names(*returned[1:]),
        adjusted=adjusted,
    )


def count_rows(target: str, given: str) -> tuple[int, bool]:
    """Return the rows of the example inputs, and that the model may take others."""
    inputs = read_given(given) if given else check_returned(call_factory(target), target)[1:]
    return shared_rows(*inputs), False


def shared_rows(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> int:
    """Return the first dimension that the tensors of inputs share; 0 if they share none."""
    _, examples = flatten(torch.nn.Module(), arguments, keywords)
    first = {len(example) for example in examples if example.dim()}
    return first.pop() if len(first) == 1 else 0


def read_given(place: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Read an .npz file or call a function; raise `ModelError` for a file without arrays."""
    if not place.endswith(".npz"):
        _, arguments, keywords = check_returned((torch.nn.Module(), call_factory(place)), place)
        return arguments, keywords
    try:
        with np.load(place, allow_pickle=False) as archive:
            tensors = {name: torch.from_numpy(archive[name]) for name in archive.files}
    except (OSError, ValueError, TypeError, zipfile.BadZipFile) as problem:
        reason = f"{place!r} has no arrays of numbers: {problem}"
        raise ModelError(reason, "write it with numpy.savez(file, NAME=array)") from problem
    return (tuple(tensors.values()), {}) if "arr_0" in tensors else ((), tensors)


def refuse_without_values(module: torch.nn.Module) -> None:
    tensors = (*module.parameters(), *module.buffers())
    if any(map(torch.nn.parameter.is_lazy, tensors)):
        raise ModelError(
            "the model has lazy layers, whose weights have no shape before the first call",
            "let the factory call the model once with the example inputs before it returns",
        )
    if any(tensor.is_meta for tensor in tensors):
        raise ModelError(
            "the model has weights on the device meta, where tensors have no values",
            "let the factory create the model on the CPU, or load its weights",
        )


def keyword_names(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[str, ...] | None:
    """Return none for positional tensors; None for both kinds, or a tensor that is there twice."""
    if not are_different_tensors((*arguments, *keywords.values())):
        return None
    return None if arguments and keywords else tuple(keywords)


def call_factory(target: str) -> object:
    """Import what `target` names and call it; exceptions of the user's code pass through."""
    module_or_file, _, name = target.rpartition(":")
    factory = getattr(import_module_or_file(module_or_file), name, None)
    if isinstance(factory, torch.nn.Module):
        raise ModelError(f"{target!r} is a module, not a function that returns one", CONTRACT)
    if not callable(factory):
        reason = f"{module_or_file!r} has no function {name!r}"
        raise ModelError(reason, "check the spelling of the part after the colon")
    if needed := _needed_parameters(factory):
        raise ModelError(
            f"{target!r} needs arguments, but a factory is called without any: {', '.join(needed)}",
            "give these parameters default values, or name a function without parameters that"
            " calls it",
        )
    return factory()


def _needed_parameters(factory: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # Some callables of C have no signature.
        return []
    variadic = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return [
        each.name
        for each in parameters
        if each.default is inspect.Parameter.empty and each.kind not in variadic
    ]


def import_module_or_file(name: str) -> types.ModuleType:
    if not name.endswith(".py"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if problem.name is None or not f"{name}.".startswith(f"{problem.name}."):
                raise
            reason = f"this interpreter finds no module {problem.name!r}"
            raise ModelError(
                reason,
                "name a file instead, as in package/module.py:function, or set PYTHONPATH; "
                "--python names the interpreter that has the module",
            ) from problem
    path = pathlib.Path(name).resolve()
    sys.path.insert(0, str(path.parent))
    return load_module(path.stem, path)


def check_returned(
    returned: object, target: str
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Return the module, its positional and its keyword inputs; raise `ModelError` otherwise."""
    if isinstance(returned, torch.nn.Module):
        reason = f"{target!r} returned {type(returned).__name__} without example inputs"
        raise ModelError(reason, _ways_to_give_inputs(target))
    if not isinstance(returned, tuple) or len(returned) not in {2, 3}:
        raise ModelError(f"{target!r} returned {type(returned).__name__}, not a pair", CONTRACT)
    module, inputs, keywords = (*returned, {}) if len(returned) == 2 else returned
    if not isinstance(module, torch.nn.Module):
        reason = f"{target!r} returned {type(module).__name__}, which is not a torch.nn.Module"
        is_program = isinstance(module, torch.export.ExportedProgram)
        raise ModelError(reason, "return program.module() as it" if is_program else CONTRACT)
    if isinstance(inputs, Mapping) and not keywords:
        inputs, keywords = (), inputs
    elif isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)):
        reason = f"{target!r} returned example inputs of the type {type(inputs).__name__}"
        raise ModelError(reason, CONTRACT)
    if not isinstance(keywords, Mapping) or not all(isinstance(name, str) for name in keywords):
        reason = f"{target!r} returned a third value that is not a dictionary of keyword arguments"
        raise ModelError(reason, CONTRACT)
    return module, tuple(inputs), dict(keywords)


def _ways_to_give_inputs(target: str) -> str:
    """Name the function `NAME_inputs` beside the factory `NAME`, if its module has one."""
    place, _, name = target.rpartition(":")
    module = sys.modules.get(pathlib.Path(place).stem if place.endswith(".py") else place)
    made = f"{name}_inputs"
    inputs = shlex.quote(f"{place}:{made}") if hasattr(module, made) else "FILE.py:FUNCTION"
    return f"let it return (module, inputs), or name what returns the inputs: --inputs {inputs}"


def arguments_like(
    examples: tuple[torch.Tensor, ...], batch_sizes: list[int], *, fixed: bool = False
) -> tuple[ExampleLike, ...]:
    """Return an argument like each example, or with its values if they are `fixed`.

    If all examples have the same first dimension, that is the batch. Otherwise the model can only
    be called with the examples' shapes, and `batch_sizes` must be `[1]`.
    """
    refuse_undrawable(examples)
    rows = {example.shape[0] for example in examples if example.dim()}
    if rows == {0}:
        raise ModelError("the example inputs have no rows", "give examples with one row or more")
    has_batch = len(rows) == 1
    if not has_batch and batch_sizes != [1]:
        raise ModelError(
            "the example inputs do not share their first dimension, so there is no batch to change",
            "use --batch-sizes 1: the examples' shapes are then used as given",
        )
    return tuple(
        ExampleLike(
            tuple(example.shape[1:] if has_batch else example.shape),
            example.dtype,
            batched=has_batch and example.dim() > 0,
            fixed=fixed,
            example=example,
        )
        for example in examples
    )


def refuse_undrawable(examples: tuple[torch.Tensor, ...]) -> None:
    for example in examples:
        if example.is_meta:
            reason = "an example input is on the device meta, where tensors have no values"
            raise ModelError(reason, "let the factory create it on the CPU")
        kinds = {
            "masked": isinstance(example, torch.masked.MaskedTensor),
            "quantised": example.is_quantized,
            "nested": example.is_nested,
            str(example.layout).removeprefix("torch."): example.layout is not torch.strided,
        }
        if kind := next((name for name, applies in kinds.items() if applies), ""):
            raise ModelError(
                f"an example input is a {kind} tensor, not a dense one",
                "let forward take dense tensors, such as the indices and values of a sparse one or"
                " the values and offsets of a nested one, and make the other tensor of them",
            )
