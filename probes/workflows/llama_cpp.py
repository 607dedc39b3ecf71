"""llama.cpp: write the checkpoint as a GGUF file, and generate with the engine of its server.

The file is what the converter in llama.cpp's repository writes, which is in no package: the same
tensors and types. Its tokenizer has one word for each token and no special tokens, so no text ends
early.
"""

from __future__ import annotations

import collections
import json
import math
import os
import pathlib
from typing import Any

import gguf
import numpy as np
from gguf.utility import SafetensorsLocal

from probes import protocol
from probes.adapter import UnsupportedError
from probes.checking.logprobs import TokenLogprobs, logprobs_from_top_tokens
from probes.partial_file import replace_when_complete
from probes.protocol import Engagement, Request
from probes.subjects.checkpoint import EngineSubject, require_architecture, token_word

#: The engine's threads meet several times in each layer. If they spin there and share a processor,
#: as in builds side by side, a call of 0.05 seconds takes 3. The runtime reads this when it loads.
WAIT_POLICY = ("OMP_WAIT_POLICY", "passive")
os.environ.setdefault(*WAIT_POLICY)
import xllamacpp  # noqa: E402

TASKS = (protocol.GENERATE,)

open_subject = EngineSubject

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
#: Types of weights and of the key-value cache by precision.
TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
#: Number of weights that share a scale in `Q8_0` and `Q4_0`.
BLOCK = 32
#: Type of the embedding and the output where the matrices of the layers have four bits.
OUTER_TYPE = "Q8_0"
#: How numpy reads the tensors of a checkpoint; it has no bfloat16.
STORED = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
#: Likeliest tokens that are asked for at each position.
TOP_LOGPROBS = 64
#: Errors and warnings; the next level writes several lines for each prompt.
LOG_LEVEL = 2
LLAMA3_ROPE = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def versions() -> dict[str, str]:
    """Return the versions of the bindings, which contain llama.cpp, and of the file writer."""
    from importlib import metadata  # noqa: PLC0415

    return {name: metadata.version(name) for name in ("xllamacpp", "gguf")}


def settings(request: Request) -> dict[str, str]:
    """Return the settings, among them the processor features that the engine was compiled for."""
    return {
        "threads": str(request.threads),
        "waiting threads": os.environ[WAIT_POLICY[0]],
        "prefix_caching": "off",
        "key-value cache": request.dtype,
        "flash_attention": "off" if request.dtype == "float32" else "auto",
        "features": xllamacpp.get_system_info().strip(" |"),
    }


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> EngineGeneration:  # noqa: ARG001 - one engine serves all sizes
    """Write the model and start the engine, once for all batch sizes."""
    if subject.engine is None:
        file = write_model(subject, request)
        subject.engine = xllamacpp.Server(engine_parameters(file, TYPES[subject.dtype], request))
    return EngineGeneration(subject, request)


def engine_parameters(file: pathlib.Path, cache_type: str, request: Request) -> Any:
    """Return the engine's parameters: one slot for each prompt, and no prefix caching."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(file)
    parameters.n_parallel = max(request.batch_sizes)
    parameters.n_ctx = parameters.n_parallel * (request.input_tokens + request.output_tokens + 1)
    parameters.fit_params = False
    parameters.cache_ram_mib = 0
    parameters.cache_type_k = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{cache_type}")
    parameters.cache_type_v = parameters.cache_type_k
    if cache_type == "F32":
        # On a CPU it computes with float16: log probabilities are off by 6e-4 instead of 2e-6.
        parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    for processors in (parameters.cpuparams, parameters.cpuparams_batch):
        processors.n_threads = request.threads
    parameters.verbosity = LOG_LEVEL
    parameters.hostnames = [socket_path(request)]
    return parameters


def socket_path(request: Request) -> str:
    """Return where the engine's HTTP server listens, which nobody calls: a socket, no port.

    Paths of sockets have at most 107 bytes, so the directory is named by its descriptor.
    """
    directory = os.open(request.scratch_directory, os.O_RDONLY | os.O_DIRECTORY)
    return f"/proc/self/fd/{directory}/engine-{os.getpid()}.sock"


def model_file(request: Request) -> pathlib.Path:
    """Return the file that `write_model` writes."""
    return pathlib.Path(request.scratch_directory) / "model.gguf"


def write_model(subject: EngineSubject, request: Request) -> pathlib.Path:
    """Write the checkpoint as a GGUF file, unless an earlier process has, and return the file.

    Raise `UnsupportedError` for an architecture, or a variant of it, that is not written here.
    """
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
        add_vocabulary(writer, subject.info.vocabulary)
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
        message = f"llama.cpp has no {architecture} with the activation {activation}"
        raise UnsupportedError(message)
    rotary = (config.get("rope_parameters") or {}).get("rope_type", "default")
    if rotary not in {"default", "llama3"}:
        message = f"this release's GGUF writer has no rotary embedding of the type {rotary}"
        raise UnsupportedError(message)


def find(config: dict[str, Any], *names: str) -> Any:
    """Return the first value that the configuration has under one of the names; None if none."""
    return next((config[name] for name in names if config.get(name) is not None), None)


def add_sizes(writer: Any, config: dict[str, Any]) -> None:
    """Add the sizes of the model under llama.cpp's names."""
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


def add_vocabulary(writer: Any, size: int) -> None:
    """Add a tokenizer of one word for each token.

    Tokenizers of the type `rwkv` have no special tokens unless the file names them.
    """
    writer.add_vocab_size(size)
    writer.add_tokenizer_model("rwkv")
    writer.add_token_list([token_word(token).encode() for token in range(size)])


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
    """Return the type in which a tensor is stored; vectors are float32."""
    if values.ndim == 1:
        return "F32"
    if quantised is None or name.startswith("position") or values.shape[-1] % BLOCK:
        return native
    return quantised if name.startswith("blk.") else OUTER_TYPE


def encode(values: Any, kind: str, native: str) -> Any:
    """Return the values as the file has them: float32, or the bytes of another type."""
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
        pairs = values.reshape(heads, 2, -1, *values.shape[1:])
        return pairs.swapaxes(1, 2).reshape(values.shape)
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


class EngineGeneration:
    """See `probes.adapter.TextProgram`."""

    def __init__(self, subject: EngineSubject, request: Request) -> None:
        self.engine = subject.engine
        self.weight_types = {TYPES[subject.dtype]}
        if quantised := request.options.get("weights"):
            self.weight_types = {quantised, OUTER_TYPE}
        self.request = request

    def feed(self, inputs: list[Any]) -> list[list[int]]:
        prompts: list[list[int]] = inputs[0].tolist()
        return prompts

    def __call__(self, device_inputs: list[list[int]]) -> Any:
        return self._complete(device_inputs, self.request.output_tokens)

    def first_token(self, device_inputs: list[list[int]]) -> Any:
        return self._complete(device_inputs, 1)

    def score(self, device_inputs: list[list[int]], tokens: Any, rows: int) -> TokenLogprobs:
        """Ask for one token after each prefix of `tokens`; the prefixes stay in the cache."""
        tops: list[list[dict[int, float]]] = [[] for _ in range(rows)]
        for position in range(tokens.shape[1]):
            prefixes = [
                [*prompt, *row[:position]]
                for prompt, row in zip(device_inputs[:rows], tokens[:rows].tolist(), strict=True)
            ]
            choices = self._complete(prefixes, 1, cache_prompt=True, logprobs=TOP_LOGPROBS)
            for row, choice in zip(tops, choices, strict=True):
                (step,) = choice["logprobs"]["content"]
                row.append({top["id"]: top["logprob"] for top in step["top_logprobs"]})
        return logprobs_from_top_tokens(tops, TOP_LOGPROBS)

    def collect(self, output: Any) -> list[Any]:
        """Return the tokens, of which the text has one word each."""
        width = len(token_word(0))
        texts = [choice["text"] for choice in output]
        rows = [
            [int(text[start + 1 : start + width]) for start in range(0, len(text), width)]
            for text in texts
        ]
        return [np.array(rows, dtype=np.int64)]

    def _complete(
        self, prompts: list[list[int]], new_tokens: int, **options: Any
    ) -> list[dict[str, Any]]:
        """Return the engine's answer to each prompt."""
        request = {
            "prompt": prompts,
            "max_tokens": new_tokens,
            "temperature": 0,
            "cache_prompt": False,
            **options,
        }
        answer = self.engine.handle_completions(request)
        if "choices" not in answer:
            message = f"the engine refuses the prompts: {answer}"
            raise RuntimeError(message)
        return sorted(answer["choices"], key=lambda choice: choice["index"])


def synchronise() -> None:
    """Return at once: the tokens are on the host when a call returns."""


def engagement(program: EngineGeneration, device_inputs: Any) -> Engagement:  # noqa: ARG001
    """Return the share of the matrices' elements that are stored in the wanted types."""
    tensors, elements = collections.Counter[str](), collections.Counter[str]()
    for tensor in gguf.GGUFReader(model_file(program.request)).tensors:
        if len(tensor.shape) > 1:
            tensors[tensor.tensor_type.name] += 1
            elements[tensor.tensor_type.name] += int(tensor.n_elements)
    devices = ", ".join(device["name"] for device in xllamacpp.get_device_info())
    stored = ", ".join(f"{count} as {kind}" for kind, count in tensors.most_common())
    return Engagement(
        sum(elements[kind] for kind in program.weight_types) / elements.total(),
        f"the engine generates all tokens on {devices}; it stores its matrices: {stored}",
        {"matrices": dict(tensors), "elements": dict(elements), "devices": devices},
    )


def serving_command(request: Request) -> str:
    """Return the command that serves the converted model."""
    slots = max(request.batch_sizes)
    context = slots * (request.input_tokens + request.output_tokens + 1)
    return f"llama-server --model model.gguf --parallel {slots} --ctx-size {context}"


def integration(request: Request) -> str:
    """Return the lines that convert the model, start the engine and generate."""
    slots = max(request.batch_sizes)
    context = slots * (request.input_tokens + request.output_tokens + 1)
    native, quantised = TYPES[request.dtype], request.options.get("weights")
    flash_attention = "DISABLED" if native == "F32" else "AUTO"
    converted, file, quantise = (quantised or native).lower(), "model.gguf", ""
    if quantised not in {None, OUTER_TYPE}:
        converted, file = native.lower(), "quantised.gguf"
        quantise = f"""
keep = ["--output-tensor-type", "{OUTER_TYPE.lower()}", "--token-embedding-type", "{OUTER_TYPE.lower()}"]
subprocess.run(["llama-quantize", *keep, "model.gguf", "{file}", "{quantised}"], check=True)"""  # noqa: E501
    return f"""\
import os
import subprocess
import sys

os.environ["OMP_WAIT_POLICY"] = "passive"  # before the import
import xllamacpp

convert = [sys.executable, "llama.cpp/convert_hf_to_gguf.py", CHECKPOINT, "--outfile", "model.gguf"]
subprocess.run([*convert, "--outtype", "{converted}"], check=True)  # once, from a clone of llama.cpp{quantise}
parameters = xllamacpp.CommonParams()
parameters.model.path = "{file}"
parameters.n_parallel, parameters.n_ctx = {slots}, {context}
parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_{native}
parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_{flash_attention}
engine = xllamacpp.Server(parameters)
asked = {{"prompt": prompts, "max_tokens": {request.output_tokens}, "temperature": 0, "ignore_eos": True, "logprobs": 1}}
answer = engine.handle_completions(asked)
tokens = [[step["id"] for step in choice["logprobs"]["content"]] for choice in answer["choices"]]
"""  # noqa: E501 - the lines are counted, so they are not wrapped
