"""The probe of llama.cpp writes tensors in the engine's order and reads the engine's answers."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys
import types
from typing import Any
from unittest import mock

import numpy as np
import pytest

from advisor import catalogue
from probes.adapter import UnsupportedError
from probes.subjects.checkpoint import token_word

HEADS, WIDTH, HIDDEN, VOCABULARY, NEW = 2, 8, 12, 50, 4
CONFIG = {
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "hidden_size": HEADS * WIDTH,
    "hidden_act": "silu",
}


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the probe's module, with stubs for its stack."""
    for name in ("gguf", "gguf.utility", "xllamacpp"):
        monkeypatch.setitem(sys.modules, name, mock.MagicMock())
    file = catalogue.probes_directory() / "workflows" / "llama_cpp.py"
    spec = importlib.util.spec_from_file_location("probe_of_llama_cpp", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def angles(position: int) -> Any:
    return position * 10000.0 ** (-np.arange(0, WIDTH, 2) / WIDTH)


def turn_halves(vectors: Any, position: int) -> Any:
    """Rotate `(heads, width)` as transformers does."""
    first, second = np.split(vectors, 2, axis=-1)
    cosine, sine = np.cos(angles(position)), np.sin(angles(position))
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def turn_neighbours(vectors: Any, position: int) -> Any:
    """Rotate `(heads, width)` as llama.cpp does."""
    first, second = vectors[..., ::2], vectors[..., 1::2]
    cosine, sine = np.cos(angles(position)), np.sin(angles(position))
    pairs = [first * cosine - second * sine, second * cosine + first * sine]
    return np.stack(pairs, axis=-1).reshape(vectors.shape)


def test_attention_scores_do_not_change_with_the_order_of_the_rows(probe: Any) -> None:
    generator = np.random.default_rng(0)
    query, key = generator.standard_normal((2, HEADS * WIDTH, HIDDEN))
    hidden = generator.standard_normal(HIDDEN)

    def scores(matrices: list[Any], turn: Any) -> Any:
        turned = [
            turn((matrix @ hidden).reshape(HEADS, WIDTH), position)
            for matrix, position in zip(matrices, (5, 2), strict=True)
        ]
        return (turned[0] * turned[1]).sum(-1)

    written = [
        probe.arrange(matrix, f"model.layers.0.self_attn.{name}.weight", "LLAMA", CONFIG)
        for matrix, name in ((query, "q_proj"), (key, "k_proj"))
    ]
    expected = scores([query, key], turn_halves)
    np.testing.assert_allclose(scores(written, turn_neighbours), expected)
    assert not np.allclose(scores([query, key], turn_neighbours), expected)


def test_matrices_of_gpt_2_are_transposed_and_its_tables_are_not(probe: Any) -> None:
    matrix = np.arange(6).reshape(2, 3)
    assert probe.arrange(matrix, "transformer.h.0.attn.c_attn.weight", "GPT2", {}).shape == (3, 2)
    assert probe.arrange(matrix, "transformer.wte.weight", "GPT2", {}).shape == (2, 3)


def test_bits_of_bfloat16_become_float32(probe: Any) -> None:
    bits = np.array([0x3F80, 0xC000], dtype=np.uint16)
    assert probe.as_float32(bits).tolist() == [1.0, -2.0]


def test_low_frequencies_of_llama_3_are_divided_by_the_factor(probe: Any) -> None:
    rotary = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    factors = probe.llama3_factors({**CONFIG, "head_dim": 128, "rope_parameters": rotary})
    assert factors.shape == (64,)
    assert factors[0] == 1.0
    assert factors[-1] == 8.0
    assert (np.diff(factors) >= 0).all()


@pytest.mark.parametrize(
    "config",
    [{"hidden_act": "relu"}, {"hidden_act": "silu", "rope_parameters": {"rope_type": "yarn"}}],
)
def test_a_variant_that_is_not_written_is_unsupported(probe: Any, config: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError):
        probe.check_variant("LLAMA", config)


def test_an_unknown_architecture_is_unsupported_and_writes_nothing(
    probe: Any, tmp_path: pathlib.Path
) -> None:
    subject = types.SimpleNamespace(info=types.SimpleNamespace(architecture="NewForCausalLM"))
    with pytest.raises(UnsupportedError, match="NewForCausalLM"):
        probe.write_model(subject, types.SimpleNamespace(scratch_directory=str(tmp_path)))
    assert not list(tmp_path.iterdir())


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
    forced = np.array([[8, 40, 5], [21, 22, 23], [1, 2, 3]])
    scores = program.score(fed, forced, 2)
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


@pytest.mark.parametrize(
    ("name", "shape", "quantised", "stored"),
    [
        ("blk.0.attn_q.weight", (4, 64), None, "BF16"),
        ("blk.0.attn_q.weight", (4, 64), "Q4_0", "Q4_0"),
        ("output.weight", (4, 64), "Q4_0", "Q8_0"),
        ("token_embd.weight", (4, 64), "Q8_0", "Q8_0"),
        ("position_embd.weight", (4, 64), "Q8_0", "BF16"),
        ("blk.0.ffn_down.weight", (4, 40), "Q8_0", "BF16"),
        ("blk.0.attn_norm.weight", (64,), "Q8_0", "F32"),
    ],
)
def test_only_matrices_whose_rows_fill_blocks_are_quantised(
    probe: Any, name: str, shape: tuple[int, ...], quantised: str | None, stored: str
) -> None:
    assert probe.stored_type(name, np.zeros(shape, np.uint16), "BF16", quantised) == stored


def tensor(kind: str, shape: tuple[int, ...]) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        tensor_type=types.SimpleNamespace(name=kind), shape=shape, n_elements=np.prod(shape)
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
    assert found.facts["matrices"][kind] == 1
