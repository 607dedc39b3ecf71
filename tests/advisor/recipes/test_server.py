"""Servers of modules, and the scripts of ways to start in a new process."""

from __future__ import annotations

import contextlib
import importlib
import json
import pathlib
import socket
import subprocess
import sys
import time
import types
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import builders
import numpy as np
import pytest
import workers
from lazy import torch

from advisor.domain.errors import NoRecipeError
from advisor.domain.measurement import CACHE_DIRECTORY, COLD
from advisor.domain.model import FactoryModel, SyntheticModel
from advisor.domain.question import Question
from advisor.probing.snippets import NAMED_FILE
from advisor.recipes.server import compose_server, max_bytes, user_words
from advisor.recipes.snippet import compose_snippet, compose_starts, without_unused
from probes.facts import InputSpec, StartLines

MODEL = SyntheticModel(name="demo", block="encoder", hidden=16, intermediate=32, layers=1, heads=2)
INPUTS = (InputSpec(name="", shape=(6, 16), dtype="float32"),)
#: A model with token ids, of which each row depends on the others, and an output without rows.
COUPLED = """
import torch

class Centred(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.added = torch.nn.Embedding(10, 3, _weight=torch.zeros(10, 3))

    def forward(self, x, tokens):
        mean = x.mean(0)
        return x - mean + self.added(tokens), mean

def build():
    return Centred(), (torch.randn(4, 3), torch.zeros(4, dtype=torch.int64))
"""
#: A model whose calls take longer than the server of the test lets a request wait.
SLOW = """
import time
import torch

class Slow(torch.nn.Module):
    def forward(self, x):
        time.sleep(1)
        return x

def build():
    return Slow(), torch.randn(1, 3)
"""
START_SECONDS = 240
TOO_LARGE, REFUSED, TOO_LATE = 413, 422, 408


def printed(
    asked: Question,
    inputs: tuple[InputSpec, ...],
    size: int,
    *,
    joins_requests: bool,
    workflow: str = "pytorch_eager",
    **options: Any,
) -> str:
    module = importlib.import_module(f"probes.workflows.{workflow}")
    request = workers.make_request(pathlib.Path("unused.py"), pathlib.Path(), options=options)
    subject = types.SimpleNamespace(dtype="float32")
    snippet = compose_snippet(asked, size, module.integration(subject, request), inputs)
    return compose_server(snippet, size, inputs, joins_requests=joins_requests)


@contextlib.contextmanager
def serving(script: str, directory: pathlib.Path, *options: str) -> Iterator[str]:
    """Run a server on a free port; yield the address of its model when it accepts requests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (directory / "server.py").write_text(script)
    with (directory / "log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "server.py", "--port", str(port), *options],
            cwd=directory,
            stdout=log,
            stderr=log,
        )
        try:
            end = time.monotonic() + START_SECONDS
            while process.poll() is None and time.monotonic() < end:
                with (
                    contextlib.suppress(OSError),
                    urllib.request.urlopen(f"http://127.0.0.1:{port}"),
                ):
                    break
                time.sleep(0.2)
            log.seek(0)
            assert process.poll() is None, log.read()
            yield f"http://127.0.0.1:{port}/predict"
        finally:
            process.terminate()  # ends the processes of the model, too
            process.wait(60)


def ask(address: str, body: Any) -> tuple[int, Any]:
    """Return the status and the outputs, which are null for a request that is refused."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(address, data, timeout=START_SECONDS) as response:
            return response.status, json.load(response)["outputs"]
    except urllib.error.HTTPError as problem:
        return problem.code, None


@pytest.mark.stack
@pytest.mark.parametrize(
    ("workflow", "options"),
    [
        ("pytorch_eager", {}),
        # Its session is bound to the memory of the inputs.
        pytest.param("onnxruntime_cpu", {"feeding": "io-binding"}, marks=pytest.mark.long),
    ],
)
def test_requests_of_several_clients_share_a_call(
    workflow: str, options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    asked = builders.question(model=MODEL, input_tokens=6)
    script = printed(asked, INPUTS, 4, joins_requests=True, workflow=workflow, **options)
    rows = np.random.default_rng(3).standard_normal((6, 6, 16)).astype(np.float32)
    # The demonstration model; the recipe has its seed.
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    layer = torch.nn.TransformerEncoderLayer(
        16, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    with torch.inference_mode():
        expected = model(torch.from_numpy(rows)).numpy()
    wrong = [
        {"inputs": value}
        for value in ([[1]], [], 1, [rows[:1].tolist()], [np.full((6, 16), "x").tolist()])
    ]
    with serving(script, tmp_path, "--timeout", str(1000 * START_SECONDS)) as address:
        bodies: list[Any] = [{"inputs": [row.tolist()]} for row in rows]
        assert ask(address, bodies[0])[0] == 200
        # Requests that are refused do not end those that they are computed with.
        with ThreadPoolExecutor(12) as clients:
            answers = list(clients.map(lambda body: ask(address, body), [*bodies, *wrong, b"{"]))
        outputs = np.array([outputs[0] for _, outputs in answers[: len(rows)]])
        np.testing.assert_allclose(outputs, expected, atol=1e-5)
        assert {status for status, _ in answers[len(rows) :]} == {REFUSED}
        too_large = b" " * (max_bytes(INPUTS, 1) + 1)
        assert ask(address, too_large)[0] == TOO_LARGE
        assert ask(address, bodies[0])[0] == 200


@pytest.mark.stack
def test_requests_of_a_model_with_coupled_rows_are_computed_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "coupled.py").write_text(COUPLED)
    asked = builders.question(model=FactoryModel(name=str(tmp_path / "coupled.py") + ":build"))
    inputs = (
        InputSpec(name="", shape=(3,), dtype="float32"),
        InputSpec(name="", shape=(), dtype="int64", low=3, high=10),
    )
    script = printed(asked, inputs, 4, joins_requests=False)
    tokens = [0, 9, 9, 0]
    batches = np.random.default_rng(3).standard_normal((9, 4, 3)).astype(np.float32)
    with serving(script, tmp_path, "--timeout", str(1000 * START_SECONDS)) as address:
        with ThreadPoolExecutor(len(batches)) as clients:
            answers = list(
                clients.map(
                    lambda batch: ask(address, {"inputs": [batch.tolist(), tokens]}), batches
                )
            )
        for (_, (centred, mean)), batch in zip(answers, batches, strict=True):
            np.testing.assert_allclose(centred, batch - batch.mean(axis=0), atol=1e-6)
            np.testing.assert_allclose(mean, batch.mean(axis=0), atol=1e-6)
        # Rows that fill up a batch would change the outputs of the others.
        assert ask(address, {"inputs": [batches[0, :2].tolist(), tokens[:2]]})[0] == REFUSED
        for unknown in (-1, 10):
            body = {"inputs": [batches[0].tolist(), [unknown, *tokens[1:]]]}
            assert ask(address, body)[0] == REFUSED


@pytest.mark.stack
def test_a_request_that_takes_too_long_is_ended(tmp_path: pathlib.Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    asked = builders.question(model=FactoryModel(name=str(tmp_path / "slow.py") + ":build"))
    inputs = (InputSpec(name="", shape=(3,), dtype="float32"),)
    script = printed(asked, inputs, 1, joins_requests=False)
    with serving(script, tmp_path, "--timeout", "500") as address:
        assert ask(address, {"inputs": [[[1, 2, 3]]]})[0] == TOO_LATE


@pytest.mark.parametrize(
    "snippet", ["", "output = model(*inputs)\n", "compiled = model\n# Each caller\noutput = 1\n"]
)
def test_a_snippet_without_a_mark_has_no_server(snippet: str) -> None:
    with pytest.raises(NoRecipeError):
        compose_server(snippet, 1, None, joins_requests=False)


INTEGRATION = """\
import torch

compiled = torch.compile(model)
# Each call:
output = compiled(*inputs)
"""
FILE = StartLines(
    start="import torch\n\ncompiled = torch.load('f')\n# Each call:\noutput = compiled(*inputs)\n",
    write="import torch\n\ntorch.save(model, 'f')\n",
)


@pytest.mark.parametrize(
    ("script", "kept"),
    [
        (
            "import a\nmodel = a.load()\ninputs = 1\noutput = inputs\n",
            "inputs = 1\noutput = inputs\n",
        ),
        ("model = 1\nmodel.x = 2\nmodel.eval()\noutput = 3\n", "output = 3\n"),
        ("def build():\n    return 1\n\n\nmodel = build()\ntokens = 4\n", "\n\ntokens = 4\n"),
        ("if a:\n    b = 1\nelse:\n    b = 2\noutput = b\n", None),
        ("import a\na.seed(0)\noutput = a.random()\n", None),
        ("with a:\n    b = 1\noutput = 2\n", None),
        ('import os\nos.environ["A"] = "1"\noutput = 2\n', None),
        ("if 1:\n    b = 1\n    print(2)\noutput = 2\n", None),
    ],
)
def test_what_no_later_statement_reads_is_left_out(script: str, kept: str | None) -> None:
    assert without_unused(script) == (script if kept is None else kept)


def test_a_way_has_the_lines_that_write_its_file_and_those_that_begin_with_it() -> None:
    cache = StartLines(start=f"warm('f')\n{INTEGRATION}", saves="keep('f')\n")
    facts = builders.snippet_facts(integration=INTEGRATION, starts={"file": FILE, "cache": cache})
    found = {each.way: each for each in compose_starts(builders.question(), 1, facts)}
    assert list(found) == [COLD, CACHE_DIRECTORY, "file", "cache"]
    assert found[COLD].start == found[CACHE_DIRECTORY].start
    assert not found[COLD].write
    assert "model =" not in found["file"].start
    assert "model =" in found["file"].write
    assert "torch.save" in found["file"].write
    assert found["file"].lines == 2, "a line that loads and one that saves"
    assert found["cache"].lines == 2
    assert found["cache"].write.startswith(found[COLD].start)
    assert found["cache"].write.endswith("keep('f')\n")


@pytest.mark.stack
@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("torch_compile_inductor", {"cache-artifacts", "compiled-function", "regional"}),
        ("aotinductor", {"package"}),
        ("onnxruntime_cpu", {"onnx-file"}),
    ],
)
@pytest.mark.parametrize("options", [{"feeding": "host"}, {"feeding": "host", "dynamic": True}])
def test_the_ways_of_a_workflow_are_in_the_catalogue_and_have_scripts(
    name: str, ways: set[str], options: dict[str, object]
) -> None:
    module = importlib.import_module(f"probes.workflows.{name}")
    request = workers.make_request(
        pathlib.Path(), pathlib.Path(), subject={"kind": "factory"}, options=options
    )
    blocks = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    subject = types.SimpleNamespace(module=blocks, dtype="float32")
    starts = module.starts(subject, request)
    assert set(starts) == ways
    assert ways <= set(builders.shipped_catalogue().starts)
    facts = builders.snippet_facts(integration=module.integration(subject, request), starts=starts)
    found = compose_starts(builders.question(), 1, facts)
    for each in found[2:]:
        assert (each.lines > 0) == (each.way != "onnx-file"), "its lines are in two scripts"
        compile(each.start + each.write, name, "exec")
        written = set(NAMED_FILE.findall(each.write))
        assert written.issuperset(NAMED_FILE.findall(each.start)), "it begins with that file"
        assert ("model =" in each.start) == (each.way not in {"package", "onnx-file"})


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -m engine --port 52605 --seed 1", "python -m engine --seed 1"),
        ("engine serve /home/me/checkpoint --port", "engine serve ./checkpoint --port"),
    ],
)
def test_a_users_command_has_no_port_and_no_directory(command: str, words: str) -> None:
    assert user_words(command, "/home/me/checkpoint") == words.split()


def test_a_stored_command_that_is_no_command_line_is_refused() -> None:
    with pytest.raises(NoRecipeError):
        user_words("serve 'open", "org/model")
