"""vLLM's server: the command, its settings and the context length that it needs."""

from __future__ import annotations

import json
import math
import shlex
import sys

from probes.adapter import Server
from probes.protocol import Request
from probes.subjects import checkpoint
from probes.subjects.checkpoint import EngineSubject

#: A scored sequence is followed by one generated token.
SCORED_TOKENS = 1
#: The model's name in requests to the server, and its cache on a CPU.
SERVED_NAME, CPU_CACHE_GIBIBYTES = "model", "4"


def server(subject: EngineSubject, request: Request, port: int) -> Server:
    """Return the server with its defaults, but without prefix caching.

    The check sends the same prompts several times, and each has to be computed again.
    """
    length, count = served_length(subject, request), request.devices_per_model
    options = {
        "model": str(subject.folder),
        "served-model-name": SERVED_NAME,
        "host": "127.0.0.1",
        "port": str(port),
        "dtype": subject.dtype,
        "max-model-len": str(length),
        "seed": str(request.seed % (1 << 31)),
        **({"tensor-parallel-size": str(count)} if count > 1 else {}),
    }
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    # The engine's own process, which the worker's variables switch off.
    variables = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    if request.device == "cpu":
        variables["VLLM_CPU_KVCACHE_SPACE"] = CPU_CACHE_GIBIBYTES
    return Server(
        command=[*command, *words, "--no-enable-prefix-caching", "--disable-uvicorn-access-log"],
        model=SERVED_NAME,
        settings={
            "batching": "continuous",
            "prefix caching": "off",
            "max sequences": "default",
            "max model length": str(length),
            **({"tensor parallel": str(count)} if count > 1 else {}),
        },
        variables=variables,
        fields={"temperature": 0.0, "ignore_eos": True},
    )


def served_length(subject: EngineSubject, request: Request) -> int:
    """Return the context length of the server, which has room for the characters of the prompts.

    vLLM refuses a prompt with more characters than its tokens can have, and counts the spaces
    between our words, which belong to no token. It refuses a length beyond the model's positions.
    """
    spaces = math.ceil(request.load["input_tokens"] / len(checkpoint.token_word(0)))
    length: int = request.load["most_tokens"] + spaces + SCORED_TOKENS
    config = json.loads((subject.folder / "config.json").read_text(encoding="utf-8"))
    return min(length, config.get("max_position_embeddings") or length)


def serving_command(request: Request) -> str:
    """Return the command that serves the model; `--gpu-memory-utilization` would limit memory."""
    name = "quantised" if request.options.get("scheme") else shlex.quote(request.subject["name"])
    batch_size = max(request.batch_sizes)
    quantization = request.options.get("quantization")
    quantised = f" --quantization {quantization}" if quantization else ""
    count = request.devices_per_model
    split = f" --tensor-parallel-size {count}" if count > 1 else ""
    limits = f"--dtype {request.dtype} --max-num-seqs {batch_size}"
    return f"vllm serve {name} {limits}{quantised}{split}"
