"""Stacks that quietly do something else than they were asked for: real ones where they run on a processor, else faithful stand-ins."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from advisor import catalogue

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

STACKS = pathlib.Path(__file__).parents[1] / "fakes" / "stacks"
#: Each script runs in an interpreter of its own, with the probes and a stand-in on its path, and prints one object in JSON.
BEGIN = """
import json, os, pathlib, sys, tempfile
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import torch, workers

place = pathlib.Path(tempfile.mkdtemp())
subject = {"kind": "synthetic", "block": "ffn", "hidden": 8, "intermediate": 16, "layers": 1, "heads": 1}
request = workers.make_request(place / "none.py", place, subject=subject, dtype="bfloat16", options={"feeding": "host"})
told = {}

def tell(name, work):
    try:
        told[name] = work()
    except Exception as problem:
        told[name] = {"raised": type(problem).__name__, "reason": str(problem)}

def engage(workflow, sizes):
    workflow.settings(request)
    opened = workflow.open_subject(request)
    for size in sizes:
        inputs = opened.inputs(size, 0)
        program = workflow.build(opened, inputs, request)
    found = workflow.engagement(program, program.feed(inputs))
    return {"share": found.share, "proof": found.proof}
"""
END = "\nprint(json.dumps(told))"
JIT = """
from probes.workflows import torch_compile_tensorrt as workflow
for day in ("engine", "fails", "lies"):
    os.environ["P3_FAKE"] = day
    torch._dynamo.reset()
    tell(day, lambda: engage(workflow, [2]))
"""
TEXT = """
import dataclasses
from probes import protocol
from probes.workflows import torch_compile_tensorrt as workflow
config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 100, "max_position_embeddings": 64}
written = place / "model"
written.mkdir()
(written / "config.json").write_text(json.dumps(config))
subject = {"kind": "transformers", "name": str(written), "weights": "random"}
request = dataclasses.replace(request, subject=subject, dtype="float32", task=protocol.GENERATE, input_tokens=4, output_tokens=6)
os.environ["P3_FAKE"] = "engine"
def generate(options):
    global request
    torch._dynamo.reset()
    request = dataclasses.replace(request, options=options)
    opened = workflow.open_subject(request)
    inputs = opened.inputs(2, 0)
    program = workflow.build(opened, inputs, request)
    fed = program.feed(inputs)
    found = workflow.engagement(program, fed)
    return {"share": found.share, "proof": found.proof, "text": program.collect(program(fed))[0].tolist()}

workflow.settings(request)
tell("as the paper did", lambda: generate({}))
tell("fixed cache", lambda: generate({"cache": "static"}))
"""
#: PyTorch's own limit is 8: one is as good, and quicker.
RECOMPILES = """
import functools
from probes.workflows import torch_compile_inductor as workflow
torch._dynamo.config.recompile_limit = 1
# The limit is Dynamo's: what it hands its graphs to does not matter, and this compiles in no time.
torch.compile = functools.partial(torch.compile, backend="eager")
tell("first size", lambda: engage(workflow, [2]))
torch._dynamo.reset()
tell("second size", lambda: engage(workflow, [2, 3]))
"""
SESSIONS = """
from probes import onnxruntime_stack as stack
from probes.workflows import onnxruntime_tensorrt_rtx as plugged
tell("session", lambda: stack.open_session(place / "a.onnx", [(stack.CUDA, {})], request))
tell("plug-in", lambda: plugged.build(None, [], request))
"""
PROVIDED = """
from probes import onnxruntime_stack as stack
from probes.workflows import onnxruntime_tensorrt as workflow
tell("providers", lambda: stack.open_session(place / "a.onnx", [(workflow.PROVIDER, {})], request).get_providers())
tell("versions", workflow.versions)
"""
ENGINES = """
import tensorrt as trt
from probes import tensorrt_stack as stack

def build_and_load():
    log = stack.Log()
    return stack.load_engine(trt, stack.build_plan(trt, place / "a.onnx", [], log), log)
for day in ("good", *trt.LINES, "unknown operator"):
    trt.DAY = day
    tell(day, build_and_load)
"""
#: A GPU's settings can be made without one.
PRECISION = """
import dataclasses
from probes import onnxruntime_stack
settings = onnxruntime_stack.settings_of_tensorrt(dataclasses.replace(request, device="cuda"))
told["precision"] = {name: settings[name] for name in ("tf32_matmul", "tf32_cudnn")} | {"environment": os.environ["NVIDIA_TF32_OVERRIDE"]}
"""
#: A file that leaves free how many sequences there are and how long they are, but not how many heads.
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
#: torchax and JAX as far as weights and caches go: what is extracted, from where, and which of it each program is called with.
EXTRACTED = """
import types
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
GRAPHS = """
from probes import kernels
from probes.protocol import Engagement
from probes.workflows import torch_compile_inductor as workflow
engaged = Engagement(1.0, "all compiled", {})
kernel_events = [("gemm", True), ("relu", True), ("Memcpy DtoD", True)]
one_by_one = kernels.summarise([("aten::linear", False), ("cudaLaunchKernel", False), ("cudaLaunchKernel", False), *kernel_events])
captured = kernels.summarise([("cudaLaunchKernel", False), ("cudaGraphLaunch", False), *kernel_events])
told["inductor"] = [workflow.with_graphs(engaged, each).share for each in (one_by_one, captured)]
told["graphs"] = [kernels.engagement_of_graphs(each).share for each in (one_by_one, captured)]
"""
#: A real session on the processor, fed as sessions on a GPU are: there is no other way to try that without one.
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
from probes import recipe
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
    made = recipe.compose(asked, {}, {2: [1e-7]}, None)
    script = place / "serve.py"
    script.write_text("\\n".join([*made.imports, "MEASURED = {}", made.source]))
    return subprocess.run([sys.executable, script], capture_output=True, text=True).stderr
tell("recipe", serve)
"""
#: Left to itself, transformers compiles a step on GPUs only, and says nothing.
STEPS = """
import dataclasses
import transformers
from probes import protocol
from probes.workflows import torch_compile_inductor_static_cache as workflow
config = transformers.LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, vocab_size=100)
request = dataclasses.replace(request, task=protocol.GENERATE, input_tokens=4, output_tokens=6)
compiled = []
torch.compile = lambda call, **how: compiled.append(how["dynamic"]) or call
def generate(options):
    compiled.clear()
    names = {"model": transformers.LlamaForCausalLM(config).eval(), "prompts": torch.ones(2, 4, dtype=torch.int64)}
    exec(workflow.integration(dataclasses.replace(request, options=options)), names)
    return [*compiled, list(names["tokens"].shape)]
tell("default", lambda: generate({}))
tell("kept", lambda: generate({"cache": "kept"}))
"""


def run(script: str, *stacks: str) -> dict[str, Any]:
    tests, root = pathlib.Path(__file__).parents[1], catalogue.probes_directory().parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(STACKS / stack) for stack in stacks)}
    command = [sys.executable, "-W", "ignore", "-c", BEGIN + script + END, str(root), str(tests)]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert answer.returncode == 0, answer.stderr
    told: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return told


@pytest.fixture(scope="module")
def jit() -> dict[str, Any]:
    return run(JIT, "torch_tensorrt_rtx")


@pytest.fixture(scope="module")
def sessions() -> dict[str, Any]:
    return run(SESSIONS, "onnxruntime_gpu")


@pytest.fixture(scope="module")
def engines() -> dict[str, Any]:
    return run(ENGINES + GRAPHS, "tensorrt")


def test_engines_that_run_are_engaged(jit: dict[str, Any]) -> None:
    assert jit["engine"]["share"] == 1.0
    assert jit["engine"]["proof"].startswith("1 TensorRT engines a call; 0 operators ran in PyTorch")


def test_a_build_that_fails_fails_and_does_not_run_eager_code(jit: dict[str, Any]) -> None:
    """Left to itself, the backend would log a line and return the module."""
    assert jit["fails"]["raised"] == "BackendCompilerFailed"
    assert "does not support bfloat16" in jit["fails"]["reason"]


def test_eager_code_in_place_of_engines_is_not_engaged(jit: dict[str, Any]) -> None:
    assert jit["lies"]["share"] == 0.0
    assert "no TensorRT engine ran" in jit["lies"]["proof"]


def test_text_is_generated_with_engines_over_a_fixed_cache_and_without_any_as_the_paper_did() -> None:
    told = run(TEXT, "torch_tensorrt_rtx")
    paper, cached = told["as the paper did"], told["fixed cache"]
    assert (paper["share"], paper["proof"][:24]) == (0.0, "no TensorRT engine ran: ")
    assert cached["share"] == pytest.approx(5 / 6), "the prompt's pass stays eager"
    assert cached["text"] == paper["text"]
    assert len(cached["text"][0]) == 6


def test_a_session_without_the_provider_it_was_opened_for_is_refused_with_the_loader_s_reason(sessions: dict[str, Any]) -> None:
    assert sessions["session"]["raised"] == "UnsupportedError"
    assert "left CUDAExecutionProvider out" in sessions["session"]["reason"]
    assert "libonnxruntime_providers_cuda.so" in sessions["session"]["reason"]


def test_the_provider_of_tensorrt_finds_the_libraries_of_its_wheel() -> None:
    told = run(PROVIDED, "onnxruntime_gpu", "tensorrt")
    assert told["providers"][0] == "TensorrtExecutionProvider", told
    assert told["versions"]["tensorrt"] == "10.16.1"


def test_a_plug_in_without_a_device_is_a_limit(sessions: dict[str, Any]) -> None:
    assert sessions["plug-in"]["raised"] == "UnsupportedError"
    assert "8.6, 8.9" in sessions["plug-in"]["reason"]


@pytest.mark.parametrize(
    ("day", "raised", "words"),
    [
        ("out of memory", "MemoryError", "insufficient memory"),
        ("no implementation", "RuntimeError", "Could not find any implementation"),
        ("unknown operator", "UnsupportedError", "No importer registered for op"),
        ("another gpu", "UnsupportedError", "incompatible device, expecting compute 8.9 got compute 9.0"),
    ],
)
def test_an_engine_that_is_not_to_be_had_is_told_in_tensorrt_s_words(day: str, raised: str, words: str, engines: dict[str, Any]) -> None:
    assert engines["good"] == "an engine"
    assert engines[day]["raised"] == raised
    assert words in engines[day]["reason"]


def test_float32_keeps_its_precision_in_every_stack(engines: dict[str, Any], jit: dict[str, Any]) -> None:
    """The stand-ins of TensorRT and Torch-TensorRT refuse to round to TF32, which the real ones do unless told otherwise."""
    assert run(PRECISION, "")["precision"] == {"tf32_matmul": "False", "tf32_cudnn": "False", "environment": "0"}
    assert (engines["good"], jit["engine"]["share"]) == ("an engine", 1.0)


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
    assert [line.partition(",")[0] for line in told["lines for [4]"][:3]] == ["min_shape=(4", "opt_shape=(4", "max_shape=(5"]


def test_the_weights_are_copied_to_jax_once_and_leave_the_device_for_it() -> None:
    told = run(EXTRACTED, "")
    assert told["extracted"] == [["cpu"]], "once, and from the host"
    assert told["weights"] == [1, 1], "all batch sizes share them"
    assert told["moved"] == ["cpu", "cpu"], "a recipe brings them back in between"
    assert told["cache"] == "set after the import"


def test_graphs_that_were_promised_and_not_captured_are_not_engaged(engines: dict[str, Any]) -> None:
    assert engines["inductor"] == [0.0, 1.0]
    assert engines["graphs"] == [0.0, 0.5]


def test_tensors_of_every_type_reach_a_session_from_the_host_and_bound() -> None:
    told = run(FEEDING)
    assert len(told) == 6
    assert all(answer == [[[2.0, 4.0, 7.0]], 1.0] for answer in told.values()), told


def test_beyond_the_recompile_limit_nothing_is_compiled_and_that_is_seen() -> None:
    told = run(RECOMPILES)
    assert told["first size"]["share"] == 1.0
    assert told["second size"]["share"] == 0.0
    assert "no compiled region ran" in told["second size"]["proof"]


def test_the_lines_for_a_step_on_a_processor_have_it_compiled() -> None:
    told = run(STEPS)
    assert told == {"default": [False, [2, 10]], "kept": [False, [2, 10]]}


def test_iree_compiles_for_the_device_that_is_asked_for() -> None:
    told = run(TARGETS, "iree")
    assert (told["cpu"]["target"], told["cpu"]["driver"]) == ("llvm-cpu", "local-sync"), "one thread: it computes where it is called"
    assert (told["cuda"]["target"], told["cuda"]["driver"]) == ("cuda", "cuda"), told
    assert not told["cuda"]["cuda"], "PyTorch leaves the GPU's memory to IREE"
    assert told["weights beside"] == [1.0, 1], told
    assert "do not serve with this" in told["recipe"], "the stand-in returns what it is given: as far as that the recipe runs"
