"""Versions, settings and programs shared by the workflows that take PyTorch's tensors."""

from __future__ import annotations

import dataclasses
import pathlib
import textwrap
from collections.abc import Callable, Collection, Mapping
from importlib import metadata
from typing import Any

import torch

from probes import timing
from probes.adapter import Engagement, Program, Request, UnsupportedError
from probes.facts import EACH_CALL
from probes.subjects.outputs import collect
from probes.subjects.torch_subject import IMAGE_DIMENSIONS, TorchSubject

#: Name of the profiler region that Dynamo opens around a call into compiled code: it spans a whole
#: function, with the eager code between its graphs.
COMPILED_REGION = "Torch-Compiled Region"
#: Name of the region that Inductor opens around a compiled graph.
GRAPH_REGION = "## Call CompiledFxGraph"
#: Operators that pass tensors to and from another stack; they hardly compute or copy.
PASSING = {
    *("aten::detach", "aten::to", "aten::resolve_conj", "aten::resolve_neg"),
    *("aten::lift_fresh", "aten::view", "aten::alias"),
}


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of PyTorch and of packages; on a CPU without Triton."""
    cuda = {"cuda": torch.version.cuda} if torch.version.cuda else {}
    used = [package for package in packages if cuda or package != "triton"]
    return {"torch": torch.__version__, **{name: metadata.version(name) for name in used}, **cuda}


def apply_settings(request: Request) -> dict[str, str]:
    """Set the threads, switch gradients off, and return the settings that decide the speed."""
    torch.set_num_threads(request.threads)
    # For the whole process: as a `with` block in every call, the guard would be timed.
    torch.set_grad_enabled(False)
    settings = {
        "threads": str(torch.get_num_threads()),
        "gradients": "off",
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }
    if request.device == "cuda":
        matmul = torch.backends.cuda.matmul
        # By default convolutions round float32 to TF32 and matrix products do not.
        matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        if request.options.get("fp16_accumulation"):
            matmul.allow_fp16_accumulation = True
        settings |= {
            "tf32_matmul": str(matmul.allow_tf32),
            "tf32_cudnn": str(torch.backends.cudnn.allow_tf32),
            "fp16_reduced_precision_reduction": str(matmul.allow_fp16_reduced_precision_reduction),
            "bf16_reduced_precision_reduction": str(matmul.allow_bf16_reduced_precision_reduction),
            "flash_sdp": str(torch.backends.cuda.flash_sdp_enabled()),
            "mem_efficient_sdp": str(torch.backends.cuda.mem_efficient_sdp_enabled()),
            "cudnn_sdp": str(torch.backends.cuda.cudnn_sdp_enabled()),
        }
    return settings


def setting_lines(request: Request) -> str:
    """Return the lines that a user writes for the options of precision and layout; mostly none."""
    if request.options.get("fp16_accumulation"):
        return "torch.backends.cuda.matmul.allow_fp16_accumulation = True\n"
    if request.options.get(CHANNELS_LAST):
        return "model = model.to(memory_format=torch.channels_last)\n"
    return ""


#: Option that puts the channels of weights and inputs of four dimensions last in memory.
CHANNELS_LAST = "channels_last"


def arguments(request: Request) -> str:
    if request.options.get(CHANNELS_LAST):
        return "*(x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs)"
    return "*inputs"


def laid_out(program: TorchProgram, request: Request) -> TorchProgram:
    """Return the program; with the option, in the layout that the lines of a user give it."""
    if not request.options.get(CHANNELS_LAST):
        return program
    if not program.subject.convolutions:
        raise UnsupportedError("no layer of the model convolves images")
    program.subject.module.to(memory_format=torch.channels_last)

    def lay_out(x: torch.Tensor) -> torch.Tensor:
        return x.to(memory_format=torch.channels_last) if x.dim() == IMAGE_DIMENSIONS else x

    return dataclasses.replace(program, call=lambda *tensors: program.call(*map(lay_out, tensors)))


def move_weights_to_host(subject: TorchSubject) -> None:
    """Free the GPU's copy of the module's weights, for a stack that holds its own."""
    subject.module.to("cpu")
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@dataclasses.dataclass(frozen=True)
class TorchProgram:
    """A callable that takes the tensors of the subject's inputs."""

    #: A `TorchSubject`, or the `OnnxSubject` of a stack that takes files too.
    subject: Any
    call: Callable[..., Any]
    #: Whether CUDA graphs are promised, which are not captured in some cases without an error.
    captures: bool = False
    #: What `engagement` needs to know of the build.
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def feed(self, inputs: list[Any]) -> tuple[torch.Tensor, ...]:
        tensors: tuple[torch.Tensor, ...] = self.subject.tensors(inputs)
        return tensors

    def __call__(self, device_inputs: tuple[torch.Tensor, ...]) -> Any:
        return self.call(*device_inputs)

    def collect(self, output: Any) -> list[Any]:
        return collect(output)


def artefact(request: Request, inputs: list[Any], suffix: str) -> pathlib.Path:
    """Return the file of a program for these shapes, which an earlier process may have left."""
    shape = "x".join(str(size) for array in inputs for size in array.shape)
    return pathlib.Path(request.scratch_directory) / f"model-{shape}.{suffix}"


def compile_call(integration: str, **names: Any) -> Callable[..., Any]:
    """Return a function of tensors that runs the lines of each call and returns their `output`.

    Timed programs do the same work then as the lines that are printed for users. `names` has what
    the lines above those of the call make, and what they import.
    """
    _, lines = EACH_CALL.split(integration, maxsplit=1)
    body = textwrap.indent(lines, "    ")
    exec(f"def call(*inputs):\n{body}    return output\n", names)  # noqa: S102 - lines of a workflow
    call: Callable[..., Any] = names["call"]
    return call


def each_call(call: str, *, result: str = "output") -> str:
    """Return the lines of a user's call, which is an expression, with gradients off as measured."""
    return f"# Each call:\nwith torch.no_grad():\n    {result} = {call}\n"


def generate_call(request: Request, *more: str) -> str:
    """Return the expression that generates text as `TextGeneration` does."""
    new = f"max_new_tokens={request.output_tokens}"
    given = ("attention_mask=torch.ones_like(prompts)", "do_sample=False", new, *more)
    return f"model.generate(prompts, {', '.join(given)})"


def count_operators_outside(
    call: Callable[[], object], region_prefixes: tuple[str, ...] = (), ignored: Collection[str] = ()
) -> tuple[int, int]:
    """Profile one call and count its ATen operators outside certain profiler regions.

    Return that count without the operators that are `ignored`, and how many regions with these name
    prefixes ran.
    """
    with torch.autograd.profiler.profile(use_kineto=True) as profile:
        call()
        timing.synchronise()
    outside = regions = 0
    pending = [event for event in profile.function_events if event.cpu_parent is None]
    while pending:
        event = pending.pop()
        if event.name.startswith(region_prefixes):
            regions += 1
        elif event.name.startswith("aten::"):
            outside += event.name not in ignored
        else:
            pending += event.cpu_children
    return outside, regions


def whole_graph_engagement(program: Program, device_inputs: Any, proof: str) -> Engagement:
    """Return a full share for a program of another stack that leaves no operator to PyTorch."""
    outside, _ = count_operators_outside(lambda: program(device_inputs), ignored=PASSING)
    return Engagement(0.0 if outside else 1.0, f"{proof}; {outside} operators ran in PyTorch")
