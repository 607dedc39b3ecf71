"""Stacks that fall back without an error are noticed: real ones on the CPU, fakes otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from forks import RunScript

JIT = """
from probes.workflows import torch_compile_tensorrt as workflow

for behaviour in ("engine", "fails", "eager"):
    os.environ["P3_FAKE"] = behaviour
    torch._dynamo.reset()
    record(behaviour, lambda: engage(workflow, [2]))
"""
TEXT = """
from probes.workflows import torch_compile_tensorrt as workflow

request = dataclasses.replace(
    request,
    subject=workers.random_weights(workers.LLAMA, directory),
    dtype="float32",
    task=protocol.GENERATE,
    input_tokens=4,
    output_tokens=6,
)
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
    return {
        "share": found.share,
        "engines": int(found.proof.split()[0]),
        "text": program.collect(program(fed))[0].tolist(),
    }


workflow.settings(request)
record("growing cache", lambda: generate({}))
record("fixed cache", lambda: generate({"cache": "static"}))
"""
#: The limit is 8 by default; 1 makes the test faster.
RECOMPILES = """
from probes.workflows import torch_compile_inductor as workflow

torch._dynamo.config.recompile_limit = 1
# Dynamo has the limit, whatever the backend; this backend compiles fastest.
torch.compile = functools.partial(torch.compile, backend="eager")
record("first size", lambda: engage(workflow, [2]))
torch._dynamo.reset()
record("second size", lambda: engage(workflow, [2, 3]))
"""
#: Dynamo skips a function with a break of the graph in a loop, and counts no break.
BROKEN_LOOP = """
from probes.workflows import torch_compile_inductor as workflow

(directory / "loop.py").write_text('''
import torch

class Chosen(torch.nn.Module):
    def forward(self, x):
        for _ in range(2):
            x = x[torch.nonzero(x[:, 0] < 99)[:, 0]] * 2
        return x
''')
sys.path.insert(0, str(directory))
from loop import Chosen

torch.compile = functools.partial(torch.compile, backend="eager")
subject = workflow.open_subject(request)
subject.module = Chosen()
workflow.open_subject = lambda _: subject
record("loop", lambda: engage(workflow, [2]))
"""
#: Dynamo's region spans the eager body and the compiled head.
EAGER_BODY = """
from probes.workflows import torch_compile_inductor as workflow

class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
        self.run = torch._dynamo.disable(self.body.forward)
        self.head = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.head(self.run(x))

subject = workflow.open_subject(request)
subject.module = Mixed()
subject.tensors = lambda inputs: (torch.ones(2, 8),)
workflow.open_subject = lambda _: subject
record("mixed", lambda: engage(workflow, [2]))
"""
#: Dynamo captures nothing of these modules, for causes of its own.
UNCAPTURED = """
from probes.stacks import dynamo
from probes.workflows import torch_compile_inductor as workflow

(directory / "uncaptured.py").write_text('''
import torch

class Disabled(torch.nn.Linear):
    @torch._dynamo.disable
    def forward(self, x):
        return super().forward(x)

class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.GRU(16, 16)

    def forward(self, x):
        return self.inner(x)[0]

def lstm():
    return torch.nn.LSTM(16, 16), torch.randn(2, 4, 16)

def nested():
    return Nested(), torch.randn(2, 4, 16)

class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerDecoderLayer(16, 2, 16, batch_first=True)
        self.inner = torch.nn.TransformerDecoder(layer, 1)
        self.register_buffer("mask", torch.zeros(4, 4))

    def forward(self, x):
        return self.inner(x, x, tgt_mask=self.mask)

def disabled():
    return Disabled(16, 16), torch.randn(2, 16)

def masked():
    return Masked(), torch.randn(2, 4, 16)
''')
torch.compile = functools.partial(torch.compile, backend="eager")
for function in ("lstm", "nested", "disabled", "masked"):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    dynamo.HANDLER.breaks.clear()
    subject = {"kind": "factory", "name": f"{directory / 'uncaptured.py'}:{function}"}
    request = dataclasses.replace(
        request, subject=subject, dtype="own", shared_directory=tempfile.mkdtemp()
    )
    record(function, lambda: engage(workflow, [2]))
"""
SESSIONS = """
from probes.stacks import onnxruntime_session as stack

record("session", lambda: stack.open_session(directory / "a.onnx", [(stack.CUDA, {})], request))
"""
PROVIDED = """
from probes.stacks import onnxruntime_session as stack
from probes.workflows import onnxruntime_tensorrt as workflow

record(
    "providers",
    lambda: stack.open_session(
        directory / "a.onnx", [(workflow.PROVIDER, {})], request
    ).get_providers(),
)
record("versions", workflow.versions)
"""
ENGINES = """
import tensorrt as trt
from probes.stacks import tensorrt_engine as stack


def build_and_load():
    log = stack.EngineLog()
    return stack.load_engine(trt, stack.build_plan(trt, directory / "a.onnx", [], log), log)


for behaviour in ("good", *trt.LINES, "unknown operator"):
    trt.BEHAVIOUR = behaviour
    record(behaviour, build_and_load)


def open_without_context():
    log = stack.EngineLog()
    log.record("cuDNN graph compilation failed", is_error=True)
    engine = types.SimpleNamespace(create_execution_context=lambda: None)
    stack.open_context(trt, engine, [], 0, log)


record("no context", open_without_context)
"""
GRAPHS = """
from probes.stacks import cuda_graphs
from probes.events import Engagement
from probes.workflows import torch_compile_inductor as workflow

engaged = Engagement(1.0, "all compiled", {})
one_by_one = cuda_graphs.KernelLaunches(2, 2, 0)
captured = cuda_graphs.KernelLaunches(2, 1, 1)
results["inductor"] = [
    cuda_graphs.with_graphs(engaged, each, "").share for each in (one_by_one, captured)
]
results["graphs"] = [
    cuda_graphs.graph_engagement(each).share for each in (one_by_one, captured)
]
"""
#: By default transformers compiles a step on GPUs only, without an error on a CPU.
STEPS = """
import transformers
from probes.workflows import torch_compile_inductor_static_cache as workflow

config = transformers.LlamaConfig(**workers.TEXT, eos_token_id=None)
request = dataclasses.replace(request, task=protocol.GENERATE, input_tokens=4, output_tokens=6)
compiled = []
torch.compile = lambda call, **how: compiled.append(how["dynamic"]) or call


def generate():
    names = {
        "model": transformers.LlamaForCausalLM(config).eval(),
        "prompts": torch.ones(2, 4, dtype=torch.int64),
    }
    exec(workflow.integration(None, dataclasses.replace(request, options={})), names)
    return [*compiled, list(names["tokens"].shape)]


record("default", generate)
"""


@pytest.fixture(scope="module")
def engines(run_script: RunScript) -> dict[str, Any]:
    return run_script(ENGINES + GRAPHS, "tensorrt")


def test_engines_are_engaged_and_eager_code_and_failed_builds_are_not(
    run_script: RunScript,
) -> None:
    """By default the backend logs a line about a failed build and returns the module."""
    results = run_script(JIT, "torch_tensorrt_rtx")
    engine, fails, eager = (results[behaviour] for behaviour in ("engine", "fails", "eager"))
    assert engine["share"] == 1.0
    assert engine["proof"].startswith("1 TensorRT engines a call; 0 operators ran in PyTorch")
    assert fails["raised"] == "BackendCompilerFailed"
    assert "does not support bfloat16" in fails["reason"]
    assert eager["share"] == 0.0
    assert "no TensorRT engine ran" in eager["proof"]


def test_text_generation_runs_engines_for_every_token(run_script: RunScript) -> None:
    results = run_script(TEXT, "torch_tensorrt_rtx")
    growing, fixed = results["growing cache"], results["fixed cache"]
    assert growing["engines"] >= 6
    assert fixed["engines"] == 5, "the pass of the prompt stays eager"
    assert 0.3 < fixed["share"] < growing["share"] < 1.0
    assert growing["text"] == fixed["text"]
    assert len(growing["text"][0]) == 6


def test_a_session_without_its_provider_is_unsupported_with_the_loader_s_reason(
    run_script: RunScript,
) -> None:
    found = run_script(SESSIONS, "onnxruntime_gpu")["session"]
    assert found["raised"] == "UnsupportedError"
    assert "left CUDAExecutionProvider out" in found["reason"]
    assert "libonnxruntime_providers_cuda.so" in found["reason"]


def test_the_tensorrt_provider_finds_the_libraries_in_tensorrt_s_wheel(
    run_script: RunScript,
) -> None:
    results = run_script(PROVIDED, "onnxruntime_gpu", "tensorrt")
    assert results["providers"][0] == "TensorrtExecutionProvider", results
    assert results["versions"]["tensorrt"] == "10.16.1"


@pytest.mark.parametrize(
    ("behaviour", "raised", "words"),
    [
        ("out of memory", "MemoryError", "insufficient memory"),
        ("no implementation", "RuntimeError", "Could not find any implementation"),
        ("unknown operator", "UnsupportedError", "No importer registered for op"),
        (
            "another gpu",
            "UnsupportedError",
            "incompatible device, expecting compute 8.9 got compute 9.0",
        ),
        ("no context", "RuntimeError", "cuDNN graph compilation failed"),
    ],
)
def test_a_failed_engine_raises_with_tensorrt_s_reason(
    behaviour: str, raised: str, words: str, engines: dict[str, Any]
) -> None:
    assert engines["good"] == "an engine"
    assert engines[behaviour]["raised"] == raised
    assert words in engines[behaviour]["reason"]


def test_promised_graphs_that_are_not_captured_are_not_engaged(engines: dict[str, Any]) -> None:
    assert engines["inductor"] == [0.0, 1.0]
    assert engines["graphs"] == [0.0, 0.5]


def test_eager_code_beyond_the_recompile_limit_is_not_engaged(run_script: RunScript) -> None:
    results = run_script(RECOMPILES)
    assert results["first size"]["share"] == 1.0
    assert results["second size"]["share"] == 0.0
    assert "no compiled region ran" in results["second size"]["proof"]
    assert "Dynamo compiles again, up to its limit" in results["second size"]["proof"]


def test_a_skipped_loop_is_not_engaged_with_its_reason(run_script: RunScript) -> None:
    found = run_script(BROKEN_LOOP)["loop"]
    assert found["raised"] == "NotEngagedError"
    assert found["reason"].startswith(
        "Dynamo captured nothing at loop.py:7: Operator `aten.nonzero"
    )
    assert found["reason"].endswith(" (aten.nonzero.default)")


def test_eager_code_between_compiled_graphs_is_not_counted_as_compiled(
    run_script: RunScript,
) -> None:
    assert run_script(EAGER_BODY)["mixed"]["share"] == pytest.approx(1 / 5)


def test_what_dynamo_does_not_capture_is_not_engaged_with_the_cause_it_counts(
    run_script: RunScript,
) -> None:
    results = run_script(UNCAPTURED)
    for function, causes in (
        ("lstm", ("LSTM(16, 16)", "Dynamo does not support RNN, GRU, or LSTM")),
        ("nested", ("GRU(16, 16)", "Dynamo does not support RNN, GRU, or LSTM")),
        ("disabled", ("Disabled.forward", "torch.compiler.disable")),
        ("masked", (" at uncaptured.py:31: ", "Tensor.item()")),
    ):
        assert results[function].get("raised") == "NotEngagedError", results[function]
        reason = results[function]["reason"]
        assert all(cause in reason for cause in causes), reason
        assert "\n" not in reason
        assert " at 0x" not in reason


def test_the_integration_for_a_cpu_compiles_the_step(run_script: RunScript) -> None:
    assert run_script(STEPS) == {"default": [False, [2, 10]]}
