"""What a model does to its process or comes wrapped in, and what is done about it.

All arms are compared under the same settings, and the baseline is the model without a compiler.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

#: Returns a setting, and sets it.
Setting = tuple[Callable[[], Any], Callable[[Any], object]]


def _flag(owner: Any, name: str) -> Setting:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


#: Settings that decide the speed of PyTorch alone, so they are put back.
PUT_BACK: dict[str, Setting] = {
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "float32_matmul_precision": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "tf32_matmul": _flag(torch.backends.cuda.matmul, "allow_tf32"),
    "tf32_cudnn": _flag(torch.backends.cudnn, "allow_tf32"),
    "cudnn_benchmark": _flag(torch.backends.cudnn, "benchmark"),
    "mkldnn": _flag(torch.backends.mkldnn, "enabled"),
}
#: Settings that the code of the model may rely on; every worker that opens the model has them.
KEPT: dict[str, Callable[[], Any]] = {
    "default_dtype": torch.get_default_dtype,
    "default_device": torch.get_default_device,
    "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
}


@contextlib.contextmanager
def watch_settings(adjusted: dict[str, str]) -> Iterator[None]:
    """Put settings back that are changed in this context, and add what was done to `adjusted`."""
    before = {name: read() for name, (read, _) in PUT_BACK.items()}
    kept = {name: read() for name, read in KEPT.items()}
    yield
    for name, (read, write) in PUT_BACK.items():
        if (now := read()) != before[name]:
            adjusted[name] = f"set to {now} by the model, put back to {before[name]}"
            write(before[name])
    for name, read in KEPT.items():
        if (now := read()) != kept[name]:
            adjusted[name] = f"set to {now} by the model, kept"


def uncompile(module: torch.nn.Module, adjusted: dict[str, str]) -> torch.nn.Module:
    """Return the module without `torch.compile` around it, its parts and their functions."""
    found = [module] if _is_compiled(module) else []
    module = _original(module)
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule):
            continue
        for name, child in part._modules.items():  # noqa: SLF001 - no public name
            if child is not None and _is_compiled(child):
                found.append(child)
                part._modules[name] = _original(child)  # noqa: SLF001 - as above
        if part._compiled_call_impl is not None:  # noqa: SLF001 - as above
            found.append(part)
            part._compiled_call_impl = None  # noqa: SLF001 - as above
        for name, value in (("forward", type(part).forward), *vars(part).items()):
            function = getattr(value, "_torchdynamo_orig_callable", None)
            # `torch.compiler.disable` wraps functions, too.
            if function and not getattr(value, "_torchdynamo_disable", False):
                found.append(part)
                is_method = value is type(part).forward and name not in vars(part)
                vars(part)[name] = function.__get__(part) if is_method else function
    if found:
        adjusted["torch.compile"] = "taken off the model that the factory returned"
    return module


def _is_compiled(module: Any) -> bool:
    # By name: importing the class takes a second.
    return type(module).__name__ == "OptimizedModule" and hasattr(module, "_orig_mod")


def _original(module: torch.nn.Module) -> torch.nn.Module:
    while _is_compiled(module):
        module = module._orig_mod  # noqa: SLF001 - no public name
    return module
