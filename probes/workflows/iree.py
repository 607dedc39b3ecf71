"""IREE: export to ONNX, import to MLIR, and compile into a module of IREE's virtual machine."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import subprocess
import sys
from typing import Any

import ml_dtypes
import torch
from iree import compiler, runtime

from probes.adapter import AS_LIST, Engagement, Request
from probes.arrays import as_collected
from probes.files import replace_when_complete
from probes.stacks import pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects import by_request
from probes.subjects.by_request import Model, TorchSubject

versions = functools.partial(
    pytorch.versions, "iree-base-compiler", "iree-base-runtime", "onnx", "onnxscript"
)

#: The newest operator set that IREE's importer supports completely.
OPSET = 18
TARGET = {"cpu": "llvm-cpu", "cuda": "cuda"}
FLAGS = {
    # A layer norm over a large batch needs 41 KiB of stack. The default limit is 32 KiB, and the
    # runtime's threads have 128 KiB.
    "cpu": [
        *("--iree-opt-level=O3", "--iree-llvmcpu-target-cpu=host"),
        "--iree-llvmcpu-stack-allocation-limit=65536",
    ],
    # IREE 3.13 knows neither sm_90 nor sm_100 (https://github.com/iree-org/iree/issues/22147). For
    # sm_80 it makes PTX, which the driver compiles for every later GPU.
    "cuda": ["--iree-opt-level=O3", "--iree-cuda-target=sm_80"],
}
MAX_REASON_LENGTH = 400
#: Larger weights are kept in an archive next to the module. An ONNX file is limited to 2 GiB by
#: protobuf, constants and graph included, and MLIR text has two letters for each byte.
MAX_EMBEDDED_BYTES = 2**30
#: The importer's name for the weights in the archive.
PARAMETER_SCOPE = "model"


def settings(request: Request) -> dict[str, str]:
    runtime.flags.parse_flags(f"--task_topology_max_group_count={request.threads}")
    threads = {"task_topology_max_group_count": str(request.threads)}
    return {
        **pytorch.apply_settings(cpu_request(request)),
        "driver": driver_of(request),
        "flags": " ".join(FLAGS[request.device]),
        **(threads if request.device == "cpu" else {}),
    }


def driver_of(request: Request) -> str:
    """Return the runtime's driver; for one thread, the one that computes in the calling thread."""
    if request.device == "cuda":
        return "cuda"
    return "local-sync" if request.threads == 1 else "local-task"


def cpu_request(request: Request) -> Request:
    """Return the request for PyTorch, which only exports here and leaves the GPU to IREE."""
    return dataclasses.replace(request, device="cpu")


def open_subject(request: Request) -> Any:
    return by_request.open_subject(cpu_request(request))


class IreeProgram(TorchProgram):
    def collect(self, output: Any) -> list[Any]:
        return [as_collected(array.copy()) for array in output]


def build(subject: Model, inputs: list[Any], request: Request) -> IreeProgram:
    shapes = "-".join("x".join(map(str, array.shape)) for array in inputs)
    module = pathlib.Path(request.scratch_directory) / "iree" / shapes / "model.vmfb"
    archive = None
    if subject.parameter_bytes > MAX_EMBEDDED_BYTES:
        archive = module.with_name("weights.irpa")
    if not module.exists():
        make_module(subject, inputs, module, archive, request.device)
    context = runtime.SystemContext(config=runtime.Config(driver_of(request)))
    loaded = runtime.VmModule.mmap(context.instance, str(module))
    if archive is not None:
        index = runtime.ParameterIndex()
        index.load(str(archive))
        provider = index.create_provider(scope=PARAMETER_SCOPE)
        context.add_vm_module(runtime.create_io_parameters_module(context.instance, provider))
    context.add_vm_module(loaded)
    name = next(
        name
        for name in loaded.function_names
        if not name.startswith("__") and not name.endswith("$async")
    )
    function = context.modules[loaded.name][name]
    names = {"function": function, "ml_dtypes": ml_dtypes, "torch": torch}
    call = pytorch.compile_call(integration(subject, request), **names)
    return IreeProgram(subject, call, facts={"driver": driver_of(request)})


def make_module(
    subject: Model,
    inputs: list[Any],
    module: pathlib.Path,
    archive: pathlib.Path | None,
    device: str,
) -> None:
    folder = module.parent
    folder.mkdir(parents=True, exist_ok=True)
    model, imported = folder / "model.onnx", folder / "model.mlir"
    if isinstance(subject, TorchSubject):
        tensors = tuple(tensor.clone() for tensor in subject.tensors(inputs))
        options: dict[str, Any] = {"opset_version": OPSET, "external_data": True}
        torch.onnx.export(
            subject.module, tensors, str(model), dynamo=True, verbose=False, **options
        )
    else:
        model = pathlib.Path(subject.file)
    import_model(model, imported, archive)
    compile_module(imported, module, device)
    for intermediate in (*folder.glob("model.onnx*"), imported):
        intermediate.unlink()


def import_model(model: pathlib.Path, imported: pathlib.Path, archive: pathlib.Path | None) -> None:
    """Raise `RuntimeError` with the last line of the importer's log if it fails."""
    # The importer does not convert the operator set of a large file: it would need all of it in
    # memory.
    options = ["--opset-version", str(OPSET)]
    if archive is not None:
        options = ["--large-model", "--externalize-params", "--params-scope", PARAMETER_SCOPE]
        options += ["--save-params-to", str(archive)]
    command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", str(model)]
    command += ["-o", str(imported), *options]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - an argument list, no shell
    if answer.returncode:
        *_, last = ["no reason given", *filter(None, map(str.strip, answer.stderr.splitlines()))]
        raise RuntimeError(f"IREE does not import the ONNX file: {last[-MAX_REASON_LENGTH:]}")


def compile_module(imported: pathlib.Path, module: pathlib.Path, device: str) -> None:
    """Compile MLIR for the device; raise `RuntimeError` with the compiler's first error."""
    try:
        compiled = compiler.compile_file(
            str(imported),
            input_type="onnx",
            target_backends=[TARGET[device]],
            extra_args=FLAGS[device],
        )
    except compiler.CompilerToolError as problem:
        errors = [
            line.partition(" error: ")[2]
            for line in str(problem).splitlines()
            if " error: " in line
        ]
        message = f"iree-compile refuses the model: {errors[0] if errors else problem}"
        raise RuntimeError(message[:MAX_REASON_LENGTH]) from problem
    with replace_when_complete(module) as partial:
        partial.write_bytes(compiled)


def engagement(program: IreeProgram, device_inputs: Any) -> Engagement:
    proof = f"the loaded module ran the whole graph with the driver {program.facts['driver']}"
    return pytorch.whole_graph_engagement(program, device_inputs, proof)


#: Expression for an input in bfloat16, which numpy lacks: its bits become those of `ml_dtypes`.
BITS_AS_BFLOAT16 = "tensor.cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16) if tensor.dtype == torch.bfloat16 else tensor.cpu().numpy()"  # noqa: E501 - the lines are counted, so they are not wrapped


def integration(subject: Any, request: Request) -> str:
    is_file = request.subject["kind"] == "onnx"
    file = "model" if is_file else '"model.onnx"'
    is_bfloat16 = subject.dtype == "bfloat16"
    array = BITS_AS_BFLOAT16 if is_bfloat16 else "tensor.cpu().numpy()"
    imported = "import ml_dtypes\n" if is_bfloat16 else ""
    export = f"""\
with torch.no_grad():
    torch.onnx.export(model, inputs, "model.onnx", dynamo=True, opset_version={OPSET})
"""
    return f"""\
# Weights of more than 2 GiB need an archive next to the module: `--save-params-to` of import_onnx
# writes it, and runtime.create_io_parameters_module opens it.
import subprocess, sys

{imported}import torch
from iree import compiler, runtime

{"" if is_file else export}subprocess.run([sys.executable, "-m", "iree.compiler.tools.import_onnx", {file}, "-o", "model.mlir"], check=True)
flags = {FLAGS[request.device]!r}
built = compiler.compile_file("model.mlir", input_type="onnx", target_backends=["{TARGET[request.device]}"], extra_args=flags)
context = runtime.SystemContext(config=runtime.Config("{driver_of(request)}"))
module = runtime.VmModule.copy_buffer(context.instance, built)
context.add_vm_module(module)
function = context.modules[module.name][next(name for name in module.function_names if not name.startswith("__") and not name.endswith("$async"))]
# Each call:
output = function(*({array} for tensor in inputs))
output = [each.to_host() for each in (output if isinstance(output, tuple) else [output])]{AS_LIST}
"""  # noqa: E501 - the lines are counted, so they are not wrapped
