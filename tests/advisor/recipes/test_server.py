"""Servers of compiled models: composed, started as a process of their own, and asked."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import builders
import numpy as np
import pytest
import workers

from advisor.catalogue import rubric_files
from advisor.domain.model import FactoryModel, SyntheticModel, TransformersModel
from advisor.domain.question import Question
from advisor.errors import NoRecipeError
from advisor.recipes.server import compose_server, divide

PROBES = rubric_files.probes_directory()
SIZES = (1, 4)
MODEL = SyntheticModel(name="demo", block="encoder", hidden=16, intermediate=32, layers=1, heads=2)
CONFIG = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
LLAMA = TransformersModel(name="demo/llama", weights="random", config=CONFIG)
#: A model of which each row depends on the others, with an output that has no rows.
COUPLED = """
import torch

class Centred(torch.nn.Module):
    def forward(self, x):
        mean = x.mean(0)
        return x - mean, mean

def build():
    return Centred(), torch.randn(4, 3)
"""
START_SECONDS = 240
ANSWER_SECONDS = 60


def question(model: Any = MODEL, **changes: Any) -> Question:
    return builders.question(
        model=model, batch_sizes=SIZES, input_tokens=6, output_tokens=5, **changes
    )


@contextlib.contextmanager
def serving(script: str, directory: pathlib.Path, *arguments: str) -> Iterator[str]:
    """Run a server on a free port; yield its address when it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (directory / "server.py").write_text(script)
    log = (directory / "log").open("w+")
    process = subprocess.Popen(
        [sys.executable, "server.py", "--port", str(port), *arguments],
        cwd=directory,
        stdout=log,
        stderr=log,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(directory / "inductor")},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health"):
                break
            time.sleep(0.2)
        log.seek(0)
        assert process.poll() is None, log.read()
        yield address
    finally:
        process.kill()
        process.wait()
        log.close()


def post(address: str, body: Any, kind: str = "application/json") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
        answer: bytes = response.read()
    return answer


def status_of(address: str, body: Any) -> int:
    try:
        post(address, body)
    except urllib.error.HTTPError as problem:
        return problem.code
    return 200


def expected_rows(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what the demonstration model computes; the recipe has its seed."""
    import torch  # noqa: PLC0415 - takes seconds, in each process that collects the tests

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    layer = torch.nn.TransformerEncoderLayer(
        16, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    with torch.inference_mode():
        outputs: np.ndarray[Any, Any] = model(torch.from_numpy(rows)).numpy()
    return outputs


@pytest.mark.stack
@pytest.mark.parametrize(
    ("workflow", "options"),
    [
        ("pytorch_eager", {}),
        pytest.param("torch_compile_inductor", {"dynamic": False}, marks=pytest.mark.long),
        ("onnxruntime_cpu", {"feeding": "io-binding"}),
        ("onnxruntime_cpu", {"feeding": "host"}),
    ],
)
def test_an_array_server_answers_requests_of_several_clients(
    workflow: str, options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    integration = integration_of(workflow, options)
    script = compose_server(question(), SIZES, integration, PROBES)
    rows = np.random.default_rng(3).standard_normal((6, 6, 16)).astype(np.float32)
    expected = expected_rows(rows)
    with serving(script, tmp_path) as address:
        with ThreadPoolExecutor(6) as clients:
            answers = clients.map(
                lambda row: post(f"{address}/predict", {"inputs": [row[None].tolist()]}), rows
            )
        outputs = [json.loads(answer)["outputs"] for answer in answers]
        np.testing.assert_allclose(np.array([each[0][0] for each in outputs]), expected, atol=1e-5)
        packed = io.BytesIO()
        np.savez(packed, rows[:3])
        answer = post(f"{address}/predict", packed.getvalue(), "application/octet-stream")
        with np.load(io.BytesIO(answer)) as file:
            np.testing.assert_allclose(file["arr_0"], expected[:3], atol=1e-5)
        wrong: Any
        for wrong in ({}, [], {"inputs": [[1]]}, {"inputs": [rows[:5].tolist()]}, b"{"):
            assert status_of(f"{address}/predict", wrong) == 400
        names = np.full((1, 6, 16), "x").tolist()
        assert status_of(f"{address}/predict", {"inputs": [names]}) == 400
        assert status_of(f"{address}/predict", {"inputs": [rows[:1].tolist()]}) == 200


@pytest.mark.stack
def test_requests_of_a_model_with_coupled_rows_are_computed_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "coupled.py").write_text(COUPLED)
    model = FactoryModel(name=str(tmp_path / "coupled.py") + ":build")
    integration = integration_of("pytorch_eager", {})
    script = compose_server(question(model), SIZES, integration, PROBES, has_coupled_rows=True)
    rows = np.random.default_rng(3).standard_normal((9, 4, 3)).astype(np.float32)
    with serving(script, tmp_path) as address:
        url = f"{address}/predict"
        with ThreadPoolExecutor(len(rows)) as clients:
            answers = [
                json.loads(answer)["outputs"]
                for answer in clients.map(lambda each: post(url, {"inputs": [each.tolist()]}), rows)
            ]
        for (centred, mean), each in zip(answers, rows, strict=True):
            np.testing.assert_allclose(centred, each - each.mean(axis=0), atol=1e-6)
            np.testing.assert_allclose(mean, each.mean(axis=0), atol=1e-6)
        (alone, _) = json.loads(post(url, {"inputs": [rows[0, :1].tolist()]}))["outputs"]
        assert not np.any(alone)
        # Rows that fill up a batch would change the outputs of the others.
        assert status_of(url, {"inputs": [rows[0, :2].tolist()]}) == 400


@pytest.mark.stack
@pytest.mark.parametrize(
    ("workflow", "options"),
    [
        ("pytorch_eager", {}),
        pytest.param(
            "torch_compile_inductor_static_cache", {"cache": "kept"}, marks=pytest.mark.long
        ),
    ],
)
def test_a_text_server_speaks_openais_protocol(
    workflow: str, options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    import torch  # noqa: PLC0415 - as above
    import transformers  # noqa: PLC0415 - as above

    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(**CONFIG)
    )
    integration = integration_of(workflow, options, "generate")
    script = compose_server(question(LLAMA, task="generate"), SIZES, integration, PROBES)
    prompts = [[1, 2, 3, 4, 5, 6], [7, 8], [9], [10, 11, 12], [13, 14, 15, 16, 17]]
    expected = [greedy(model, prompt) for prompt in prompts]
    model.generation_config.eos_token_id = int(expected[2].split()[0])
    model.save_pretrained(tmp_path / "checkpoint")
    kept = {"max_tokens": 5, "ignore_eos": True}
    with serving(script, tmp_path, "--checkpoint", "checkpoint") as address:
        url = f"{address}/v1/completions"
        with ThreadPoolExecutor(len(prompts)) as clients:
            answers = [
                json.loads(answer)
                for answer in clients.map(
                    lambda prompt: post(url, {"prompt": prompt, **kept}), prompts
                )
            ]
        assert [answer["choices"][0]["text"] for answer in answers] == expected
        assert {answer["choices"][0]["finish_reason"] for answer in answers} == {"length"}
        assert answers[1]["usage"] == {
            "prompt_tokens": 2,
            "completion_tokens": 5,
            "total_tokens": 7,
        }
        ended = json.loads(post(url, {"prompt": prompts[2], "max_tokens": 5}))
        assert ended["choices"][0]["finish_reason"] == "stop"
        assert ended["choices"][0]["text"] == ""
        streamed = {
            "prompt": prompts[0],
            **kept,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        events = [
            line.removeprefix("data: ")
            for line in post(url, streamed).decode().splitlines()
            if line
        ]
        assert events[-1] == "[DONE]"
        chunks = [json.loads(event) for event in events[:-1]]
        pieces = [choice["text"] for chunk in chunks for choice in chunk["choices"]]
        assert len(pieces) == 5
        assert "".join(pieces) == expected[0]
        assert chunks[-1]["usage"]["completion_tokens"] == 5
        wrong: Any
        for wrong in (
            {"prompt": "a text without a tokenizer"},
            {"prompt": [1] * 7},
            {"prompt": [64]},
            {"prompt": []},
            {"prompt": [1], "max_tokens": 6},
            {"prompt": [1], "temperature": 0.7},
            {"prompt": [1], "max_tokens": "5"},
            [],
        ):
            assert status_of(url, wrong) == 400
        with urllib.request.urlopen(f"{address}/v1/models") as response:
            assert json.loads(response.read())["data"][0]["id"] == "checkpoint"


def greedy(model: Any, prompt: list[int]) -> str:
    import torch  # noqa: PLC0415 - as above

    tokens = model.generate(
        torch.tensor([prompt]), do_sample=False, max_new_tokens=5, pad_token_id=0, eos_token_id=None
    )
    return "".join(f" {token}" for token in tokens[0, len(prompt) :].tolist())


def integration_of(workflow: str, options: dict[str, Any], task: str = "forward") -> str:
    module = importlib.import_module(f"probes.workflows.{workflow}")
    changes = {"options": options, "task": task, "input_tokens": 6, "output_tokens": 5}
    request = workers.make_request(pathlib.Path("unused.py"), pathlib.Path(), **changes)
    return str(module.integration(request))


@pytest.mark.parametrize(
    "integration",
    [
        "",
        "output = model(*inputs)\n",
        "compiled = model\n# Each caller\noutput = compiled(*inputs)\n",
    ],
)
def test_lines_without_a_mark_have_no_server(integration: str) -> None:
    with pytest.raises(NoRecipeError):
        divide(integration)


def test_a_loop_that_takes_no_padding_has_no_text_server() -> None:
    integration = "# Each call:\ntokens = loop(prompts)\n"
    with pytest.raises(NoRecipeError):
        compose_server(question(LLAMA, task="generate"), SIZES, integration, PROBES)


def test_a_server_is_complete_without_the_package() -> None:
    integration = (
        "import torch\n\ncompiled = torch.compile(model)\n# Each call:\noutput = model(*inputs)\n"
    )
    script = compose_server(question(), SIZES, integration, PROBES)
    imported = {
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(ast.parse(script))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert not {name.partition(".")[0] for name in imported} & {"probes", "advisor"}
    assert "noqa" not in script
