"""IREE: the module as ONNX, imported, compiled for this processor or GPU into a module of its virtual machine, and run by its runtime."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import torch
from iree import compiler, runtime

from probes.protocol import Engagement, Request
from probes.stacks import pytorch
from probes.subjects.opening import TorchSubject, open_torch_subject

if TYPE_CHECKING:
    from probes.subjects.onnx_file import OnnxSubject

synchronise = pytorch.synchronise

#: The newest operator set that IREE's importer knows as a whole.
OPSET = 18
#: Compiler's name of each device. IREE 3.13 knows neither sm_90 nor sm_100
#: (https://github.com/iree-org/iree/issues/22147): what it makes for sm_80 is PTX, which the driver
#: compiles for every later GPU.
TARGET = {"cpu": "llvm-cpu", "cuda": "cuda"}
#: A function may use 64 KiB of stack instead of 32: a layer norm over a large batch needs 41, and
#: the runtime's threads have 128.
FLAGS = {
    "cpu": ("--iree-llvmcpu-target-cpu=host", "--iree-llvmcpu-stack-allocation-limit=65536"),
    "cuda": ("--iree-cuda-target=sm_80",),
}
OPTIMISE = "--iree-opt-level=O3"
NARROW = {np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)}
LONGEST_REASON = 400
#: Weights beyond this are kept in an archive beside the module: protobuf, in which ONNX comes, ends
#: at 2 GiB, constants and graph included, and the module's text form has two letters for each byte.
MOST_BYTES_INSIDE = 2**30
#: The importer's name for the archive's weights.
SCOPE = "model"


def versions() -> dict[str, str]:
    """Return the versions of IREE and of what exports for it."""
    return pytorch.versions("iree-base-compiler", "iree-base-runtime", "onnx", "onnxscript")


def settings(request: Request) -> dict[str, str]:
    """Set the threads of the runtime and return what is in force."""
    runtime.flags.parse_flags(f"--task_topology_max_group_count={request.threads}")
    found = {
        **pytorch.apply_settings(on_host(request)),
        "driver": driver_of(request),
        "flags": " ".join(compile_flags(request.device)),
    }
    return (
        found
        if request.device == "cuda"
        else {**found, "task_topology_max_group_count": str(request.threads)}
    )


def driver_of(request: Request) -> str:
    """Return the runtime's driver: with one thread the one that computes where it is called."""
    if request.device == "cuda":
        return "cuda"
    return "local-sync" if request.threads == 1 else "local-task"


def compile_flags(device: str) -> list[str]:
    """Return what the compiler is told beside its target."""
    return [OPTIMISE, *FLAGS[device]]


def on_host(request: Request) -> Any:
    """Return the request for PyTorch, which only exports here: the GPU's memory is left to IREE, and a torch without CUDA will do."""
    return types.SimpleNamespace(
        **{**vars(request), "device": "cpu"}
    )  # in a recipe the request is no dataclass


def open_subject(request: Request) -> TorchSubject | OnnxSubject:
    """Open an ONNX file as it is, anything else as a PyTorch module to be exported."""
    if request.subject["kind"] == "onnx":
        from probes.subjects.onnx_file import OnnxSubject  # noqa: PLC0415 - needs packages that are of no use otherwise

        return OnnxSubject(on_host(request))
    return open_torch_subject(on_host(request))


@dataclasses.dataclass(frozen=True)
class IreeProgram:
    """A loaded module's one function."""

    context: Any
    function: Any
    types: tuple[Any, ...]
    file: pathlib.Path
    driver: str

    def feed(self, inputs: list[Any]) -> list[Any]:
        """Put the inputs into the runtime's memory, in the types that were compiled for."""
        device = self.context.config.device
        pairs = zip(inputs, self.types, strict=True)
        return [
            runtime.asdevicearray(device, np.ascontiguousarray(array.astype(kind)))
            for array, kind in pairs
        ]

    def __call__(self, fed: list[Any]) -> Any:
        """Run once, to the end."""
        return self.function(*fed)

    def collect(self, output: Any) -> list[Any]:
        """Return the outputs on the host; half precisions as float32."""
        arrays = [
            np.array(each.to_host())
            for each in (output if isinstance(output, (tuple, list)) else [output])
        ]
        return [array.astype(np.float32) if array.dtype in NARROW else array for array in arrays]


def build(subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request) -> IreeProgram:
    """Export, import and compile unless an earlier process of this arm has; load the module."""
    folder = (
        pathlib.Path(request.scratch_directory)
        / "iree"
        / "-".join("x".join(map(str, array.shape)) for array in inputs)
    )
    module = folder / "model.vmfb"
    archive = folder / "weights.irpa" if subject.parameter_bytes > MOST_BYTES_INSIDE else None
    if not module.exists():
        folder.mkdir(parents=True, exist_ok=True)
        compile_module(
            import_model(export(subject, inputs, folder), folder / "model.mlir", archive),
            module,
            request.device,
        )
        # The weights are in the module or the archive now: twice is enough.
        for made in (*folder.glob("model.onnx*"), folder / "model.mlir"):
            made.unlink()
    context = runtime.SystemContext(config=runtime.Config(driver_of(request)))
    loaded = runtime.VmModule.mmap(context.instance, str(module))
    if archive is not None:
        context.add_vm_module(open_weights(context.instance, archive))
    context.add_vm_module(loaded)
    name = next(
        name
        for name in loaded.function_names
        if not name.startswith("__") and not name.endswith("$async")
    )
    types = tuple(array_type(subject, array) for array in inputs)
    return IreeProgram(
        context, context.modules[loaded.name][name], types, module, driver_of(request)
    )


def export(
    subject: TorchSubject | OnnxSubject, inputs: list[Any], folder: pathlib.Path
) -> pathlib.Path:
    """Return the model as an ONNX file."""
    if not isinstance(subject, TorchSubject):
        return pathlib.Path(subject.file)
    file = folder / "model.onnx"
    with pytorch.ordinary_mode():
        tensors = tuple(tensor.clone() for tensor in subject.tensors(inputs))
        torch.onnx.export(
            subject.module,
            tensors,
            str(file),
            dynamo=True,
            opset_version=OPSET,
            external_data=True,
            verbose=False,
        )
    return file


def import_model(
    model: pathlib.Path, imported: pathlib.Path, archive: pathlib.Path | None
) -> pathlib.Path:
    """Turn an ONNX file into MLIR, its weights into `archive` if there is to be one; what the importer says last is the reason it fails."""
    beside = [
        "--large-model",
        "--externalize-params",
        "--params-scope",
        SCOPE,
        "--save-params-to",
        str(archive),
    ]
    # The operator set of a large file stays as it is: the importer would have to hold the whole
    # file to change it.
    options = beside if archive else ["--opset-version", str(OPSET)]
    command = [
        sys.executable,
        "-m",
        "iree.compiler.tools.import_onnx",
        str(model),
        "-o",
        str(imported),
        *options,
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - an argument list, no shell
    if answer.returncode:
        *_, last = ["nothing was said", *filter(None, map(str.strip, answer.stderr.splitlines()))]
        message = f"IREE does not import the ONNX file: {last[-LONGEST_REASON:]}"
        raise RuntimeError(message)
    return imported


def open_weights(instance: Any, archive: pathlib.Path) -> Any:
    """Return the runtime's module that hands out the weights in `archive`."""
    index = runtime.ParameterIndex()
    index.load(str(archive))
    return runtime.create_io_parameters_module(instance, index.create_provider(scope=SCOPE))


def compile_module(imported: pathlib.Path, module: pathlib.Path, device: str) -> None:
    """Compile MLIR for the device; the compiler's first error is the reason it fails."""
    try:
        built = compiler.compile_file(
            str(imported),
            input_type="onnx",
            target_backends=[TARGET[device]],
            extra_args=compile_flags(device),
        )
    except compiler.CompilerToolError as problem:
        said = [
            line.partition(" error: ")[2]
            for line in str(problem).splitlines()
            if " error: " in line
        ]
        message = f"iree-compile refuses the model: {said[0] if said else problem}"
        raise RuntimeError(message[:LONGEST_REASON]) from problem
    beside = module.with_suffix(".part")
    beside.write_bytes(built)
    beside.rename(module)


def array_type(subject: TorchSubject | OnnxSubject, array: Any) -> Any:
    """Return the type an input was compiled for: the model's own for floating-point numbers."""
    if array.dtype != np.float32:
        return array.dtype
    return ml_dtypes.bfloat16 if subject.dtype == "bfloat16" else np.dtype(subject.dtype)


def engagement(program: IreeProgram, fed: Any) -> Engagement:
    """Show that the loaded module ran the call by itself: no operator of PyTorch's was at work."""
    outside, _ = pytorch.operators_outside(lambda: program(fed), ())
    size = program.file.stat().st_size
    proof = f"the loaded module ran the whole graph on the device {program.driver}; {outside} operators ran in PyTorch"
    return Engagement(
        1.0 if not outside else 0.0, proof, {"module_bytes": size, "operators_in_pytorch": outside}
    )


def integration(request: Request) -> str:
    """Return the lines that export, import, compile, load and run it."""
    return f"""\
# Weights of more than 2 GiB go into an archive beside the module: the script of `p3-advisor recipe`
# does it.
import subprocess, sys

import torch
from iree import compiler, runtime

with torch.no_grad():
    torch.onnx.export(model, inputs, "model.onnx", dynamo=True, opset_version={OPSET})
subprocess.run([sys.executable, "-m", "iree.compiler.tools.import_onnx", "model.onnx", "-o", "model.mlir"], check=True)
flags = {compile_flags(request.device)!r}
built = compiler.compile_file("model.mlir", input_type="onnx", target_backends=["{TARGET[request.device]}"], extra_args=flags)
context = runtime.SystemContext(config=runtime.Config("{driver_of(request)}"))
module = runtime.VmModule.copy_buffer(context.instance, built)
context.add_vm_module(module)
main = next(name for name in module.function_names if not name.startswith("__") and not name.endswith("$async"))
output = context.modules[module.name][main](*(tensor.numpy() for tensor in inputs)).to_host()
"""
