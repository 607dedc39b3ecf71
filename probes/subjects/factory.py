"""A user's own model: `package.module:factory` or `file.py:factory`, a function that returns `(module, example_inputs)`."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
from typing import Any

import torch

from probes.adapter import ModelError
from probes.protocol import Request
from probes.subjects.created import Created, Like

CONTRACT = "the factory must return (torch.nn.Module, tuple of example tensors)"


def create(request: Request) -> Created:
    """Call the factory and shape inputs after its examples."""
    target = request.subject["name"]
    returned = call_factory(target)
    module, examples = check_returned(returned, target)
    if request.dtype != "native":
        dtype = getattr(torch, request.dtype)
        module = module.to(dtype)
        examples = tuple(
            example.to(dtype) if example.is_floating_point() else example for example in examples
        )
    return Created(
        module=module,
        arguments=like_examples(examples, request.batch_sizes),
        weights="as the factory made them",
        shares_weights=any(True for _ in module.parameters()),
    )


def call_factory(target: str) -> Any:
    """Import what `target` names and call it; what the user's own code raises passes through to the harness."""
    place, _, name = target.rpartition(":")
    module = import_place(place)
    if not callable(getattr(module, name, None)):
        reason = f"{place!r} has no function {name!r}"
        raise ModelError(reason, "check the spelling of the part after the colon")
    return getattr(module, name)()


def import_place(place: str) -> Any:
    """Import a module by name, or a file by path with its folder on the import path, as `python file.py` would."""
    if not place.endswith(".py"):
        return importlib.import_module(place)
    path = pathlib.Path(place).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(place)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def check_returned(returned: Any, target: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Return the module and its examples, or raise `ModelError` that says what is wrong with them."""
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


def like_examples(examples: tuple[torch.Tensor, ...], batch_sizes: list[int]) -> tuple[Like, ...]:
    """Return arguments after the examples; the first dimension is the batch if all examples share it."""
    first = {example.shape[0] for example in examples if example.dim()}
    batched = len(first) == 1
    if not batched and batch_sizes != [1]:
        reason = (
            "the example inputs do not share their first dimension, so there is no batch to change"
        )
        raise ModelError(reason, "use --batch-sizes 1: the examples are then taken as they are")
    return tuple(
        Like(example, batched=batched and bool(example.dim()), dtype=example.dtype)
        for example in examples
    )
