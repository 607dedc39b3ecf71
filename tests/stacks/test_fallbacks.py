"""Stacks that quietly do something else than they were asked for: real ones where they run on a processor, else faithful stand-ins."""

from __future__ import annotations

from typing import Any

import pytest
from stack_scripts import run

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

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


#: Left to itself, transformers compiles a step on GPUs only, and says nothing.
STEPS = """
import dataclasses
import transformers
from probes import protocol
from probes.workflows import torch_compile_inductor_static_cache as workflow
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 100}
config = transformers.LlamaConfig(**sizes, eos_token_id=None)
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
    assert jit["engine"]["proof"].startswith(
        "1 TensorRT engines a call; 0 operators ran in PyTorch"
    )


def test_a_build_that_fails_fails_and_does_not_run_eager_code(jit: dict[str, Any]) -> None:
    """Left to itself, the backend would log a line and return the module."""
    assert jit["fails"]["raised"] == "BackendCompilerFailed"
    assert "does not support bfloat16" in jit["fails"]["reason"]


def test_eager_code_in_place_of_engines_is_not_engaged(jit: dict[str, Any]) -> None:
    assert jit["lies"]["share"] == 0.0
    assert "no TensorRT engine ran" in jit["lies"]["proof"]


def test_text_is_generated_with_engines_over_a_fixed_cache_and_without_any_as_the_paper_did() -> (
    None
):
    told = run(TEXT, "torch_tensorrt_rtx")
    paper, cached = told["as the paper did"], told["fixed cache"]
    assert (paper["share"], paper["proof"][:24]) == (0.0, "no TensorRT engine ran: ")
    assert cached["share"] == pytest.approx(5 / 6), "the prompt's pass stays eager"
    assert cached["text"] == paper["text"]
    assert len(cached["text"][0]) == 6


def test_a_session_without_the_provider_it_was_opened_for_is_refused_with_the_loader_s_reason(
    sessions: dict[str, Any],
) -> None:
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
        (
            "another gpu",
            "UnsupportedError",
            "incompatible device, expecting compute 8.9 got compute 9.0",
        ),
    ],
)
def test_an_engine_that_is_not_to_be_had_is_told_in_tensorrt_s_words(
    day: str, raised: str, words: str, engines: dict[str, Any]
) -> None:
    assert engines["good"] == "an engine"
    assert engines[day]["raised"] == raised
    assert words in engines[day]["reason"]


def test_float32_keeps_its_precision_in_engines(
    engines: dict[str, Any], jit: dict[str, Any]
) -> None:
    """The stand-ins of TensorRT and Torch-TensorRT refuse to round to TF32, which the real ones do unless told otherwise."""
    assert (engines["good"], jit["engine"]["share"]) == ("an engine", 1.0)


def test_graphs_that_were_promised_and_not_captured_are_not_engaged(
    engines: dict[str, Any],
) -> None:
    assert engines["inductor"] == [0.0, 1.0]
    assert engines["graphs"] == [0.0, 0.5]


def test_beyond_the_recompile_limit_nothing_is_compiled_and_that_is_seen() -> None:
    told = run(RECOMPILES)
    assert told["first size"]["share"] == 1.0
    assert told["second size"]["share"] == 0.0
    assert "no compiled region ran" in told["second size"]["proof"]


def test_the_lines_for_a_step_on_a_processor_have_it_compiled() -> None:
    told = run(STEPS)
    assert told == {"default": [False, [2, 10]], "kept": [False, [2, 10]]}
