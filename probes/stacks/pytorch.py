"""What the workflows that run in PyTorch share: versions, settings, feeding, the wait for the device, the profiler's view of a call."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

from probes.protocol import Request
from probes.subjects.opening import TorchSubject, collect

#: The name that Dynamo gives to the profiler for a call into compiled code.
COMPILED_REGION = "Torch-Compiled Region"


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of torch and of `packages`, as their distributions name them."""
    from importlib import metadata  # noqa: PLC0415

    found = {
        "torch": torch.__version__,
        **{package: metadata.version(package) for package in packages},
    }
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found


def apply_settings(request: Request) -> dict[str, str]:
    """Set the threads, switch gradients off, and return the settings that decide PyTorch's speed."""
    torch.set_num_threads(request.threads)
    # For the whole process: the guard would otherwise cost a call of its own in every timed one.
    torch.inference_mode().__enter__()
    settings = {
        "threads": str(torch.get_num_threads()),
        "gradients": "inference_mode",
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }
    if request.device == "cuda":
        # One precision for float32: left alone, convolutions round to TF32 and matrix products do
        # not.
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32
        settings |= {
            "tf32_matmul": str(torch.backends.cuda.matmul.allow_tf32),
            "tf32_cudnn": str(torch.backends.cudnn.allow_tf32),
            "fp16_reduced_precision_reduction": str(
                torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
            ),
            "bf16_reduced_precision_reduction": str(
                torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
            ),
            "flash_sdp": str(torch.backends.cuda.flash_sdp_enabled()),
            "mem_efficient_sdp": str(torch.backends.cuda.mem_efficient_sdp_enabled()),
            "cudnn_sdp": str(torch.backends.cuda.cudnn_sdp_enabled()),
        }
    return settings


@contextlib.contextmanager
def ordinary_mode() -> Iterator[None]:
    """Export needs tensors that may be traced: leave inference mode, keep gradients off."""
    with torch.inference_mode(mode=False), torch.no_grad():
        yield


def synchronise() -> None:
    """Wait for everything on the device, not only for one stream: work on a side stream must not hide."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def leave_device(subject: TorchSubject) -> None:
    """Move the module's weights to the host: for a stack that has its own, the GPU need not hold them twice."""
    subject.module.to("cpu")
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@dataclasses.dataclass(frozen=True)
class TorchProgram:
    """A callable that takes the module's tensors."""

    subject: TorchSubject
    call: Callable[..., Any]

    def feed(self, inputs: list[Any]) -> tuple[torch.Tensor, ...]:
        """Put the inputs on the device."""
        return self.subject.tensors(inputs)

    def __call__(self, fed: tuple[torch.Tensor, ...]) -> Any:
        """Run once."""
        return self.call(*fed)

    def collect(self, output: Any) -> list[Any]:
        """Return the outputs on the host."""
        return collect(output)


def operators_outside(
    call: Callable[[], object], region_prefixes: tuple[str, ...]
) -> tuple[int, int]:
    """Profile one call; return how many ATen operators ran outside the regions with these name prefixes, and how many regions ran."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
        synchronise()
    outside = regions = 0
    pending = [event for event in profile.events() if event.cpu_parent is None]
    while pending:
        event = pending.pop()
        if event.name.startswith(region_prefixes):
            regions += 1
        elif event.name.startswith("aten::"):
            outside += 1
        else:
            pending += event.cpu_children
    return outside, regions
