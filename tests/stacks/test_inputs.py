"""Stacks get the right precision, shapes, weights and devices; GPU stacks are fakes."""

from __future__ import annotations

from typing import Any

from forks import RunScript
from lazy import torch
from stub_stacks import load_with_stubs

#: An ONNX file with a free batch size and sequence length, and a fixed number of heads.
PROFILES = """
import tensorrt as trt
from onnx_texts import write_onnx
from probes.stacks import tensorrt_engine as stack
from probes.subjects import by_request

values = "int64[batch, sequence] tokens, int64[batch, 2, sequence] mask"
outputs = "int64[batch, sequence] tokens_out, int64[batch, 2, sequence] mask_out"
code = "tokens_out = Identity(tokens) mask_out = Identity(mask)"
file = write_onnx(directory / "free.onnx", f"free ({values}) => ({outputs}) {{ {code} }}")
request = dataclasses.replace(
    request, subject={"kind": "onnx", "name": str(file)}, input_tokens=32, batch_sizes=[1, 4]
)


def profiles():
    subject = by_request.open_subject(request)
    stack.load_or_build_engine(trt, file, subject, request, directory / "free.engine")
    return json.loads((directory / "free.engine").read_bytes())


record("profiles", profiles)


"""
#: torchax and JAX as fakes that record which weights are extracted, and from which device.
EXTRACTED = """
class Stack(types.ModuleType):
    tree_util = config = numpy = types.SimpleNamespace()
    dlpack = types.SimpleNamespace(from_dlpack=lambda tensor: tensor)

    def jit(self, function):
        return types.SimpleNamespace(
            lower=lambda weights, fed: types.SimpleNamespace(compile=lambda: function)
        )

    def default_backend(self):
        return "gpu"

    def extract_jax(self, module):
        results.setdefault("extracted", []).append(list(moved))
        return {"weights": len(results["extracted"])}, lambda weights, fed: fed


for name in ("jax", "torchax", "torchax.decompositions"):
    sys.modules[name] = Stack(name)
moved, updates = [], {}
sys.modules["jax"].config = types.SimpleNamespace(
    update=updates.__setitem__, jax_default_matmul_precision=None
)
from probes.workflows import openxla_jax as workflow

workflow.settings(request)
subject = workflow.open_subject(request)
subject.module.to = moved.append
programs = [workflow.build(subject, subject.inputs(size, 0), request) for size in (1, 4)]
results["weights"] = [program.facts["weights"]["weights"] for program in programs]
results["moved"] = moved
results["precision"] = []
for dtype in ("bfloat16", "float32"):
    workflow.settings(dataclasses.replace(request, device="cuda", dtype=dtype))
    results["precision"].append(updates.get("jax_default_matmul_precision"))
"""
#: `torch.compile` as users write it, for several batch sizes.
COMPILED = """
import torch._inductor.compile_fx
from torch._dynamo.utils import counters
from probes.workflows import torch_compile_inductor as workflow

# Dynamo decides how often a program is compiled; the code that Inductor writes is not of interest.
torch._inductor.compile_fx.compile_fx = lambda module, *_, **__: module

for name, options in (("default", {}), ("static", {"dynamic": False})):
    torch._dynamo.reset()
    counters.clear()
    asked = dataclasses.replace(request, dtype="float32", options=options)
    opened = workflow.open_subject(asked)
    with torch.inference_mode():
        for size in (2, 4, 8):
            workflow.build(opened, opened.inputs(size, 0), asked)
    results[name] = counters["stats"]["unique_graphs"]
    results[f"{name} line"] = [
        line for line in workflow.integration(None, asked).splitlines() if "torch.compile" in line
    ]
"""
#: Torch-TensorRT with a range of batch sizes, exported by the real `torch.export`.
RANGES = """
sys.modules["torch_tensorrt"] = fake = type(sys)("torch_tensorrt")
fake.Input = lambda **shapes: {
    name: list(shape)[:1] for name, shape in shapes.items() if name != "dtype"
}


def compile(exported, arg_inputs, **options):
    low, high = (arg_inputs[0][f"{name}_shape"][0] for name in ("min", "max"))
    module, (tensor,) = exported.module(), subject.tensors(subject.inputs(1, 0))
    results[f"{low} to {high}"] = [
        arg_inputs[0]["opt_shape"][0],
        *(len(module(workflow.repeat_rows(tensor, size))) for size in (low, high)),
    ]
    return module


fake.dynamo = type(sys)("dynamo")
fake.dynamo.compile = compile
from probes.workflows import torch_tensorrt as workflow

subject = workflow.open_subject(dataclasses.replace(request, dtype="float32"))
for sizes in ([1], [4], [1, 4]):
    asked = dataclasses.replace(
        request, dtype="float32", batch_sizes=sizes, options={"dynamic": True}
    )
    with torch.no_grad():
        workflow.compile_module(
            subject, subject.tensors(subject.inputs(sizes[0], 0)), asked, dynamic=True
        )
    lines = workflow.integration(None, asked)
    results[f"lines for {sizes}"] = [
        line.strip() for line in lines.splitlines() if "_shape=" in line or "Dim" in line
    ]
"""
#: A real session on the CPU; bfloat16 is fed as on a GPU.
FEEDING = """
from onnx_texts import write_onnx
from probes.stacks import onnxruntime_session as stack

for dtype, number in (("float32", 1), ("float16", 10), ("bfloat16", 16)):
    code = f"f = Cast <to = 1> (x) d = Add(f, f) y = Cast <to = {number}> (d)"
    kind = dtype.removesuffix("32")
    graph = f"doubled ({kind}[batch, 3] x) => ({kind}[batch, 3] y) {{ {code} }}"
    file = write_onnx(directory / f"{kind}.onnx", graph)
    for feeding in ("host", "io-binding"):
        asked = dataclasses.replace(request, dtype=dtype, options={"feeding": feeding})
        subject = types.SimpleNamespace(file=file, dtype=dtype)
        program = stack.build(subject, [], asked)
        tensor = torch.tensor([[1.0, 2.0, 3.5]], dtype=getattr(torch, dtype))
        outputs = program.collect(program((tensor,)))
        results[f"{kind} {feeding}"] = [outputs[0].tolist(), stack.engagement(program, None).share]
"""
#: A module can be compiled for a GPU without one: PyTorch only exports, on the CPU.
TARGETS = """
from probes.workflows import iree as workflow

for device in ("cpu", "cuda"):
    request = dataclasses.replace(request, device=device, scratch_directory=str(directory / device))

    def compiled():
        engage(workflow, [2])
        (module,) = (directory / device).rglob("*.vmfb")
        return {
            **json.loads(module.read_bytes()),
            "driver": workflow.settings(request)["driver"],
            "cuda": torch.cuda.is_initialized(),
        }

    record(device, compiled)


def engage_with_archive():
    workflow.MAX_EMBEDDED_BYTES = 0
    return engage(workflow, [2])["share"], len(list((directory / "archive").rglob("*.irpa")))


request = dataclasses.replace(request, device="cpu", scratch_directory=str(directory / "archive"))
record("weights in an archive", engage_with_archive)

"""
#: Settings for a GPU can be applied without one.
PRECISION = """
from probes.workflows import onnxruntime_tensorrt as workflow

settings = workflow.settings(dataclasses.replace(request, device="cuda"))
results["precision"] = {name: settings[name] for name in ("tf32_matmul", "tf32_cudnn")} | {
    "environment": os.environ["NVIDIA_TF32_OVERRIDE"]
}
"""


def test_tf32_is_off_in_pytorch_and_in_nvidia_s_libraries(run_script: RunScript) -> None:
    assert run_script(PRECISION, "tensorrt")["precision"] == {
        "tf32_matmul": "False",
        "tf32_cudnn": "False",
        "environment": "0",
    }


def test_an_engine_has_a_profile_for_each_batch_size(run_script: RunScript) -> None:
    results = run_script(PROFILES, "tensorrt")
    shapes = [{"tokens": [[size, 32]] * 3, "mask": [[size, 2, 32]] * 3} for size in (1, 4)]
    assert results["profiles"] == shapes


def test_a_range_has_two_batch_sizes_or_more_and_is_optimised_for_the_largest(
    run_script: RunScript,
) -> None:
    results = run_script(RANGES, "torch_tensorrt_rtx")
    assert results["1 to 2"] == [1, 1, 2]
    assert results["4 to 5"] == [4, 4, 5]
    assert results["1 to 4"] == [4, 1, 4]
    assert 'Dim("batch", min=4, max=5)' in results["lines for [4]"][-1]
    assert [line.partition(",")[0] for line in results["lines for [4]"][:3]] == [
        "min_shape=(4",
        "opt_shape=(4",
        "max_shape=(5",
    ]


def test_inductor_compiles_a_dynamic_batch_at_the_second_size_unless_it_is_static(
    run_script: RunScript,
) -> None:
    assert run_script(COMPILED) == {
        "default": 2,
        "default line": ["compiled = torch.compile(model)"],
        "static": 3,
        "static line": ["compiled = torch.compile(model, dynamic=False)"],
    }


def test_jax_gets_the_weights_once_from_the_host_at_full_precision(run_script: RunScript) -> None:
    results = run_script(EXTRACTED, "")
    assert results["extracted"] == [["cpu"]], "once, from the host"
    assert results["weights"] == [1, 1], "shared by all batch sizes"
    assert results["moved"] == ["cpu", "cpu"], "for each build"
    assert results["precision"] == [None, "highest"], "float32 products would be rounded to TF32"


def test_each_call_of_pytorch_xla_moves_its_inputs_as_the_printed_one_does() -> None:
    inputs = (torch.ones(2),)  # torch is imported here: it cannot be imported twice
    stubs = ("torch_xla", "torch_xla.core", "torch_xla.debug")
    workflow: Any = load_with_stubs("workflows/torch_compile_openxla.py", stubs)
    workflow.torch_xla.device.return_value = "meta"
    assert workflow.XlaProgram(None, lambda tensor: tensor.device.type)(inputs) == "meta"


def test_tensors_of_every_type_are_fed_from_the_host_and_bound(run_script: RunScript) -> None:
    results = run_script(FEEDING)
    assert len(results) == 6
    assert all(answer == [[[2.0, 4.0, 7.0]], 1.0] for answer in results.values()), results


def test_iree_compiles_for_the_requested_device(run_script: RunScript) -> None:
    results = run_script(TARGETS, "iree")
    assert (results["cpu"]["target"], results["cpu"]["driver"]) == ("llvm-cpu", "local-sync"), (
        "one thread: the driver that computes in the calling thread"
    )
    assert (results["cuda"]["target"], results["cuda"]["driver"]) == ("cuda", "cuda"), results
    assert not results["cuda"]["cuda"], "PyTorch uses no GPU memory"
    assert results["weights in an archive"] == [1.0, 1], results
