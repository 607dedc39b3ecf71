"""vLLM: in which types it stores the weights of its linear layers, and how its server starts."""

from __future__ import annotations

import collections
import json
import math
import shlex
from collections.abc import Collection
from typing import Any

from probes.adapter import Engagement, Request, Server
from probes.subjects import checkpoint
from probes.subjects.checkpoint import EngineSubject

#: Types of quantised weights; packed ones are integers.
QUANTISED = {"int8", "uint8", "int32", "float8_e4m3fn", "float8_e4m3fnuz"}
#: Parts of the names of tables that quantisation leaves as they are, and of what scales
#: them: factors, zero points and the sums of columns (`azp_adj`).
TABLES, SCALES = ("embed", "lm_head"), ("scale", "zero_point", "azp_adj")
MATRIX = 2
#: A scored sequence is followed by one generated token.
SCORED_TOKENS = 1
#: The server's cache on a CPU.
CPU_CACHE_GIBIBYTES = "4"


def count_types(model: Any) -> dict[str, list[int]]:
    """Return, by type, the elements and bytes of a model's matrices, without tables and scales."""
    found: dict[str, list[int]] = {}

    def add(name: str, tensor: Any, elements: int) -> None:
        if not any(part in name for part in TABLES + SCALES):
            sums = found.setdefault(str(tensor.dtype).removeprefix("torch."), [0, 0])
            sums[0] += elements
            sums[1] += elements * tensor.itemsize

    for name, tensor in model.named_parameters():
        if tensor.ndim >= MATRIX:
            add(name, tensor, tensor.numel())
    for name, layer in model.named_modules():
        if packed := packed_weight(layer):
            add(name, *packed)
    return found


def packed_weight(layer: Any) -> tuple[Any, int] | None:
    """Return a tensor of the type of a linear layer's packed weight, and the weight's elements.

    None for other layers. On a CPU vLLM packs weights for oneDNN: it keeps an empty tensor of their
    type instead, and of 8-bit weights with 8-bit activations only the handle of the product.
    """
    if not hasattr(layer, "output_size_per_partition"):
        return None
    elements: int = layer.output_size_per_partition * layer.input_size_per_partition
    weight = getattr(layer, "weight", None)
    if weight is not None:
        return None if weight.numel() else (weight, elements)
    kernel = getattr(getattr(layer, "scheme", None), "kernel", None)
    if getattr(kernel, "dnnl_handler", None) is None:
        return None
    import torch  # noqa: PLC0415

    return torch.empty(0, dtype=torch.int8), elements


def count_bytes(model: Any) -> int:
    found = sum(int(tensor.nbytes) for _, tensor in model.named_parameters())
    for layer in model.modules():
        if packed := packed_weight(layer):
            found += packed[1] * packed[0].itemsize
    return found


def engagement(
    engine: Any, facts: dict[str, Any], wanted: Collection[str] = QUANTISED
) -> Engagement:
    """Return the share of the bytes of the layers' matrices that are stored in `wanted` types.

    `facts` are those of the engine's compilation. vLLM accepts formats that it then does not use:
    `int8_per_channel_weight_only` quantises experts only and leaves linear layers as they are.
    """
    types = engine.apply_model(count_types)[0]
    stored = collections.Counter({kind: bytes_ for kind, (_, bytes_) in types.items()})
    total = stored.total()
    share = sum(stored[kind] for kind in wanted) / total if total else 0.0
    kinds = ", ".join(f"{kind} {types[kind][0]:,}" for kind, _ in stored.most_common())
    return Engagement(
        share,
        f"{share * 100:.0f} % of the bytes of the layers' weights are stored as "
        f"{' or '.join(sorted(wanted))}; elements by type: {kinds}",
        {**facts, "weights": {kind: elements for kind, (elements, _) in types.items()}},
        engine.apply_model(count_bytes)[0],
    )


def server(subject: EngineSubject, request: Request, port: int) -> Server:
    length, count = served_length(subject, request), request.devices_per_model
    options = {
        "model": str(subject.folder),
        "served-model-name": checkpoint.SERVED_NAME,
        "host": "127.0.0.1",
        "port": port,
        "dtype": subject.dtype,
        "max-model-len": length,
        "seed": request.seed % (1 << 31),
        **({"tensor-parallel-size": count} if count > 1 else {}),
    }
    # The engine's own process, which the worker's variables switch off.
    variables = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    if request.device == "cpu":
        variables["VLLM_CPU_KVCACHE_SPACE"] = CPU_CACHE_GIBIBYTES
    flags = ["--no-enable-prefix-caching", "--disable-uvicorn-access-log"]
    arguments = ["-m", "vllm.entrypoints.openai.api_server", *flags]
    return checkpoint.batching_server(arguments, options, request, length, variables)


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
