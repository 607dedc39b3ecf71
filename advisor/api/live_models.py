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
    if inputs is None:
        raise ModelRefusedError(f"{type(model).__name__} needs example inputs", WANTED)
    arguments, keywords = _split(inputs)
    _check_keywords(model, keywords)
    from probes import live_models  # noqa: PLC0415 - imports torch, which the caller has

    try:
        return live_models.save(model, arguments, directory, keywords)
    except live_models.NotSavableError as problem:
        raise ModelRefusedError(
            f"{type(model).__name__} can be neither pickled nor exported: {problem}",
            "define it in a file and pass file.py:factory",
        ) from problem


def _split(inputs: object) -> tuple[tuple[object, ...], dict[str, object]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def _check_keywords(model: object, keywords: dict[str, object]) -> None:
    """Raise `ModelRefusedError` for keywords that `forward` does not take."""
    if not keywords:
        return
    forward: Callable[..., object] = model.forward  # type: ignore[attr-defined]
    try:
        inspect.signature(forward).bind(**keywords)
    except TypeError as problem:
        raise ModelRefusedError(
            f"the inputs do not fit {type(model).__name__}.forward: {problem}",
            "pass inputs=(tensor, ...) in the order of forward",
        ) from problem
