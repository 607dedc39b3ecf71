"""Weights of transformers that cannot be read are refused with a next step."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import workers
from lazy import lazy

from probes.adapter import ModelError

transformers = lazy("transformers")
torch_subject = lazy("probes.subjects.torch_subject")

pytestmark = [pytest.mark.stack, pytest.mark.filterwarnings("ignore")]

SIZES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}


def open_directory(directory: pathlib.Path) -> Any:
    subject = {"kind": "transformers", "name": str(directory), "weights": str(directory)}
    return torch_subject.open_torch_subject(
        workers.make_request(
            pathlib.Path("x.py"), directory, subject=subject, shared_directory=str(directory)
        )
    )


@pytest.mark.parametrize("content", [b"", b"no weights at all", None])
def test_weights_that_cannot_be_read_have_a_next_step(
    content: bytes | None, tmp_path: pathlib.Path
) -> None:
    config = transformers.BertConfig(**SIZES)
    transformers.BertModel(config).save_pretrained(tmp_path)
    if content is None:
        transformers.BertConfig(**{**SIZES, "intermediate_size": 16}).save_pretrained(tmp_path)
    else:
        (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError) as refused:
        open_directory(tmp_path)
    assert "--weights-from random" in refused.value.fix


def test_weights_that_the_directory_lacks_are_named(tmp_path: pathlib.Path) -> None:
    transformers.BertModel(transformers.BertConfig(**SIZES)).save_pretrained(tmp_path)
    assert open_directory(tmp_path).weights == f"from {tmp_path}"
    config = transformers.BertConfig(**SIZES, architectures=["BertForMaskedLM"])
    config.save_pretrained(tmp_path)
    assert "cls.predictions." in open_directory(tmp_path).weights
