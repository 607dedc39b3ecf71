"""vLLM: its offline engine, in the worker's process, and its server."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from typing import Any

import numpy as np

from probes.adapter import GENERATE, Engagement, Request
from probes.checking.text_reference import TokenLogprobs, logprobs_from_top_tokens
from probes.stacks import llm_compressor, vllm_engine
from probes.stacks.vllm_engine import SCORED_TOKENS
from probes.subjects import checkpoint
from probes.subjects.checkpoint import (
    GIBIBYTE,
    EngineProgram,
    EngineSubject,
    require_architecture,
)

TASKS = (GENERATE,)

open_subject = EngineSubject
synchronise = checkpoint.synchronise
server = vllm_engine.server
serving_command = vllm_engine.serving_command

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


def versions() -> dict[str, str]:
    indices = devices_by_index(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    os.environ.update({**DEFAULT_VARIABLES, **os.environ, **VARIABLES, **indices})
    import torch  # noqa: PLC0415 - after the variables that decide how it is imported
    import vllm  # noqa: PLC0415

    return {"vllm": vllm.__version__, "torch": torch.__version__}


def devices_by_index(visible_devices: str) -> dict[str, str]:
    """Return the variables that name the GPUs by their indices instead of their UUIDs.

    Some versions of vLLM parse the UUID as a number.
    """
    if not visible_devices.startswith("GPU-") or shutil.which("nvidia-smi") is None:
        return {}
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - an argument list, no shell
    rows = [line.split(",") for line in answer.stdout.splitlines()]
    found = {uuid.strip(): index.strip() for index, uuid in rows}
    indices = [found[uuid] for uuid in visible_devices.split(",") if uuid in found]
    if not indices:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(indices)}


def settings(request: Request) -> dict[str, str]:
    """Return the settings; the threads come from the environment. A server has its own."""
    engine = {} if request.role == "serve" else {"prefix caching": "off", "processes": "one"}
    return {"threads": str(request.threads), **engine}


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> EngineGeneration:
    """Start the engine once for all shapes, which loads, compiles and captures graphs."""
    if subject.engine is None:
        import vllm  # noqa: PLC0415

        require_architecture(subject, vllm.ModelRegistry.get_supported_archs(), "vLLM")
        folder = (
            llm_compressor.quantised_folder(subject, subject.request)
            if request.options.get("scheme")
            else subject.folder
        )
        os.environ.update(engine_variables(subject, subject.request))
        subject.engine = vllm.LLM(model=str(folder), **engine_arguments(subject, subject.request))
    return EngineGeneration(subject, request)


def engine_arguments(subject: EngineSubject, request: Request) -> dict[str, Any]:
    length = request.input_tokens + request.output_tokens + SCORED_TOKENS
    arguments: dict[str, Any] = {
        "skip_tokenizer_init": True,
        "dtype": subject.dtype,
        "max_model_len": length,
        "max_num_seqs": max(request.batch_sizes),
        "max_num_batched_tokens": max(STEP_TOKENS, length),
        "enable_prefix_caching": False,
        "seed": request.seed % (1 << 31),
        "trust_remote_code": request.trust_remote_code,
    }
    if request.options.get("quantization"):
        arguments["quantization"] = request.options["quantization"]
    if request.device == "cuda":
        arguments["gpu_memory_utilization"] = memory_share(subject, request)
        # Without it the engine takes the whole share, and fails when another process releases
        # memory while it profiles its own.
        arguments["kv_cache_memory_bytes"] = subject.engine_cache_bytes(request)
    return arguments


def engine_variables(subject: EngineSubject, request: Request) -> dict[str, str]:
    """Return the variables that the engine reads at its start: on a CPU the size of its cache."""
    if request.device == "cuda":
        return {}
    gibibytes = math.ceil(subject.engine_cache_bytes(request) / GIBIBYTE)
    return {"VLLM_CPU_KVCACHE_SPACE": str(max(gibibytes, 1))}


def memory_share(subject: EngineSubject, request: Request) -> float:
    """Return the share of the GPU's memory for the engine, which is nearly 1 by default."""
    import torch  # noqa: PLC0415

    total = torch.cuda.get_device_properties(0).total_memory
    return subject.engine_memory_share(request, total)


class EngineGeneration(EngineProgram):
    """Generates with vLLM's offline engine."""

    def __init__(self, subject: EngineSubject, request: Request) -> None:
        import vllm  # noqa: PLC0415

        super().__init__(subject, request)
        self._sampling_params = vllm.SamplingParams

    def feed(self, inputs: list[Any]) -> list[dict[str, list[int]]]:
        return [{"prompt_token_ids": row} for row in inputs[0].tolist()]

    def score(self, device_inputs: list[Any], tokens: Any, rows: int) -> TokenLogprobs:
        """Pass `tokens` as part of the prompts and return the likeliest tokens at their places."""
        prompts = [
            {"prompt_token_ids": [*one["prompt_token_ids"], *row]}
            for one, row in zip(device_inputs[:rows], tokens[:rows].tolist(), strict=True)
        ]
        fixed = {"temperature": 0.0, "ignore_eos": True, "detokenize": False}
        sampling = self._sampling_params(max_tokens=1, prompt_logprobs=TOP_LOGPROBS, **fixed)
        outputs = self.engine.generate(prompts, sampling, use_tqdm=False)
        tops = [
            [{token: entry.logprob for token, entry in position.items()} for position in row]
            for row in (output.prompt_logprobs[-tokens.shape[1] :] for output in outputs)
        ]
        return logprobs_from_top_tokens(tops, TOP_LOGPROBS)

    def collect(self, output: Any) -> list[Any]:
        return [np.array([list(one.outputs[0].token_ids) for one in output], dtype=np.int64)]

    def generate(self, device_inputs: list[Any], new_tokens: int) -> Any:
        sampling = self._sampling_params(
            temperature=0.0, max_tokens=new_tokens, ignore_eos=True, detokenize=False
        )
        return self.engine.generate(device_inputs, sampling, use_tqdm=False)


def engagement(program: EngineGeneration, device_inputs: Any) -> Engagement:
    """Return a full share, but none on a GPU if the engine neither compiles nor captures.

    With a quantised format it is the share of the weights that are stored in it.
    """
    config = program.engine.llm_engine.vllm_config
    compiled, graphs = (
        str(getattr(value, "name", value))
        for value in (config.compilation_config.mode, config.compilation_config.cudagraph_mode)
    )
    eager = program.request.device == "cuda" and {compiled, graphs} == {"NONE"}
    is_gpu, cache = program.request.device == "cuda", config.cache_config
    facts = {
        "compilation_mode": compiled,
        "cudagraph_mode": graphs,
        "memory_share": cache.gpu_memory_utilization if is_gpu else None,
        "cache_blocks": cache.num_gpu_blocks,
        "preallocates": True,
    }
    if scheme := program.request.options.get("scheme"):
        return vllm_engine.engagement(program.engine, facts, llm_compressor.STORED_TYPES[scheme])
    if program.request.options.get("quantization"):
        return vllm_engine.engagement(program.engine, facts)
    return Engagement(
        0.0 if eager else 1.0,
        f"the engine generates all tokens; compilation {compiled}, CUDA graphs {graphs}",
        facts,
    )


def integration(request: Request) -> str:
    quantization, scheme = request.options.get("quantization"), request.options.get("scheme")
    quantised = f'quantization="{quantization}", ' if quantization else ""
    write = llm_compressor.integration_lines(scheme) if scheme else ""
    checkpoint = '"quantised"' if scheme else "CHECKPOINT"
    return f"""\
{write}import vllm

engine = vllm.LLM(model={checkpoint}, skip_tokenizer_init=True, dtype="{request.dtype}", {quantised}max_num_seqs={max(request.batch_sizes)})
sampling = vllm.SamplingParams(temperature=0.0, max_tokens={request.output_tokens}, ignore_eos=True, detokenize=False)
# Each call:
outputs = engine.generate([{{"prompt_token_ids": prompt}} for prompt in prompts.tolist()], sampling)
tokens = [list(output.outputs[0].token_ids) for output in outputs]
"""  # noqa: E501 - the lines are counted, so they are not wrapped
