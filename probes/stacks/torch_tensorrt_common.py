"""What the two ways into Torch-TensorRT share; one adapter for TensorRT and for the TensorRT for RTX build of the library."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch_tensorrt

from probes.adapter import UnsupportedError
from probes.protocol import Engagement, Request
from probes.stacks import pytorch, pytorch_kernels
from probes.stacks.pytorch import TorchProgram
from probes.subjects.opening import TorchSubject

if TYPE_CHECKING:
    from probes.subjects.causal_lm import CausalLm

#: Names under which the profiler sees an engine run: the C++ runtime's operator, or the Python
#: runtime's region.
ENGINE_REGIONS = ("tensorrt::execute_engine", "PythonTorchTensorRTModule", "TorchTensorRTModule")


def versions() -> dict[str, str]:
    """Return the versions of the library, of the TensorRT beneath it by its kind, and of torch."""
    kind = "tensorrt-rtx" if torch_tensorrt.ENABLED_FEATURES.tensorrt_rtx else "tensorrt"
    # The library puts the one it was built for under this name when it is imported, so it cannot be
    # imported above.
    engines = importlib.import_module("tensorrt")
    return {
        "torch-tensorrt": torch_tensorrt.__version__,
        kind: engines.__version__,
        **pytorch.versions(),
    }


def settings(request: Request) -> dict[str, str]:
    """Return the settings of PyTorch, and what is asked of the engine's sums: whether it obeys shows in the error only.

    TensorRT for RTX 1.4 does not: its error in float16 is the same to the last digit.
    """
    accumulation = (
        "float32 asked for" if request.options.get("fp32_accumulation") else "as TensorRT chooses"
    )
    return {**pytorch.apply_settings(request), "accumulation": accumulation, "min_block_size": "1"}


def compile_options(subject: TorchSubject | CausalLm, request: Request) -> dict[str, Any]:
    """Return what both ways are told: engines for blocks of any size, the tensors' own types at full precision, caches with the arm.

    Precisions are not named: on the RTX build that makes the compiler give up, and `torch.compile`
    then runs eager code.
    """
    accumulate = bool(request.options.get("fp32_accumulation"))
    if accumulate and subject.dtype != "float16":
        message = f"accumulation can be chosen for float16 only; {subject.dtype} is always summed up in float32"
        raise UnsupportedError(message)
    cache = pathlib.Path(request.scratch_directory) / "cache"
    return {
        "min_block_size": 1,
        "disable_tf32": True,
        "use_fp32_acc": accumulate,
        "timing_cache_path": str(cache / "tensorrt-timing.bin"),
        "engine_cache_dir": str(cache / "tensorrt-engines"),
    }


def engagement(program: TorchProgram, fed: Any) -> Engagement:
    """Count the operators that ran in PyTorch against those of the eager module, and the engines that ran."""
    outside, engines = pytorch.operators_outside(lambda: program(fed), ENGINE_REGIONS)
    operators, _ = pytorch.operators_outside(lambda: program.subject.module(*fed), ("no engine",))
    found = {"engines": engines, "operators_outside": outside, "operators": operators}
    if not engines:
        return Engagement(0.0, f"no TensorRT engine ran: {outside} operators ran in PyTorch", found)
    share = max(1 - outside / operators, 0.0) if operators else 1.0
    proof = f"{engines} TensorRT engines a call; {outside} operators ran in PyTorch, {operators} do without engines"
    return Engagement(share, proof, found)


def engagement_of_text(
    call: Callable[[], object], eager: Callable[[], object], passes: int
) -> Engagement:
    """Count the passes that ran compiled, and of their operators those that ran in PyTorch instead of in engines.

    What runs between the passes, and in those that are not compiled, runs in PyTorch either way.
    """
    between, compiled = pytorch.operators_outside(call, (pytorch.COMPILED_REGION,))
    outside, engines = pytorch.operators_outside(call, ENGINE_REGIONS)
    operators, _ = pytorch.operators_outside(eager, ("no engine",))
    left, replaceable = outside - between, max(operators - between, 1)
    found = {
        "engines": engines,
        "compiled_passes": compiled,
        "operators_left": left,
        "operators_replaceable": replaceable,
    }
    if not engines:
        return Engagement(0.0, f"no TensorRT engine ran: {outside} operators ran in PyTorch", found)
    proof = f"{compiled} of {passes} passes ran compiled, with {engines} engines; {left} of their {replaceable} operators ran in PyTorch"
    return Engagement(compiled / passes * max(1 - left / replaceable, 0.0), proof, found)


def with_graphs(engaged: Engagement, started: pytorch_kernels.Started) -> Engagement:
    """Add what was captured; a runtime that captures nothing is not what was asked for."""
    facts = {**engaged.facts, **pytorch_kernels.facts(started)}
    if not started.graphs:
        return Engagement(0.0, "Torch-TensorRT captured no CUDA graph", facts)
    return Engagement(
        engaged.share, f"{engaged.proof}; {started.graphs} captured graphs start its kernels", facts
    )
