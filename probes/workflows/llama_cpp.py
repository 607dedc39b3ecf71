"""llama.cpp: generate with the engine of its server, from a GGUF file of the checkpoint."""

from __future__ import annotations

import collections
import json
import os
import sys
from importlib import metadata
from typing import Any

import gguf
import numpy as np

from probes.adapter import Engagement, Request, Server, TokenLogprobs, stored_weights_engagement
from probes.stacks import llama_cpp_server
from probes.stacks.gguf_file import OUTER_TYPE, model_file, write_model
from probes.subjects import checkpoint
from probes.subjects.checkpoint import EngineProgram, EngineSubject, token_word

open_subject = EngineSubject
import xllamacpp  # noqa: E402 - after `llama_cpp_server` has set the variable that it reads

#: Types of weights and of the key-value cache by precision.
TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
#: Likeliest tokens that are asked for at each position.
TOP_LOGPROBS = 64
#: Fields of each request that is timed. Users' requests have them too, and ask for log
#: probabilities: they come with the ids of the tokens, which the words of a real model are not.
FIELDS = {"temperature": 0, "ignore_eos": True, "cache_prompt": False}
#: Requests that its server computes at the same time, as llama-server does by default.
SERVED_SLOTS = 4


def versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in ("xllamacpp", "gguf")}


def settings(request: Request) -> dict[str, str]:
    return {
        "threads": str(request.threads),
        "waiting threads": os.environ[llama_cpp_server.WAIT_POLICY[0]],
        "prefix caching": "off",
        "key-value cache": request.dtype,
        "flash_attention": "off" if request.dtype == "float32" else "auto",
        "features": xllamacpp.get_system_info().strip(" |"),
    }


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> EngineGeneration:
    if subject.engine is None:
        file = write_model(subject, request)
        context = context_of(subject.request)
        options = engine_options(str(file), max(request.batch_sizes), context, request)
        parameters = llama_cpp_server.parameters_of(options)
        parameters.hostnames = [socket_path(subject.request)]
        subject.engine = xllamacpp.Server(parameters)
    return EngineGeneration(subject, request)


def context_of(request: Request) -> int:
    return request.input_tokens + request.output_tokens + 1


def engine_options(file: str, slots: int, context: int, request: Request) -> dict[str, Any]:
    given = {"threads": request.threads, "cache": TYPES[request.dtype]}
    return {"file": file, "slots": slots, "context": context, **given}


def socket_path(request: Request) -> str:
    """Return the address of the engine's HTTP server: a socket, because no request goes to it.

    Paths of sockets have at most 107 bytes, so the directory is named by its descriptor.
    """
    directory = os.open(request.scratch_directory, os.O_RDONLY | os.O_DIRECTORY)
    return f"/proc/self/fd/{directory}/engine-{os.getpid()}.sock"


class EngineGeneration(EngineProgram):
    """Generates with the engine of the server, without HTTP."""

    def score(self, device_inputs: list[list[int]], tokens: Any, rows: int) -> TokenLogprobs:
        """Ask for one token after each prefix of `tokens`; the prefixes stay in the cache."""
        tops: list[list[dict[int, float]]] = [[] for _ in range(rows)]
        for position in range(tokens.shape[1]):
            prefixes = checkpoint.continued(device_inputs, tokens[:, :position], rows)
            choices = self.generate(prefixes, 1, cache_prompt=True, logprobs=TOP_LOGPROBS)
            for row, choice in zip(tops, choices, strict=True):
                (step,) = choice["logprobs"]["content"]
                row.append({top["id"]: top["logprob"] for top in step["top_logprobs"]})
        return TokenLogprobs.of_top_tokens(tops, TOP_LOGPROBS)

    def collect(self, output: Any) -> list[Any]:
        """Return the tokens; the text has one word for each."""
        width = len(token_word(0))
        rows = [
            [int(text[start + 1 : start + width]) for start in range(0, len(text), width)]
            for text in (choice["text"] for choice in output)
        ]
        return [np.array(rows, dtype=np.int64)]

    def generate(self, device_inputs: list[list[int]], new_tokens: int, **options: Any) -> Any:
        asked = {"prompt": device_inputs, "max_tokens": new_tokens, **FIELDS, **options}
        answer = self.engine.handle_completions(asked)
        if "choices" not in answer:
            raise RuntimeError(f"the engine refuses the prompts: {answer}")
        return sorted(answer["choices"], key=lambda choice: choice["index"])


def engagement(program: EngineGeneration, device_inputs: Any) -> Engagement:
    quantised = program.request.options.get("weights")
    wanted = {quantised, OUTER_TYPE} if quantised else {TYPES[program.request.dtype]}
    elements = collections.Counter[str]()
    weight_bytes = 0
    for tensor in gguf.GGUFReader(model_file(program.request)).tensors:
        weight_bytes += int(tensor.n_bytes)
        if len(tensor.shape) > 1:
            elements[tensor.tensor_type.name] += int(tensor.n_elements)
    devices = ", ".join(device["name"] for device in xllamacpp.get_device_info())
    share = sum(elements[kind] for kind in wanted) / elements.total()
    described = f"the matrices' elements have the requested types, on {devices}"
    return stored_weights_engagement(elements, share, described, weight_bytes)


def server(subject: EngineSubject, request: Request, port: int) -> Server:
    file = write_model(subject, request)
    length = request.load["most_tokens"] + 1
    options = engine_options(str(file), SERVED_SLOTS, length, request)
    return Server(
        command=[sys.executable, llama_cpp_server.__file__, json.dumps({**options, "port": port})],
        user_command=user_command(options),
        model="model",
        settings={
            "batching": "continuous",
            "prefix caching": "off",
            "slots": str(SERVED_SLOTS),
            "max model length": str(length),
        },
        fields=FIELDS,
        separator="",
    )


def user_command(options: dict[str, Any]) -> str:
    cache = options["cache"].lower()
    flash_attention = ["--flash-attn", "off"] if cache == "f32" else []
    words = {
        "model": "model.gguf",
        "parallel": options["slots"],
        "ctx-size": options["slots"] * options["context"],
        "threads": options["threads"],
        "cache-ram": 0,
        "cache-type-k": cache,
        "cache-type-v": cache,
    }
    return " ".join(["llama-server", *checkpoint.option_words(words), *flash_attention])


def serving_command(request: Request) -> str:
    slots, context = max(request.batch_sizes), context_of(request)
    return user_command(engine_options("model.gguf", slots, context, request))


def integration(subject: Any, request: Request) -> str:
    slots = max(request.batch_sizes)
    context = slots * context_of(request)
    native, quantised = TYPES[request.dtype], request.options.get("weights")
    flash_attention = "DISABLED" if native == "F32" else "AUTO"
    fields = ", ".join(f'"{name}": {value}' for name, value in FIELDS.items())
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
# Each call:
asked = {{"prompt": prompts.tolist(), "max_tokens": {request.output_tokens}, {fields}, "logprobs": 1}}
answer = engine.handle_completions(asked)
tokens = [[step["id"] for step in choice["logprobs"]["content"]] for choice in answer["choices"]]
"""  # noqa: E501 - the lines are counted, so they are not wrapped
