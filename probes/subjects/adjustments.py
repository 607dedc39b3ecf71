"""What a model does to its process or comes wrapped in, and what is done about it.

All arms are compared under the same settings, and the baseline is the model without a compiler.
"""

from __future__ import annotations

import contextlib
import operator
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from probes.adapter import ModelError
from probes.subjects.module_state import State, original_function

#: Returns a setting, and sets it.
Setting = tuple[Callable[[], Any], Callable[[Any], object]]
#: What functions of earlier releases of PyTorch read while `fp32_precision` differs from them.
UNREADABLE = "unreadable"


def _flag(owner: Any, name: str) -> Setting:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _fp32_precision(owner: Any) -> Setting:
    read, write = _flag(owner, "fp32_precision")
    return lambda: "ieee" if read() == "none" else read(), write


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
if hasattr(torch.backends, "fp32_precision"):  # since PyTorch 2.9
    PUT_BACK["fp32_precision"] = _fp32_precision(torch.backends)
    PUT_BACK |= {
        f"{owner}.fp32_precision": _fp32_precision(operator.attrgetter(owner)(torch.backends))
        for owner in ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv")
    }
#: Settings that the code of the model may rely on; every worker that opens the model has them.
KEPT: dict[str, Callable[[], Any]] = {
    "default_dtype": torch.get_default_dtype,
    "default_device": torch.get_default_device,
    "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
    "cudnn": lambda: torch.backends.cudnn.enabled,
    "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
    "flash_attention": torch.backends.cuda.flash_sdp_enabled,
    "efficient_attention": torch.backends.cuda.mem_efficient_sdp_enabled,
    "math_attention": torch.backends.cuda.math_sdp_enabled,
    "fastpath_of_attention": torch.backends.mha.get_fastpath_enabled,
}
#: Beginnings of environment variables that stacks read.
VARIABLES = (
    *("OMP_", "MKL_", "KMP_", "DNNL_", "ONEDNN_", "OPENBLAS_", "CUDA_", "CUBLAS_", "CUDNN_"),
    *("NVIDIA_", "ATEN_", "TORCH", "PYTORCH_", "TRITON_"),
)
#: What scikit-learn sets when it is imported; no time depends on it.
OF_SCIKIT_LEARN = {"KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"}


def read_settings() -> dict[str, Any]:
    readers = {**{name: read for name, (read, _) in PUT_BACK.items()}, **KEPT}
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(VARIABLES) and "CACHE" not in name and name not in OF_SCIKIT_LEARN
    }
    return {**{name: _read(read) for name, read in readers.items()}, **variables}


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RuntimeError:
        return UNREADABLE


def changed_settings(before: dict[str, Any]) -> dict[str, Any]:
    """Return the present values of what differs from `before`; None for what is gone."""
    now = read_settings()
    return {
        name: now.get(name)
        for name in now | before
        if UNREADABLE not in {now.get(name), before.get(name)} and now.get(name) != before.get(name)
    }


def refuse_changed_settings(before: dict[str, Any]) -> None:
    """Raise `ModelError` if calls have changed settings: compiled programs would not."""
    if changed := changed_settings(before):
        named = ", ".join(f"{name} to {value}" for name, value in changed.items())
        raise ModelError(
            f"forward changes settings of the process ({named}), so workflows that call it would"
            " run under others than those that compile it",
            "change them where the model is created: p3-advisor then measures all workflows alike",
        )


@contextlib.contextmanager
def watch_settings(adjusted: dict[str, str]) -> Iterator[None]:
    """Put settings back that are changed in this context, and add what was done to `adjusted`."""
    before = read_settings()
    yield
    for name in changed_settings(before):
        # A setting may have been put back with another one.
        if name not in (changed := changed_settings(before)):
            continue
        now = changed[name]
        adjusted[name] = f"set to {now} by the model, kept"
        if name in PUT_BACK:
            adjusted[name] = f"set to {now} by the model, put back to {before[name]}"
            PUT_BACK[name][1](before[name])


def uncompile(module: torch.nn.Module, adjusted: dict[str, str]) -> torch.nn.Module:
    """Return the module without `torch.compile` around it, its parts and their functions."""
    compiled = [module] if _is_compiled(module) else []
    module = _original(module)
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule):
            continue
        for name, child in part._modules.items():  # noqa: SLF001 - no public name
            if child is not None and _is_compiled(child):
                compiled.append(child)
                part._modules[name] = _original(child)  # noqa: SLF001 - as above
        if part._compiled_call_impl is not None:  # noqa: SLF001 - as above
            compiled.append(part)
            part._compiled_call_impl = None  # noqa: SLF001 - as above
        for name, value in (("forward", type(part).forward), *vars(part).items()):
            function = original_function(value)
            if function is not value:
                compiled.append(part)
                is_method = value is type(part).forward and name not in vars(part)
                vars(part)[name] = function.__get__(part) if is_method else function
    if compiled:
        adjusted["torch.compile"] = "taken off the model that the factory returned"
    if "torch._dynamo" in sys.modules and State(module, reads_tensors=False).is_compiled:
        adjusted["torch.compile"] = "without effect in eager PyTorch, also around functions"
    return module


def _is_compiled(module: Any) -> bool:
    # By name: importing the class takes a second.
    return type(module).__name__ == "OptimizedModule" and hasattr(module, "_orig_mod")


def _original(module: torch.nn.Module) -> torch.nn.Module:
    while _is_compiled(module):
        module = module._orig_mod  # noqa: SLF001 - no public name
    return module
