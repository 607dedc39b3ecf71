"""Give a live module a name that worker processes can open.

The saving is done by `probes.live_models`, in the process of the caller and with its torch. It is
imported only when there is a module to save, so that the advisor itself never imports torch.
"""

from __future__ import annotations

import inspect
import pathlib
import sys
from collections.abc import Callable, Mapping

from advisor.errors import ModelRefusedError

WANTED = "pass a torch.nn.Module with inputs=(example tensors), or a name as in --model"


def save_live_model(model: object, inputs: object, directory: pathlib.Path) -> str:
    """Save a `torch.nn.Module` below `directory`; return its name for `--model`.

    Raise `ModelRefusedError` for anything else, and for a module that cannot be saved.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise ModelRefusedError(f"a model cannot be a {type(model).__name__}", WANTED)
    examples = _positional(model, inputs)
    if not examples or not all(isinstance(example, torch.Tensor) for example in examples):
        raise ModelRefusedError(
            f"{type(model).__name__} needs example inputs that are all tensors",
            "pass inputs=(tensor, ...); the first dimension is the batch",
        )
    from probes import live_models  # noqa: PLC0415 - imports torch, which the caller has

    try:
        return live_models.save(model, examples, directory)
    except live_models.NotSavableError as problem:
        raise ModelRefusedError(
            f"{type(model).__name__} can be neither pickled nor exported: {problem}",
            "define it in a file and pass file.py:factory",
        ) from problem


def _positional(model: object, inputs: object) -> tuple[object, ...]:
    """Return the inputs as positional arguments; keywords are ordered as `forward` takes them."""
    if inputs is None:
        return ()
    if isinstance(inputs, Mapping):
        forward: Callable[..., object] = model.forward  # type: ignore[attr-defined]
        try:
            return inspect.signature(forward).bind(**inputs).args
        except TypeError as problem:
            raise ModelRefusedError(
                f"the inputs do not fit {type(model).__name__}.forward: {problem}",
                "pass inputs=(tensor, ...) in the order of forward",
            ) from problem
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
