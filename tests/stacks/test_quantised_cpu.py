"""Quantised arms with the real stacks on the CPU: their weights are stored in the asked format."""

from __future__ import annotations

from typing import Any

import pytest
from forks import RunScript

PREPARE = """
import numpy as np

request = dataclasses.replace(request, dtype="float32")
SIZES = {"hidden": 64, "intermediate": 128, "layers": 2, "heads": 4}
CONFIG = {**workers.LLAMA, "vocab_size": 512, "hidden_size": 128, "intermediate_size": 256}

def text_request(options):
    return dataclasses.replace(
        request,
        subject=workers.random_weights(CONFIG, directory),
        task="generate",
        options=options,
        input_tokens=4,
        output_tokens=4,
        batch_sizes=[2],
    )


def quantised(workflow, block, options):
    shared = directory / f"{block}-{'-'.join(map(str, options.values()))}"
    shared.mkdir()
    asked = dataclasses.replace(
        request,
        subject={"kind": "synthetic", "block": block, **SIZES},
        options=options,
        shared_directory=str(shared),
        scratch_directory=str(shared),
    )
    workflow.settings(asked)
    subject = workflow.open_subject(asked)
    inputs = subject.inputs(3, 0)
    # Before the build, which may quantise the module itself.
    (wanted,) = subject.run(inputs)
    program = workflow.build(subject, inputs, asked)
    fed = program.feed(inputs)
    (found,) = program.collect(program(fed))
    engaged = workflow.engagement(program, fed)
    return {
        "error": float(np.sqrt(((found - wanted) ** 2).mean() / (wanted**2).mean())),
        "share": engaged.share,
        "proof": engaged.proof,
        "facts": engaged.facts,
        "bytes": engaged.weight_bytes / subject.parameter_bytes,
    }
"""
ONNXRUNTIME = """
from probes.workflows import onnxruntime_cpu as workflow

for weights in ("int8", "int4"):
    options = {"feeding": "host", "weights": weights}
    record(weights, lambda: quantised(workflow, "encoder", options))
"""
#: Largest relative error by format, and largest share of the native bytes: scales come on top.
LIMITS = {"int8": (0.05, 0.35), "int4": (0.3, 0.25)}


def assert_quantised(found: dict[str, Any], weights: str) -> None:
    assert "raised" not in found, found
    error, size = LIMITS[weights]
    assert 1e-4 < found["error"] < error
    assert found["bytes"] < size
    assert found["share"] == 1.0, found["proof"]


def test_onnxruntime_stores_and_multiplies_quantised_weights(run_script: RunScript) -> None:
    results = run_script(PREPARE + ONNXRUNTIME)
    for weights, found in results.items():
        assert_quantised(found, weights)
    int8, int4 = (results[name]["facts"]["weights"] for name in ("int8", "int4"))
    assert set(int8) == {"MatMulInteger INT8"}
    assert set(int4) == {"MatMulNBits UINT8"}
    assert int4.popitem()[1] == int8.popitem()[1]


AGAIN = """
from probes.stacks import onnx_export, onnxruntime_quantisation
from probes.subjects.by_request import open_torch_subject

layers = {"kind": "synthetic", "block": "ffn-multilayer", **SIZES}
asked = dataclasses.replace(request, subject=layers)
subject = open_torch_subject(asked)
file = onnx_export.model_file(subject, subject.inputs(3, 0), asked)
working, written = os.getcwd(), directory / "quantised.onnx.data"
os.chdir(directory)
for weights in ("int8", "int4"):
    sizes = []
    for _ in range(2):
        exec(onnxruntime_quantisation.integration(weights, repr(str(file))))
        sizes.append(written.stat().st_size)
    results[weights] = sizes
os.chdir(working)
"""


def test_the_handed_out_lines_quantise_again_in_the_same_folder(run_script: RunScript) -> None:
    results = run_script(PREPARE + AGAIN)
    for weights in ("int8", "int4"):
        first, second = results[weights]
        assert first == second > 0


WITHOUT_VNNI = """
import onnx
from onnx import numpy_helper
from probes.stacks import onnxruntime_quantisation

onnxruntime_quantisation.sums_saturate = lambda: True
from probes.workflows import onnxruntime_cpu as workflow

options = {"feeding": "host", "weights": "int8"}
record("7 bits", lambda: quantised(workflow, "encoder", options))
(file,) = directory.rglob("int8-*/*.onnx")
weights = [
    numpy_helper.to_array(tensor, str(file.parent))
    for tensor in onnx.load(file).graph.initializer
    if tensor.data_type == onnx.TensorProto.INT8 and len(tensor.dims) == 2
]
results["largest"] = [int(abs(weight.astype("int16")).max()) for weight in weights]
results["line"] = onnxruntime_quantisation.integration("int8", "file")
"""


def test_weights_have_7_bits_where_sums_would_saturate(run_script: RunScript) -> None:
    results = run_script(PREPARE + WITHOUT_VNNI)
    assert_quantised(results["7 bits"], "int8")
    assert results["largest"]
    assert max(results["largest"]) <= 64
    assert "reduce_range=True" in results["line"]


NATIVE = """
import collections
from probes.stacks import onnx_export, onnxruntime_quantisation
from probes.subjects.by_request import open_torch_subject

subject = open_torch_subject(request)
file = onnx_export.model_file(subject, subject.inputs(3, 0), request)
quantised_file = onnxruntime_quantisation.quantise(file, "int8", request)
operators = {"native": collections.Counter(Gemm=2), "integer": collections.Counter(MatMulInteger=2)}
for name, opened, session in (
    ("native file", file, "native"),
    ("fallen back", quantised_file, "native"),
    ("engaged", quantised_file, "integer"),
):
    results[name] = onnxruntime_quantisation.engagement(opened, operators[session]).share
"""


def test_native_weights_and_native_operators_are_not_engaged(run_script: RunScript) -> None:
    assert run_script(PREPARE + NATIVE) == {"native file": 0.0, "fallen back": 0.0, "engaged": 1.0}


TORCHAO = """
from probes.workflows import torchao as workflow

ARMS = {"weights": {"weights": "int8"}, "dynamic": {"weights": "int8", "activations": "int8"}}
for name, options in ARMS.items():
    record(name, lambda: quantised(workflow, "encoder", options))

def generated():
    torch._dynamo.reset()
    asked = text_request(ARMS["weights"])
    subject = workflow.open_subject(asked)
    program = workflow.build(subject, subject.inputs(2, 0), asked)
    fed = program.feed(subject.inputs(2, 1))
    (tokens,) = program.collect(program(fed))
    engaged = workflow.engagement(program, fed)
    return {"shape": tokens.shape, "share": engaged.share, "weights": engaged.facts["weights"]}


record("text", generated)

"""


def test_torchao_stores_quantised_weights_and_runs_them_compiled(run_script: RunScript) -> None:
    pytest.importorskip("torchao", reason="pip install torchao")
    results = run_script(PREPARE + TORCHAO)
    assert_quantised(results["weights"], "int8")
    assert_quantised(results["dynamic"], "int8")
    assert results["dynamic"]["error"] > results["weights"]["error"], "it rounds activations too"
    assert results["text"]["shape"] == [2, 4], results["text"]
    # The pass over the prompt is not compiled.
    assert results["text"]["share"] == 0.75
    assert set(results["text"]["weights"]) == {"Int8Tensor int8"}


GENAI = """
from probes.subjects import checkpoint
from probes.subjects.causal_lm import create_checkpoint
from probes.workflows import onnxruntime_genai as workflow

def built(options):
    asked = text_request(options)
    if not checkpoint.folder_of(asked).exists():
        with torch.no_grad():
            create_checkpoint(checkpoint.folder_of(asked), asked)
    workflow.settings(asked)
    subject = workflow.open_subject(asked)
    prompts = [np.arange(8, dtype=np.int64).reshape(2, 4) + 3]
    program = workflow.build(subject, prompts, asked)
    (tokens,) = program.collect(program(program.feed(prompts)))
    engaged = workflow.engagement(program, prompts)
    return {"shape": tokens.shape, "share": engaged.share, "facts": engaged.facts}


record("int4", lambda: built({"prompts_at_once": 32, "weights": "int4"}))
record("native", lambda: built({"prompts_at_once": 32}))
"""


def test_genai_builds_a_graph_of_its_own_with_quantised_weights(run_script: RunScript) -> None:
    pytest.importorskip("onnxruntime_genai", reason="pip install onnxruntime-genai")
    results = run_script(PREPARE + GENAI)
    assert results["int4"]["shape"] == [2, 4], results["int4"]
    assert results["int4"]["share"] == 1.0
    assert set(results["int4"]["facts"]["weights"]) == {"MatMulNBits UINT8"}
    assert results["native"]["facts"] == {}
