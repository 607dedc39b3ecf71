"""Write a checkpoint as a GGUF file, the format of llama.cpp.

The file is what the converter in llama.cpp's repository writes, which is in no package: the same
tensors and types. Its tokenizer has one word for each token and no special tokens, so no text ends
early.
"""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any

import gguf
import numpy as np
from gguf.utility import SafetensorsLocal

from probes.adapter import Request, UnsupportedError
from probes.files import replace_when_complete
from probes.subjects.checkpoint import EngineSubject, require_architecture, token_word

#: llama.cpp's name of each architecture that `write_model` can write.
ARCHITECTURES = {
    "GPT2LMHeadModel": "GPT2",
    "LlamaForCausalLM": "LLAMA",
    "MistralForCausalLM": "LLAMA",
    "Qwen2ForCausalLM": "QWEN2",
    "Qwen3ForCausalLM": "QWEN3",
}
#: Activation functions that llama.cpp computes for these architectures.
ACTIVATIONS = {"GPT2": ("gelu_new", "gelu_pytorch_tanh")}
DEFAULT_ACTIVATIONS = ("silu", "swish")
#: Number of weights that share a scale in `Q8_0` and `Q4_0`.
BLOCK = 32
#: Type of the embedding and the output where the matrices of the layers have four bits.
OUTER_TYPE = "Q8_0"
#: How numpy reads the tensors of a checkpoint; it has no bfloat16.
STORED = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
LLAMA3_ROPE = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def model_file(request: Request) -> pathlib.Path:
    return pathlib.Path(request.scratch_directory) / "model.gguf"


def write_model(subject: EngineSubject, request: Request) -> pathlib.Path:
    """Write the model once; raise `UnsupportedError` for an unknown architecture or variant."""
    require_architecture(subject, ARCHITECTURES, "this release's GGUF writer")
    file = model_file(request)
    if file.exists():
        return file
    architecture = ARCHITECTURES[subject.info.architecture]
    config = json.loads((subject.folder / "config.json").read_text(encoding="utf-8"))
    check_variant(architecture, config)
    with replace_when_complete(file) as partial:
        writer = gguf.GGUFWriter(
            partial, gguf.MODEL_ARCH_NAMES[getattr(gguf.MODEL_ARCH, architecture)]
        )
        add_sizes(writer, config)
        # A tokenizer of one word for each token. Those of the type `rwkv` have no special tokens
        # unless the file names them.
        size = subject.info.vocabulary
        writer.add_vocab_size(size)
        writer.add_tokenizer_model("rwkv")
        writer.add_token_list([token_word(token).encode() for token in range(size)])
        add_tensors(writer, architecture, config, subject.folder, request.options.get("weights"))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return file


def check_variant(architecture: str, config: dict[str, Any]) -> None:
    """Raise `UnsupportedError` for an activation or rotary embedding that is not written here."""
    activation = config.get("hidden_act") or config.get("activation_function")
    if activation not in ACTIVATIONS.get(architecture, DEFAULT_ACTIVATIONS):
        raise UnsupportedError(f"llama.cpp has no {architecture} with the activation {activation}")
    rotary = (config.get("rope_parameters") or {}).get("rope_type", "default")
    if rotary not in {"default", "llama3"}:
        message = f"this release's GGUF writer has no rotary embedding of the type {rotary}"
        raise UnsupportedError(message)


def find(config: dict[str, Any], *names: str) -> Any:
    return next((config[name] for name in names if config.get(name) is not None), None)


def add_sizes(writer: Any, config: dict[str, Any]) -> None:
    hidden = find(config, "hidden_size", "n_embd")
    heads = find(config, "num_attention_heads", "n_head")
    writer.add_block_count(find(config, "num_hidden_layers", "n_layer"))
    writer.add_context_length(find(config, "max_position_embeddings", "n_positions"))
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(find(config, "intermediate_size", "n_inner") or 4 * hidden)
    writer.add_head_count(heads)
    if "layer_norm_epsilon" in config:
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
        return
    width = config.get("head_dim") or hidden // heads
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(width)
    writer.add_key_length(width)
    writer.add_value_length(width)


def add_tensors(
    writer: Any,
    architecture: str,
    config: dict[str, Any],
    folder: pathlib.Path,
    quantised: str | None,
) -> None:
    """Add the checkpoint's tensors; matrices in their precision or the `quantised` type."""
    layers = find(config, "num_hidden_layers", "n_layer")
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, architecture), layers)
    for shard in sorted(folder.glob("*.safetensors")):
        for name, tensor in SafetensorsLocal(shard).tensors.items():
            values = tensor.mmap_bytes().view(STORED[tensor.dtype]).reshape(tensor.shape)
            values = arrange(values, name, architecture, config)
            written = names.get_name(name, (".weight", ".bias"))
            kind = stored_type(written, values, tensor.dtype, quantised)
            encoded = encode(values, kind, tensor.dtype)
            writer.add_tensor(written, encoded, raw_dtype=gguf.GGMLQuantizationType[kind])
    if (config.get("rope_parameters") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))


def stored_type(name: str, values: Any, native: str, quantised: str | None) -> str:
    if values.ndim == 1:
        return "F32"
    if quantised is None or name.startswith("position") or values.shape[-1] % BLOCK:
        return native
    return quantised if name.startswith("blk.") else OUTER_TYPE


def encode(values: Any, kind: str, native: str) -> Any:
    """Return float32, or bytes with a longer or shorter last dimension for another type."""
    if kind == "F32":
        return as_float32(values)
    if kind == native:
        return np.ascontiguousarray(values).view(np.uint8)
    return gguf.quants.quantize(as_float32(values), gguf.GGMLQuantizationType[kind])


def as_float32(values: Any) -> Any:
    """Return the values as float32; `uint16` are the bits of bfloat16."""
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def arrange(values: Any, name: str, architecture: str, config: dict[str, Any]) -> Any:
    """Return a tensor's elements in llama.cpp's order.

    Its rotary embedding for `LLAMA` turns neighbouring pairs, that of transformers turns the halves
    of a head. The matrices of `GPT2` are transposed.
    """
    if architecture == "LLAMA" and (".q_proj." in name or ".k_proj." in name):
        query = ".q_proj." in name
        heads = config["num_attention_heads" if query else "num_key_value_heads"]
        return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
    if architecture == "GPT2" and ".c_" in name and values.ndim > 1:
        return values.T
    return values


def llama3_factors(config: dict[str, Any]) -> Any:
    """Return the divisors of the rotary frequencies of Llama 3.1, `(head_dim / 2,) float32`.

    The formula is that of `_compute_llama3_parameters` in transformers.
    """
    rotary = config["rope_parameters"]
    factor, low, high, length = (rotary[name] for name in LLAMA3_ROPE)
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    wavelengths = 2 * math.pi * rotary["rope_theta"] ** (np.arange(0, width, 2) / width)
    smooth = np.clip((length / wavelengths - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)
