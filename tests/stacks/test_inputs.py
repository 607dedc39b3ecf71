"""What stacks are given, and what for: precision, shapes, weights and devices; with stand-ins for those that want a GPU."""

from __future__ import annotations

import pytest
from stack_scripts import run

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

#: A file that leaves free how many sequences there are and how long they are, but not how many
#: heads.
PROFILES = """
import dataclasses
import onnx, tensorrt as trt
from onnx import TensorProto, helper
from probes import tensorrt_stack as stack

free = {"tokens": ["batch", "sequence"], "mask": ["batch", 2, "sequence"]}
values = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in free.items()]
ended = [helper.make_tensor_value_info(f"{name}_out", TensorProto.INT64, shape) for name, shape in free.items()]
nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in free]
graph = helper.make_graph(nodes, "free", values, ended)
file = place / "free.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), file)
request = dataclasses.replace(request, subject={"kind": "onnx", "name": str(file)}, input_tokens=32, batch_sizes=[1, 4])

def profiles():
    subject = stack.open_subject(request)
    stack.obtain_engine(trt, file, subject, request, place / "free.engine")
    return json.loads((place / "free.engine").read_bytes())
tell("profiles", profiles)

def profiles_elsewhere():
    sys.modules["tensorrt_rtx"] = trt
    from probes.workflows import tensorrt_rtx as workflow
    trt.ComputeCapability = type("ComputeCapability", (), {"SM89": 89})
    trt.Config.set_compute_capability = lambda self, capability, place: None
    subject = workflow.open_subject(request)
    workflow.build_for("sm_89", subject, subject.inputs(4, 0), request)
    return json.loads((place / "sm_89.engine").read_bytes())
tell("elsewhere", profiles_elsewhere)
"""
#: torchax and JAX as far as weights and caches go: what is extracted, from where, and which of it
#: each program is called with.
EXTRACTED = """
import dataclasses, types
class Stack(types.ModuleType):
    tree_util = config = numpy = types.SimpleNamespace()
    def jit(self, function):
        return types.SimpleNamespace(lower=lambda weights, fed: types.SimpleNamespace(compile=lambda: function))
    def device_put(self, array):
        return array
    def default_backend(self):
        return "gpu"
    def extract_jax(self, module):
        told.setdefault("extracted", []).append(list(moved))
        return {"weights": len(told["extracted"])}, lambda weights, fed: fed
for name in ("jax", "torchax", "torchax.decompositions"):
    sys.modules[name] = Stack(name)
moved, updates = [], {}
sys.modules["jax"].config = types.SimpleNamespace(update=updates.__setitem__, jax_default_matmul_precision=None)
from probes.workflows import openxla_jax as workflow

os.environ["JAX_COMPILATION_CACHE_DIR"] = "set after the import"
workflow.settings(request)
subject = workflow.open_subject(request)
subject.module.to = moved.append
programs = [workflow.build(subject, subject.inputs(size, 0), request) for size in (1, 4)]
told["weights"] = [program.weights["weights"] for program in programs]
told["moved"] = moved
told["cache"] = updates["jax_compilation_cache_dir"]
told["precision"] = []
for dtype in ("bfloat16", "float32"):
    workflow.settings(dataclasses.replace(request, device="cuda", dtype=dtype))
    told["precision"].append(updates.get("jax_default_matmul_precision"))
"""
#: Torch-TensorRT with a range of batch sizes, as far as `torch.export` takes it.
RANGES = """
import dataclasses
sys.modules["torch_tensorrt"] = stand_in = type(sys)("torch_tensorrt")
stand_in.Input = lambda **shapes: {name: list(shape)[:1] for name, shape in shapes.items() if name != "dtype"}
def compile(exported, arg_inputs, **options):
    least, most = (arg_inputs[0][f"{name}_shape"][0] for name in ("min", "max"))
    module, (tensor,) = exported.module(), subject.tensors(subject.inputs(1, 0))
    told[f"{least} to {most}"] = [arg_inputs[0]["opt_shape"][0], *(len(module(workflow.of_batch(tensor, size))) for size in (least, most))]
    return module
stand_in.dynamo = type(sys)("dynamo")
stand_in.dynamo.compile = compile
from probes.workflows import torch_tensorrt as workflow
subject = workflow.open_subject(dataclasses.replace(request, dtype="float32"))
for sizes in ([1], [4], [1, 4]):
    asked = dataclasses.replace(request, dtype="float32", batch_sizes=sizes, options={"dynamic": True})
    with torch.no_grad():
        workflow.compile_module(subject, subject.tensors(subject.inputs(sizes[0], 0)), asked, dynamic=True)
    lines = workflow.integration(asked)
    told[f"lines for {sizes}"] = [line.strip() for line in lines.splitlines() if "_shape=" in line or "Dim" in line]
"""
#: A real session on the processor, fed as sessions on a GPU are: there is no other way to try that
#: without one.
FEEDING = """
import dataclasses
import numpy, onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from probes import onnxruntime_stack as stack

def doubled(kind):
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["f", "f"], ["d"])]
    nodes.append(helper.make_node("Cast", ["d"], ["y"], to=kind))
    values = [helper.make_tensor_value_info(name, kind, ["batch", 3]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "doubled", values[:1], values[1:])
    file = place / f"{kind}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), file)
    return file

for kind in ("FLOAT", "FLOAT16", "BFLOAT16"):
    for feeding in ("host", "io-binding"):
        asked = dataclasses.replace(request, options={"feeding": feeding})
        session = stack.open_session(doubled(getattr(TensorProto, kind)), [(stack.CPU, {})], asked)
        program = stack.gpu_program(session, stack.CPU, asked)
        array = numpy.array([[1.0, 2.0, 3.5]], dtype="float32")
        outputs = program.collect(program(program.feed([array])))
        told[f"{kind} {feeding}"] = [outputs[0].tolist(), stack.engagement(program, None).share]
"""
#: What is compiled for a GPU can be tried without one: PyTorch only exports, on the processor.
TARGETS = """
import dataclasses, subprocess
from composed_recipes import compose_recipe, facts, script_of
from probes.workflows import iree as workflow
for device in ("cpu", "cuda"):
    request = dataclasses.replace(request, device=device, scratch_directory=str(place / device))
    def compiled():
        engage(workflow, [2])
        (module,) = (place / device).rglob("*.vmfb")
        return {**json.loads(module.read_bytes()), "driver": workflow.settings(request)["driver"], "cuda": torch.cuda.is_initialized()}
    tell(device, compiled)

def engaged_beside():
    workflow.MOST_BYTES_INSIDE = 0
    return engage(workflow, [2])["share"], len(list((place / "beside").rglob("*.irpa")))
request = dataclasses.replace(request, device="cpu", scratch_directory=str(place / "beside"))
tell("weights beside", engaged_beside)

def serve():
    asked = dataclasses.replace(request, device="cpu", workflow_file=workflow.__file__, batch_sizes=[2])
    script = place / "serve.py"
    script.write_text(script_of(compose_recipe(asked, facts({2: (1e-7,)}))))
    return subprocess.run([sys.executable, script], capture_output=True, text=True).stderr
tell("recipe", serve)
"""
#: A GPU's settings can be made without one.
PRECISION = """
import dataclasses
from probes import onnxruntime_stack
settings = onnxruntime_stack.settings_of_tensorrt(dataclasses.replace(request, device="cuda"))
told["precision"] = {name: settings[name] for name in ("tf32_matmul", "tf32_cudnn")} | {"environment": os.environ["NVIDIA_TF32_OVERRIDE"]}
"""


def test_float32_is_not_rounded_by_pytorch_s_convolutions_nor_by_nvidia_s_libraries() -> None:
    assert run(PRECISION, "")["precision"] == {
        "tf32_matmul": "False",
        "tf32_cudnn": "False",
        "environment": "0",
    }


def test_an_engine_s_profiles_are_for_the_shapes_that_are_fed() -> None:
    told = run(PROFILES, "tensorrt")
    shapes = [{"tokens": [[size, 32]] * 3, "mask": [[size, 2, 32]] * 3} for size in (1, 4)]
    assert told["profiles"] == shapes
    assert told["elsewhere"] == shapes


def test_a_range_of_batch_sizes_is_wide_enough_for_one_and_fastest_at_what_is_measured() -> None:
    told = run(RANGES, "torch_tensorrt_rtx")
    assert told["1 to 2"] == [1, 1, 2]
    assert told["4 to 5"] == [4, 4, 5]
    assert told["1 to 4"] == [4, 1, 4]
    assert 'Dim("batch", min=4, max=5)' in told["lines for [4]"][-1]
    assert [line.partition(",")[0] for line in told["lines for [4]"][:3]] == [
        "min_shape=(4",
        "opt_shape=(4",
        "max_shape=(5",
    ]


def test_the_weights_are_copied_to_jax_once_and_leave_the_device_for_it_and_keep_their_precision() -> (
    None
):
    told = run(EXTRACTED, "")
    assert told["extracted"] == [["cpu"]], "once, and from the host"
    assert told["weights"] == [1, 1], "all batch sizes share them"
    assert told["moved"] == ["cpu", "cpu"], "a recipe brings them back in between"
    assert told["cache"] == "set after the import"
    assert told["precision"] == [None, "highest"], "products of float32 would round to TF32"


def test_tensors_of_every_type_reach_a_session_from_the_host_and_bound() -> None:
    told = run(FEEDING)
    assert len(told) == 6
    assert all(answer == [[[2.0, 4.0, 7.0]], 1.0] for answer in told.values()), told


def test_iree_compiles_for_the_device_that_is_asked_for() -> None:
    told = run(TARGETS, "iree")
    assert (told["cpu"]["target"], told["cpu"]["driver"]) == ("llvm-cpu", "local-sync"), (
        "one thread: it computes where it is called"
    )
    assert (told["cuda"]["target"], told["cuda"]["driver"]) == ("cuda", "cuda"), told
    assert not told["cuda"]["cuda"], "PyTorch leaves the GPU's memory to IREE"
    assert told["weights beside"] == [1.0, 1], told
    assert "do not serve with this" in told["recipe"], (
        "the stand-in returns what it is given: as far as that the recipe runs"
    )
