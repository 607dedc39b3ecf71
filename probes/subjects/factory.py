"""Load a user's model from a function that returns `(module, example_inputs)`.

It is named `package.module:factory` or `file.py:factory`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
import types

import torch

from probes.adapter import ModelError
from probes.protocol import Request
from probes.subjects.loaded_model import ExampleLike, LoadedModel

CONTRACT = "the factory must return (torch.nn.Module, tuple of example tensors)"


def create(request: Request) -> LoadedModel:
    """Call the factory, and cast what it returns to the request's precision."""
    target = request.subject["name"]
    module, examples = check_returned(call_factory(target), target)
    if request.dtype != "native":
        dtype = getattr(torch, request.dtype)
        module = module.to(dtype)
        examples = tuple(
            example.to(dtype) if example.is_floating_point() else example for example in examples
        )
    return LoadedModel(
        module=module,
        arguments=arguments_like(examples, request.batch_sizes),
        weights="as the factory made them",
        shares_weights=any(True for _ in module.parameters()),
    )


def call_factory(target: str) -> object:
    """Import what `target` names and call it; exceptions of the user's code pass through."""
    module_or_file, _, name = target.rpartition(":")
    module = import_module_or_file(module_or_file)
    factory = getattr(module, name, None)
    if not callable(factory):
        reason = f"{module_or_file!r} has no function {name!r}"
        raise ModelError(reason, "check the spelling of the part after the colon")
    returned: object = factory()
    return returned


def import_module_or_file(name: str) -> types.ModuleType:
    """Import a module by name, or a `.py` file with its folder on the import path."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = pathlib.Path(name).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def check_returned(
    returned: object, target: str
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Return the module and its examples; raise `ModelError` if `returned` is anything else."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        reason = f"{target!r} returned {type(returned).__name__}, not a pair"
        raise ModelError(reason, CONTRACT)
    module, examples = returned
    if not isinstance(module, torch.nn.Module):
        reason = f"{target!r} returned {type(module).__name__}, which is no torch.nn.Module"
        raise ModelError(reason, CONTRACT)
    examples = (examples,) if isinstance(examples, torch.Tensor) else examples
    if not isinstance(examples, (tuple, list)) or not all(
        isinstance(example, torch.Tensor) for example in examples
    ):
        reason = f"{target!r} returned example inputs that are not all tensors"
        raise ModelError(reason, CONTRACT)
    return module, tuple(examples)


def arguments_like(
    examples: tuple[torch.Tensor, ...], batch_sizes: list[int]
) -> tuple[ExampleLike, ...]:
    """Return an argument like each example.

    If all examples have the same first dimension, that is the batch. Otherwise the model can only
    be called with the examples' shapes, and `batch_sizes` must be `[1]`.
    """
    first = {example.shape[0] for example in examples if example.dim()}
    batched = len(first) == 1
    if not batched and batch_sizes != [1]:
        reason = (
            "the example inputs do not share their first dimension, so there is no batch to change"
        )
        raise ModelError(reason, "use --batch-sizes 1: the examples' shapes are then used as given")
    return tuple(
        ExampleLike(example, batched=batched and bool(example.dim()), dtype=example.dtype)
        for example in examples
    )
