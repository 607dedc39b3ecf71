"""The probe of llama.cpp asks its engine for tokens and reads the engine's answers."""

from __future__ import annotations

import json
import pathlib
import types
from typing import Any

import numpy as np
import pytest
from stub_stacks import load_with_stubs

from probes.subjects.checkpoint import token_word

VOCABULARY, NEW = 50, 4


@pytest.fixture
def probe() -> Any:
    """Return the probe's module, with stubs for its stack."""
    return load_with_stubs("workflows/llama_cpp.py", ("gguf", "gguf.utility", "xllamacpp"))


class Server:
    """Generates the last token plus one for each prompt; answers in reverse order."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def handle_completions(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(json.loads(json.dumps(request)))
        choices = []
        for index, prompt in enumerate(request["prompt"]):
            tokens = [(prompt[-1] + step + 1) % VOCABULARY for step in range(request["max_tokens"])]
            tops = [
                {"id": tokens[0], "logprob": -0.1},
                *({"id": (tokens[0] + step) % VOCABULARY, "logprob": -9.0} for step in range(1, 5)),
            ]
            choices.append(
                {
                    "index": index,
                    "text": "".join(token_word(token) for token in tokens),
                    "logprobs": {"content": [{"top_logprobs": tops}]},
                }
            )
        return {"choices": choices[::-1]}


@pytest.fixture
def program(probe: Any) -> Any:
    subject = types.SimpleNamespace(engine=Server(), dtype="float32")
    return probe.EngineGeneration(subject, types.SimpleNamespace(output_tokens=NEW, options={}))


def test_words_become_tokens_in_the_order_of_the_prompts(program: Any) -> None:
    fed = program.feed([np.array([[3, 7], [3, 48]])])
    (tokens,) = program.collect(program(fed))
    assert tokens.tolist() == [[8, 9, 10, 11], [49, 0, 1, 2]]
    assert tokens.dtype == np.int64
    assert program.engine.requests[-1]["cache_prompt"] is False, "timed calls reuse no prefix"
    (first,) = program.collect(program.first_token(fed))
    assert first.tolist() == [[8], [49]]


def test_forced_tokens_are_scored_after_each_prefix(program: Any) -> None:
    fed = program.feed([np.array([[3, 7], [3, 20], [3, 30]])])
    scores = program.score(fed, np.array([[8, 40, 5], [21, 22, 23], [1, 2, 3]]), 2)
    assert scores.ids.shape == scores.logprobs.shape == (2, 3, 5)
    assert scores.ids[..., 0].tolist() == [[8, 9, 41], [21, 22, 23]]
    assert [request["prompt"] for request in program.engine.requests] == [
        [[3, 7], [3, 20]],
        [[3, 7, 8], [3, 20, 21]],
        [[3, 7, 8, 40], [3, 20, 21, 22]],
    ]


def test_a_refusal_of_the_engine_is_an_error(program: Any) -> None:
    program.engine.handle_completions = lambda _request: {"error": {"code": 400}}
    with pytest.raises(RuntimeError, match="400"):
        program(program.feed([np.array([[3, 7]])]))


def tensor(kind: str, shape: tuple[int, ...]) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        tensor_type=types.SimpleNamespace(name=kind),
        shape=shape,
        n_elements=np.prod(shape),
        n_bytes=10,
    )


@pytest.mark.parametrize(("kind", "share"), [("Q4_0", 1.0), ("F32", 0.25)])
def test_weights_that_stay_native_are_not_engaged(
    probe: Any, kind: str, share: float, tmp_path: pathlib.Path
) -> None:
    matrices = [tensor(kind, (3, 64)), tensor("Q8_0", (1, 64))]
    probe.gguf.GGUFReader.return_value.tensors = [*matrices, tensor("F32", (999,))]
    request = types.SimpleNamespace(
        scratch_directory=str(tmp_path), output_tokens=NEW, options={"weights": "Q4_0"}
    )
    subject = types.SimpleNamespace(engine=Server(), dtype="float32")
    found = probe.engagement(probe.EngineGeneration(subject, request), [])
    assert found.share == share
    assert set(found.facts["weights"]) == {kind, "Q8_0"}
    assert found.weight_bytes == 30


def test_the_printed_lines_ask_as_the_timed_calls_do(probe: Any, program: Any) -> None:
    program(program.feed([np.array([[3, 7]])]))
    request = types.SimpleNamespace(
        batch_sizes=[1, 4],
        input_tokens=2,
        output_tokens=NEW,
        threads=3,
        dtype="float32",
        options={},
    )
    lines = probe.integration(None, request)
    timed = program.engine.requests[-1]
    asked = {name: value for name, value in timed.items() if name not in {"prompt", "max_tokens"}}
    assert asked == probe.FIELDS
    assert all(f'"{name}": {value}' in lines for name, value in asked.items())
    command = probe.serving_command(request)
    assert all(words in command for words in ("--cache-type-v f32", "--threads 3", "--parallel 4"))
