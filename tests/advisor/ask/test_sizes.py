"""Weights are counted from the headers of safetensors files or from a decoder's configuration."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import builders
import pytest

from advisor.ask import model_files

MODELS = builders.shipped_catalogue().models


def write_tensors(file: pathlib.Path, **shapes: list[int]) -> None:
    tensors = {
        name: {"dtype": "F16", "shape": shape, "data_offsets": [0, 0]}
        for name, shape in shapes.items()
    }
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1.100048384),
        ("meta-llama/Llama-2-7b-chat-hf", 6.738415616),
        ("meta-llama/Llama-3.1-8B-Instruct", 8.030261248),
    ],
)
def test_the_weights_of_a_decoder_are_counted_without_norms(model: str, billions: float) -> None:
    """The sizes are those of the published weights."""
    counted = model_files.count_in_config(
        MODELS.configurations[model].config, MODELS.gated_decoders
    )
    assert counted is not None
    assert 0.999 * billions * 1e9 < counted <= billions * 1e9


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "gpt2", "n_embd": 8},
        {"model_type": "llama", "hidden_size": "8"},
        {"model_type": []},
    ],
)
def test_other_configurations_have_no_count(config: dict[str, Any]) -> None:
    assert model_files.count_in_config(config, MODELS.gated_decoders) is None


def test_only_the_named_model_types_are_counted() -> None:
    config = {**MODELS.configurations["demo/llama"].config, "model_type": "another"}
    assert model_files.count_in_config(config, {"llama"}) is None
    assert model_files.count_in_config(config, {"another"}) is not None


def test_weights_are_counted_in_the_headers_of_all_files(tmp_path: pathlib.Path) -> None:
    write_tensors(tmp_path / "model-00001-of-00002.safetensors", one=[3, 5], two=[7])
    write_tensors(tmp_path / "model-00002-of-00002.safetensors", three=[2, 2, 2], scalar=[])
    assert model_files.count_in_files(tmp_path) == 15 + 7 + 8 + 1


@pytest.mark.parametrize(
    "content", [b"", b"weights", b"\xff" * 8 + b"{}", b"\x02" + b"\0" * 7 + b"[]"]
)
def test_a_broken_file_gives_no_count(content: bytes, tmp_path: pathlib.Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    assert model_files.count_in_files(tmp_path) is None


def test_a_directory_without_safetensors_gives_no_count(tmp_path: pathlib.Path) -> None:
    assert model_files.count_in_files(tmp_path) is None
