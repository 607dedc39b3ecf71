"""vLLM, offline and in this process: paged attention, its own compilation, CUDA graphs."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import subprocess
from typing import Any

import numpy as np

from probes import protocol
from probes.checking.logprobs import Scores, scores_of_likeliest
from probes.protocol import Engagement, Request
from probes.subjects.checkpoint import EngineSubject, require_architecture

TASKS = (protocol.GENERATE,)

open_subject = EngineSubject

GIBIBYTE = 2**30
#: What an engine takes beside weights and cache: activations of the profiled batch, workspaces,
#: captured graphs.
BESIDE_BYTES = 6 * GIBIBYTE
#: The cache is given this much of what the largest batch needs: blocks are not filled to the last
#: place, other shapes are tried too.
CACHE_ROOM = 3.0
#: Tokens of one scheduling step; a batch of prompts longer than that is worked off in several.
STEP_TOKENS = 8192
#: Likeliest tokens told at each place: the engine's own limit.
LIKELIEST = 20
#: A sequence may hold one token more than is generated, so that its last can be scored.
SCORED = 1
#: No child process, no usage reports, no binding to processors that others measure on.
VARIABLES = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
#: A sampler that is compiled with nvcc when it is first used: greedy choice has no need of it, and
#: many machines have no nvcc.
UNLESS_SET = {"VLLM_USE_FLASHINFER_SAMPLER": "0"}


def versions() -> dict[str, str]:
    """Import the engine as it shall behave and return its version and torch's."""
    os.environ.update(
        {
            **UNLESS_SET,
            **os.environ,
            **VARIABLES,
            **device_by_index(os.environ.get("CUDA_VISIBLE_DEVICES", "")),
        }
    )
    import torch  # noqa: PLC0415 - after the variables that decide how it is imported
    import vllm  # noqa: PLC0415

    return {"vllm": vllm.__version__, "torch": torch.__version__}


def device_by_index(chosen: str) -> dict[str, str]:
    """Return the variables that name the GPU by its index instead of its UUID, which some versions of the engine take for a number."""
    if not chosen.startswith("GPU-") or shutil.which("nvidia-smi") is None:
        return {}
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    listed = subprocess.run(  # noqa: S603 - an argument list, no shell
        command, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    indices = [line.partition(",")[0].strip() for line in listed if line.endswith(chosen)]
    return (
        {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": indices[0]} if indices else {}
    )


def settings(request: Request) -> dict[str, str]:
    """Return what is in force; threads come from the environment."""
    return {"threads": str(request.threads), "prefix_caching": "off", "processes": "one"}


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> Generation:  # noqa: ARG001 - one engine serves all sizes
    """Start the engine, once for all batch sizes: loading, compiling and capturing graphs are its build."""
    if subject.engine is None:
        import vllm  # noqa: PLC0415

        require_architecture(subject, vllm.ModelRegistry.get_supported_archs(), "vLLM")
        subject.engine = vllm.LLM(model=str(subject.folder), **engine_arguments(subject, request))
    return Generation(subject, request)


def engine_arguments(subject: EngineSubject, request: Request) -> dict[str, Any]:
    """Return how the engine is started: no prefix caching, and memory for this run alone."""
    length = request.input_tokens + request.output_tokens + SCORED
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
    cache_bytes = math.ceil(subject.cache_bytes(request) * CACHE_ROOM)
    if request.device == "cuda":
        arguments["gpu_memory_utilization"] = memory_share(subject, cache_bytes)
    else:
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(max(math.ceil(cache_bytes / GIBIBYTE), 1))
    return arguments


def memory_share(subject: EngineSubject, cache_bytes: int) -> float:
    """Return the share of the GPU's memory that the engine may take, instead of nearly all of it as it would."""
    import torch  # noqa: PLC0415

    needed = subject.parameter_bytes + cache_bytes + BESIDE_BYTES
    total = torch.cuda.get_device_properties(0).total_memory
    return float(min(math.ceil(1000 * needed / total) / 1000, 0.95))


class Generation:
    """See `probes.adapter.TextProgram`."""

    def __init__(self, subject: EngineSubject, request: Request) -> None:
        import vllm  # noqa: PLC0415

        self.engine = subject.engine
        self.request = request
        self._sampling = vllm.SamplingParams

    def feed(self, inputs: list[Any]) -> list[dict[str, list[int]]]:
        """Return the prompts as lists of tokens."""
        return as_prompts(inputs[0])

    def __call__(self, fed: list[Any]) -> Any:
        """Generate all new tokens."""
        return self._generate(fed, self.request.output_tokens)

    def first_token(self, fed: list[Any]) -> Any:
        """Generate one new token."""
        return self._generate(fed, 1)

    def score(self, fed: list[Any], tokens: Any, rows: int) -> Scores:
        """Give `tokens` as part of the prompts and return the likeliest tokens at their places."""
        start, count = self.request.input_tokens, tokens.shape[1]
        prompts = [
            {"prompt_token_ids": [*one["prompt_token_ids"], *row]}
            for one, row in zip(fed[:rows], tokens[:rows].tolist(), strict=True)
        ]
        asked = self._sampling(
            temperature=0.0,
            max_tokens=1,
            prompt_logprobs=LIKELIEST,
            ignore_eos=True,
            detokenize=False,
        )
        outputs = self.engine.generate(prompts, asked, use_tqdm=False)
        told = [output.prompt_logprobs[start : start + count] for output in outputs]
        return scores_of_likeliest(
            [
                [{token: entry.logprob for token, entry in place.items()} for place in row]
                for row in told
            ],
            LIKELIEST,
        )

    def collect(self, output: Any) -> list[Any]:
        """Return the new tokens."""
        return [np.array([list(one.outputs[0].token_ids) for one in output], dtype=np.int64)]

    def _generate(self, fed: list[Any], new_tokens: int) -> Any:
        asked = self._sampling(
            temperature=0.0, max_tokens=new_tokens, ignore_eos=True, detokenize=False
        )
        return self.engine.generate(fed, asked, use_tqdm=False)


def as_prompts(tokens: Any) -> list[dict[str, list[int]]]:
    """Return the rows as the engine takes prompts that are tokens already."""
    return [{"prompt_token_ids": row} for row in tokens.tolist()]


def synchronise() -> None:
    """Return at once: the tokens are on the host when a call returns."""


def engagement(program: Generation, fed: Any) -> Engagement:  # noqa: ARG001
    """Say how the engine compiles: on a GPU neither compiled nor captured means that it fell back to eager code."""
    config = program.engine.llm_engine.vllm_config
    compiled, graphs = (
        str(getattr(value, "name", value))
        for value in (config.compilation_config.mode, config.compilation_config.cudagraph_mode)
    )
    plain = program.request.device == "cuda" and {compiled, graphs} == {"NONE"}
    facts = {
        "compilation_mode": compiled,
        "cudagraph_mode": graphs,
        "memory_share": config.cache_config.gpu_memory_utilization
        if program.request.device == "cuda"
        else None,
        "cache_blocks": config.cache_config.num_gpu_blocks,
        "preallocates": True,
    }
    return Engagement(
        0.0 if plain else 1.0,
        f"the engine makes all tokens; compilation {compiled}, CUDA graphs {graphs}",
        facts,
    )


def serving_command(request: Request) -> str:
    """Return the command that serves the model; how much memory it may take is said with --gpu-memory-utilization."""
    return f"vllm serve {shlex.quote(request.subject['name'])} --dtype {request.dtype} --max-num-seqs {max(request.batch_sizes)}"


def integration(request: Request) -> str:
    """Return the lines that start the engine and generate."""
    return f"""\
import vllm

engine = vllm.LLM(model=CHECKPOINT, skip_tokenizer_init=True, dtype="{request.dtype}", max_num_seqs={max(request.batch_sizes)})
asked = vllm.SamplingParams(temperature=0.0, max_tokens={request.output_tokens}, ignore_eos=True, detokenize=False)
outputs = engine.generate([{{"prompt_token_ids": prompt}} for prompt in prompts], asked)
tokens = [list(output.outputs[0].token_ids) for output in outputs]
"""
