"""Configure Torch-TensorRT and count its engines, on TensorRT or TensorRT for RTX."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable
from typing import Any

import torch_tensorrt

from probes.adapter import Engagement, Request
from probes.stacks import pytorch
from probes.stacks.pytorch import TorchProgram

#: Profiler names of an engine's run: the C++ runtime's operator and the Python runtime's regions.
ENGINE_REGIONS = ("tensorrt::execute_engine", "PythonTorchTensorRTModule", "TorchTensorRTModule")


def versions() -> dict[str, str]:
    kind = "tensorrt-rtx" if torch_tensorrt.ENABLED_FEATURES.tensorrt_rtx else "tensorrt"
    # On import, Torch-TensorRT registers the library it was built for under this name, so it
    # cannot be imported at the top.
    tensorrt = importlib.import_module("tensorrt")
    return {
        "torch-tensorrt": torch_tensorrt.__version__,
        kind: tensorrt.__version__,
        **pytorch.versions(),
    }


def settings(request: Request) -> dict[str, str]:
    """Return what is requested: equal float16 errors show that TensorRT for RTX 1.4 ignores it."""
    accumulation = (
        "float32 requested" if request.options.get("fp32_accumulation") else "TensorRT's choice"
    )
    return {**pytorch.apply_settings(request), "accumulation": accumulation, "min_block_size": "1"}


def printed_options(request: Request) -> dict[str, Any]:
    """Return options without precisions, which the RTX build refuses: eager code would run."""
    accumulation = {"use_fp32_acc": True} if request.options.get("fp32_accumulation") else {}
    return {"min_block_size": 1, "disable_tf32": True, **accumulation}


def compile_options(request: Request) -> dict[str, Any]:
    cache = pathlib.Path(request.scratch_directory) / "cache"
    return {
        **printed_options(request),
        "timing_cache_path": str(cache / "tensorrt-timing.bin"),
        "engine_cache_dir": str(cache / "tensorrt-engines"),
    }


def engagement(program: TorchProgram, device_inputs: Any) -> Engagement:
    return compare_operators(
        lambda: program(device_inputs), lambda: program.subject.module(*device_inputs)
    )


def compare_operators(call: Callable[[], object], eager: Callable[[], object]) -> Engagement:
    """Return the share of the operators of the eager call that engines replace."""
    outside, engines = pytorch.count_operators_outside(call, ENGINE_REGIONS)
    operators, _ = pytorch.count_operators_outside(eager)
    if not engines:
        return Engagement(0.0, f"no TensorRT engine ran: {outside} operators ran in PyTorch")
    share = max(1 - outside / operators, 0.0) if operators else 1.0
    proof = (
        f"{engines} TensorRT engines a call; {outside} operators ran in PyTorch, "
        f"{operators} without engines"
    )
    return Engagement(share, proof)
