"""A GGUF file has the checkpoint's tensors in the order and types that llama.cpp reads."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import numpy as np
import pytest
from stub_stacks import load_with_stubs

from probes.adapter import UnsupportedError

HEADS, WIDTH, HIDDEN = 2, 8, 12
CONFIG = {
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "hidden_size": HEADS * WIDTH,
    "hidden_act": "silu",
}


@pytest.fixture
def gguf_file() -> Any:
    """Return the module, with stubs for the packages of llama.cpp."""
    return load_with_stubs("stacks/gguf_file.py", ("gguf", "gguf.utility"))


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


def test_attention_scores_do_not_change_with_the_order_of_the_rows(gguf_file: Any) -> None:
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
        gguf_file.arrange(matrix, f"model.layers.0.self_attn.{name}.weight", "LLAMA", CONFIG)
        for matrix, name in ((query, "q_proj"), (key, "k_proj"))
    ]
    expected = scores([query, key], turn_halves)
    np.testing.assert_allclose(scores(written, turn_neighbours), expected)
    assert not np.allclose(scores([query, key], turn_neighbours), expected)


def test_matrices_of_gpt_2_are_transposed_and_its_tables_are_not(gguf_file: Any) -> None:
    matrix = np.arange(6).reshape(2, 3)
    for name, shape in (("h.0.attn.c_attn.weight", (3, 2)), ("wte.weight", (2, 3))):
        assert gguf_file.arrange(matrix, f"transformer.{name}", "GPT2", {}).shape == shape


def test_bits_of_bfloat16_become_float32(gguf_file: Any) -> None:
    assert gguf_file.as_float32(np.array([0x3F80, 0xC000], dtype=np.uint16)).tolist() == [1.0, -2.0]


def test_low_frequencies_of_llama_3_are_divided_by_the_factor(gguf_file: Any) -> None:
    rotary = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    factors = gguf_file.llama3_factors({**CONFIG, "head_dim": 128, "rope_parameters": rotary})
    assert factors.shape == (64,)
    assert factors[0] == 1.0
    assert factors[-1] == 8.0
    assert (np.diff(factors) >= 0).all()


@pytest.mark.parametrize(
    "config",
    [{"hidden_act": "relu"}, {"hidden_act": "silu", "rope_parameters": {"rope_type": "yarn"}}],
)
def test_a_variant_that_is_not_written_is_unsupported(
    gguf_file: Any, config: dict[str, Any]
) -> None:
    with pytest.raises(UnsupportedError):
        gguf_file.check_variant("LLAMA", config)


def test_an_unknown_architecture_is_unsupported_and_writes_nothing(
    gguf_file: Any, tmp_path: pathlib.Path
) -> None:
    subject = types.SimpleNamespace(info=types.SimpleNamespace(architecture="NewForCausalLM"))
    with pytest.raises(UnsupportedError, match="NewForCausalLM"):
        gguf_file.write_model(subject, types.SimpleNamespace(scratch_directory=str(tmp_path)))
    assert not list(tmp_path.iterdir())


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
    gguf_file: Any, name: str, shape: tuple[int, ...], quantised: str | None, stored: str
) -> None:
    assert gguf_file.stored_type(name, np.zeros(shape, np.uint16), "BF16", quantised) == stored
