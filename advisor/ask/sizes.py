"""Count the weights of a transformers model from its files, without loading it."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Container, Mapping
from typing import Any

import msgspec

#: A safetensors file begins with the length of its header, which the format limits.
LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000


def count_in_config(config: Mapping[str, Any], gated_decoders: Container[str]) -> int | None:
    """Return the matrix weights of a decoder whose model type is one of `gated_decoders`.

    Norms and biases, which are not counted, are less than a thousandth of the weights. None for
    other models and for missing sizes.
    """
    try:
        if config["model_type"] not in gated_decoders:
            return None
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
        embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
        return int(embeddings + layers * (attention + feed_forward))
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def count_in_files(directory: pathlib.Path) -> int | None:
    """Return the number of weights in the safetensors files; None without any or with a broken one.

    Only the headers are read.
    """
    files = sorted(directory.glob("*.safetensors"))
    try:
        return sum(_count_in_file(file) for file in files) if files else None
    except (
        OSError,
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
        msgspec.DecodeError,
        RecursionError,
    ):
        return None  # the error is reported when the model is loaded


def _count_in_file(file: pathlib.Path) -> int:
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        if length > MAX_HEADER_BYTES:
            message = f"the header of {file} has {length} bytes"
            raise ValueError(message)
        header = msgspec.json.decode(stream.read(length))
    return sum(
        math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__"
    )
