"""What a model does in a call that exporters cannot trace: their own messages do not say it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

GRADIENT = ("computes a gradient", "write the derivative out in forward")
PACKING = (
    "packs sequences of different lengths",
    "give the layer padded sequences, and mask its outputs by the lengths",
)
SCRIPTED = "ScriptModule"
#: What forward does, and what to do instead, by the function of PyTorch that it calls.
WATCHED = {
    "grad": GRADIENT,
    "backward": GRADIENT,
    "_pack_padded_sequence": PACKING,
    "_nested_tensor_from_tensor_list": ("makes a nested tensor", "let it use a padded one"),
    "numpy": ("makes an array of a tensor", "compute with operators of PyTorch"),
    SCRIPTED: ("calls a module of torch.jit", "give the module that was scripted or traced"),
}


class _Observer(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.called: set[str] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.called.add(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def explain(module: torch.nn.Module, call: Callable[[], object]) -> tuple[str, str] | None:
    """Return why exporters cannot trace a call of the module, and a next step; None if unknown."""
    with _Observer() as observer:
        call()
    if any(isinstance(each, torch.jit.ScriptModule) for each in module.modules()):
        observer.called.add(SCRIPTED)
    for name, (what, instead) in WATCHED.items():
        if name in observer.called:
            fix = f"{instead}, or measure workflows that do not export, such as torch.compile"
            return f"exporters cannot trace that forward {what} ({name.strip('_')})", fix
    return None
