"""How many weights a transformers model has, as far as its files tell without any library."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping
from typing import Any

import msgspec

#: Decoders whose layers are attention and a gated feed-forward block; norms and biases are less
#: than a thousandth of them.
GATED_DECODERS = {"llama", "mistral", "qwen2", "qwen3"}
#: A safetensors file begins with the length of its header, and a header has no more bytes than
#: this: that is the format's own limit.
LENGTH_BYTES = 8
LONGEST_HEADER = 100_000_000


def count_in_config(config: Mapping[str, Any]) -> int | None:
    """Return the matrix weights of a decoder with this configuration; None for other models, and where a size is missing."""
    if config.get("model_type") not in GATED_DECODERS:
        return None
    try:
        hidden, layers, vocabulary = (
            config["hidden_size"],
            config["num_hidden_layers"],
            config["vocab_size"],
        )
        heads, feed_forward = (
            config["num_attention_heads"],
            3 * hidden * config["intermediate_size"],
        )
        width = config.get("head_dim") or hidden // heads
        attention = 2 * hidden * width * (heads + (config.get("num_key_value_heads") or heads))
        tables = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
        return int(tables + layers * (attention + feed_forward))
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def count_in_files(directory: pathlib.Path) -> int | None:
    """Return the numbers that the directory's safetensors files hold, read from their headers; None without any or where one is broken."""
    files = sorted(directory.glob("*.safetensors"))
    try:
        return sum(_count_in_file(file) for file in files) if files else None
    except (OSError, ValueError, TypeError, AttributeError, KeyError, msgspec.DecodeError):
        return None  # whoever opens the model will say what is wrong with it


def _count_in_file(file: pathlib.Path) -> int:
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        if length > LONGEST_HEADER:
            message = f"{file} says that its header has {length} bytes"
            raise ValueError(message)
        header = msgspec.json.decode(stream.read(length))
    return sum(
        math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__"
    )
