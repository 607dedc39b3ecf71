"""vLLM: its offline engine, in the worker's process, and its server."""

from __future__ import annotations

import collections
import json
import math
import os
import shlex
import shutil
import subprocess
from collections.abc import Collection
from typing import Any

from probes.adapter import Engagement, Request, Server, TokenLogprobs, stored_weights_engagement
from probes.stacks import llm_compressor
from probes.subjects import checkpoint
from probes.subjects.checkpoint import GIBIBYTE, EngineProgram, EngineSubject, require_architecture

open_subject = EngineSubject

#: Tokens of one scheduling step; a longer batch of prompts takes several steps.
STEP_TOKENS = 8192
#: Likeliest tokens returned at each position: the engine's own limit.
TOP_LOGPROBS = 20
#: No child process, no usage reports, no pinning to CPUs that resident workers use.
VARIABLES = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
#: FlashInfer's sampler is compiled with nvcc, which many machines lack; greedy decoding does not
#: need it.
DEFAULT_VARIABLES = {"VLLM_USE_FLASHINFER_SAMPLER": "0"}

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


def versions() -> dict[str, str]:
    indices = devices_by_index(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    os.environ.update({**DEFAULT_VARIABLES, **os.environ, **VARIABLES, **indices})
    import torch  # after the variables that decide how it is imported
    import vllm

    return {"vllm": vllm.__version__, "torch": torch.__version__}


def devices_by_index(visible_devices: str) -> dict[str, str]:
    """Name the GPUs by their indices: vLLM parses a UUID as a number before 0.24.

    https://github.com/vllm-project/vllm/issues/13815
    """
    if not visible_devices.startswith("GPU-") or shutil.which("nvidia-smi") is None:
        return {}
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - an argument list, no shell
    rows = [line.split(",") for line in answer.stdout.splitlines()]
    index_of = {uuid.strip(): index.strip() for index, uuid in rows}
    indices = [index_of[uuid] for uuid in visible_devices.split(",") if uuid in index_of]
    if not indices:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(indices)}


def settings(request: Request) -> dict[str, str]:
    """Return the settings; the threads come from the environment. A server has its own."""
    engine = {} if request.role == "serve" else {"prefix caching": "off", "processes": "one"}
    return {"threads": str(request.threads), **engine}


#: The arguments that limit the engine's length and memory.
LIMITS = ("max_model_len", "gpu_memory_utilization", "kv_cache_memory_bytes")


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> EngineGeneration:
    if subject.engine is None:
        import vllm

        require_architecture(subject, vllm.ModelRegistry.get_supported_archs(), "vLLM")
        folder = (
            llm_compressor.quantised_folder(subject, subject.request)
            if request.options.get("scheme")
            else subject.folder
        )
        arguments = engine_arguments(subject)
        subject.engine_limits = {name: arguments[name] for name in LIMITS if name in arguments}
        subject.engine_variables = engine_variables(subject)
        os.environ.update(subject.engine_variables)
        subject.engine = vllm.LLM(model=str(folder), **arguments)
    return EngineGeneration(subject, request)


def engine_arguments(subject: EngineSubject) -> dict[str, Any]:
    request = subject.request
    length = request.input_tokens + request.output_tokens + SCORED_TOKENS
    arguments: dict[str, Any] = {
        "skip_tokenizer_init": True,
        "dtype": subject.dtype,
        "max_model_len": length,
        "max_num_seqs": max(request.batch_sizes),
        "max_num_batched_tokens": max(STEP_TOKENS, length),
        "enable_prefix_caching": False,
        "seed": subject.seed,
        "trust_remote_code": request.trust_remote_code,
    }
    if request.options.get("quantization"):
        arguments["quantization"] = request.options["quantization"]
    if request.device == "cuda":
        arguments["gpu_memory_utilization"] = memory_share(subject)
        # Without it the engine takes the whole share, and fails when another process releases
        # memory while it profiles its own.
        arguments["kv_cache_memory_bytes"] = subject.engine_cache_bytes()
    return arguments


def engine_variables(subject: EngineSubject) -> dict[str, str]:
    if subject.request.device == "cuda":
        return {}
    gibibytes = math.ceil(subject.engine_cache_bytes() / GIBIBYTE)
    return {"VLLM_CPU_KVCACHE_SPACE": str(max(gibibytes, 1))}


def memory_share(subject: EngineSubject) -> float:
    """Return the share of the GPU's memory for the engine, which is nearly 1 by default."""
    import torch

    return subject.engine_memory_share(torch.cuda.get_device_properties(0).total_memory)


def greedy_sampling(**options: int) -> Any:
    import vllm

    return vllm.SamplingParams(temperature=0.0, ignore_eos=True, detokenize=False, **options)


class EngineGeneration(EngineProgram):
    def feed(self, inputs: list[Any]) -> list[dict[str, list[int]]]:
        return [{"prompt_token_ids": row} for row in inputs[0].tolist()]

    def score(self, device_inputs: list[Any], tokens: Any, rows: int) -> TokenLogprobs:
        """Pass `tokens` as part of the prompts and return the likeliest tokens at their places."""
        given = [one["prompt_token_ids"] for one in device_inputs]
        prompts = [{"prompt_token_ids": text} for text in checkpoint.continued(given, tokens, rows)]
        sampling = greedy_sampling(max_tokens=1, prompt_logprobs=TOP_LOGPROBS)
        outputs = self.engine.generate(prompts, sampling, use_tqdm=False)
        tops = []
        for output in outputs:
            places = output.prompt_logprobs[-tokens.shape[1] :]
            tops.append([{token: top.logprob for token, top in one.items()} for one in places])
        return TokenLogprobs.of_top_tokens(tops, TOP_LOGPROBS)

    def generate(self, device_inputs: list[Any], new_tokens: int) -> Any:
        sampling = greedy_sampling(max_tokens=new_tokens)
        return self.engine.generate(device_inputs, sampling, use_tqdm=False)


def engagement(program: EngineGeneration, device_inputs: Any) -> Engagement:
    """Return 0 on a GPU without compilation and graphs; the share of quantised weights."""
    config = program.engine.llm_engine.vllm_config
    compiled, graphs = (
        str(getattr(value, "name", value))
        for value in (config.compilation_config.mode, config.compilation_config.cudagraph_mode)
    )
    eager = program.request.device == "cuda" and {compiled, graphs} == {"NONE"}
    if scheme := program.request.options.get("scheme"):
        return quantised_engagement(program.engine, llm_compressor.STORED_TYPES[scheme])
    if program.request.options.get("quantization"):
        return quantised_engagement(program.engine)
    return Engagement(
        0.0 if eager else 1.0,
        f"the engine generates all tokens; compilation {compiled}, CUDA graphs {graphs}",
    )


def stored_weights(model: Any) -> list[tuple[bool, str, int, int]]:
    """Return the type, elements and bytes of each weight as the engine stores it.

    Each begins with whether it is a matrix of a layer, not a table, a scale or a vector.
    """
    weights = [(name, tensor, tensor.numel()) for name, tensor in model.named_parameters()]
    packed = [(name, packed_weight(layer)) for name, layer in model.named_modules()]
    vectors = {name for name, tensor, _ in weights if tensor.ndim < MATRIX}
    weights += [(name, *pair) for name, pair in packed if pair]
    return [
        (
            name not in vectors and not any(part in name for part in TABLES + SCALES),
            str(tensor.dtype).removeprefix("torch."),
            elements,
            elements * tensor.itemsize,
        )
        for name, tensor, elements in weights
    ]


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
    import torch

    return torch.empty(0, dtype=torch.int8), elements


def quantised_engagement(engine: Any, wanted: Collection[str] = QUANTISED) -> Engagement:
    """Return the share of the bytes of the layers' matrices that are stored in `wanted` types.

    vLLM accepts formats that it then does not use: `int8_per_channel_weight_only` quantises experts
    only and leaves linear layers as they are.
    """
    weights = engine.apply_model(stored_weights)[0]
    elements, sizes = collections.Counter[str](), collections.Counter[str]()
    for is_matrix, kind, count, size in weights:
        if is_matrix and count:
            elements[kind] += count
            sizes[kind] += size
    share = sum(sizes[kind] for kind in wanted) / sizes.total() if sizes else 0.0
    described = f"the bytes of the layers' weights are stored as {' or '.join(sorted(wanted))}"
    return stored_weights_engagement(elements, share, described, sum(size for *_, size in weights))


def server(subject: EngineSubject, request: Request, port: int) -> Server:
    # The engine's own process, which the worker's variables switch off.
    variables = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    if request.device == "cpu":
        variables["VLLM_CPU_KVCACHE_SPACE"] = CPU_CACHE_GIBIBYTES
    return checkpoint.batching_server(
        subject,
        port,
        served_length(subject, request),
        module="vllm.entrypoints.openai.api_server",
        names=("model", "max-model-len", "seed", "tensor-parallel-size"),
        flags=["--no-enable-prefix-caching", "--disable-uvicorn-access-log"],
        variables=variables,
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


def integration(subject: EngineSubject, request: Request) -> str:
    quantization, scheme = request.options.get("quantization"), request.options.get("scheme")
    quantised = f'quantization="{quantization}", ' if quantization else ""
    write = llm_compressor.integration_lines(scheme) if scheme else ""
    model = '"quantised"' if scheme else "CHECKPOINT"
    limits = "".join(f", {name}={value}" for name, value in subject.engine_limits.items())
    note = "  # length and memory are limited as measured: raise both for longer texts"
    variables = "".join(
        f'os.environ["{name}"] = "{value}"\n' for name, value in subject.engine_variables.items()
    )
    imports = "import os\n" if variables else ""
    return f"""\
{imports}{write}{variables}import vllm

engine = vllm.LLM(model={model}, skip_tokenizer_init=True, dtype="{request.dtype}", {quantised}max_num_seqs={max(request.batch_sizes)}{limits}){note if limits else ""}
sampling = vllm.SamplingParams(temperature=0.0, max_tokens={request.output_tokens}, ignore_eos=True, detokenize=False)
# Each call:
outputs = engine.generate([{{"prompt_token_ids": prompt}} for prompt in prompts.tolist()], sampling)
tokens = [list(output.outputs[0].token_ids) for output in outputs]
"""  # noqa: E501 - the lines are counted, so they are not wrapped
