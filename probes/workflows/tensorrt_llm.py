"""TensorRT-LLM through its LLM API with the PyTorch back end, its default since 1.0; the one with TensorRT engines is gone."""

from __future__ import annotations

import math
import shlex
from typing import Any

import numpy as np

from probes import protocol
from probes.adapter import UnsupportedError
from probes.protocol import Engagement, Request
from probes.subjects.checkpoint import EngineSubject

TASKS = (protocol.GENERATE,)

open_subject = EngineSubject

#: The cache is given this many times the tokens that the largest batch needs.
CACHE_ROOM = 3
#: How the engine refuses an architecture that it does not know.
REFUSAL = "Unknown architecture"


def versions() -> dict[str, str]:
    """Import the engine and return its version and torch's."""
    import tensorrt_llm  # noqa: PLC0415
    import torch  # noqa: PLC0415

    return {"tensorrt-llm": tensorrt_llm.__version__, "torch": torch.__version__}


def settings(request: Request) -> dict[str, str]:  # noqa: ARG001 - the same for every model
    """Return what is in force."""
    return {"backend": "pytorch", "block_reuse": "off"}


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> Generation:  # noqa: ARG001 - one engine serves all sizes
    """Start the engine, once for all batch sizes: loading and capturing graphs are its build."""
    if subject.engine is None:
        subject.engine = start_engine(subject, request)
    return Generation(subject.engine, request)


def start_engine(subject: EngineSubject, request: Request) -> Any:
    """Start the engine without reuse between prompts and with memory for this run alone."""
    import tensorrt_llm  # noqa: PLC0415
    from tensorrt_llm.llmapi import CudaGraphConfig, KvCacheConfig  # noqa: PLC0415

    length = request.input_tokens + request.output_tokens
    try:
        return tensorrt_llm.LLM(
            model=str(subject.folder),
            skip_tokenizer_init=True,
            trust_remote_code=request.trust_remote_code,
            dtype=subject.dtype,
            max_batch_size=max(request.batch_sizes),
            max_seq_len=length + 1,
            max_num_tokens=max(max(request.batch_sizes) * request.input_tokens, 8192),
            kv_cache_config=KvCacheConfig(
                enable_block_reuse=False, max_tokens=cache_tokens(request)
            ),
            cuda_graph_config=CudaGraphConfig(
                batch_sizes=sorted(request.batch_sizes), enable_padding=True
            ),
        )
    except ValueError as problem:
        if REFUSAL in str(problem):
            raise UnsupportedError(str(problem)) from problem
        raise


def cache_tokens(request: Request) -> int:
    """Return for how many tokens the engine keeps keys and values: whole blocks, and room for other shapes."""
    block = 64
    each = math.ceil((request.input_tokens + request.output_tokens + 1) / block) * block
    return CACHE_ROOM * max(request.batch_sizes) * each


class Generation:
    """See `probes.adapter.TextProgram`; it is judged by its tokens alone."""

    def __init__(self, engine: Any, request: Request) -> None:
        import tensorrt_llm  # noqa: PLC0415

        self.engine = engine
        self.request = request
        self._sampling = tensorrt_llm.SamplingParams

    def feed(self, inputs: list[Any]) -> list[list[int]]:
        """Return the prompts as lists of tokens."""
        prompts: list[list[int]] = inputs[0].tolist()
        return prompts

    def __call__(self, fed: list[list[int]]) -> Any:
        """Generate all new tokens."""
        return self._generate(fed, self.request.output_tokens)

    def first_token(self, fed: list[list[int]]) -> Any:
        """Generate one new token."""
        return self._generate(fed, 1)

    def collect(self, output: Any) -> list[Any]:
        """Return the new tokens."""
        return [np.array([list(one.outputs[0].token_ids) for one in output], dtype=np.int64)]

    def _generate(self, fed: list[list[int]], new_tokens: int) -> Any:
        # Without a tokenizer the engine knows neither end nor padding; -1 is no token.
        asked = self._sampling(
            max_tokens=new_tokens,
            temperature=0.0,
            top_k=1,
            ignore_eos=True,
            end_id=-1,
            pad_id=0,
            detokenize=False,
        )
        return self.engine.generate(fed, sampling_params=asked, use_tqdm=False)


def synchronise() -> None:
    """Return at once: the tokens are on the host when a call returns."""


def engagement(program: Generation, fed: Any) -> Engagement:  # noqa: ARG001
    """Return a full share: the engine's kernels and CUDA graphs are all it has."""
    facts = {
        "cuda_graphs": sorted(program.request.batch_sizes),
        "cache_tokens": cache_tokens(program.request),
        "preallocates": True,
    }
    return Engagement(
        1.0,
        "the engine makes all tokens, with CUDA graphs for the batch sizes that were asked for",
        facts,
    )


def serving_command(request: Request) -> str:
    """Return the command that serves the model."""
    return f"trtllm-serve {shlex.quote(request.subject['name'])} --backend pytorch --max_batch_size {max(request.batch_sizes)}"


def integration(request: Request) -> str:
    """Return the lines that start the engine and generate."""
    return f"""\
from tensorrt_llm import LLM, SamplingParams

engine = LLM(model=CHECKPOINT, skip_tokenizer_init=True, dtype="{request.dtype}", max_batch_size={max(request.batch_sizes)})
asked = SamplingParams(max_tokens={request.output_tokens}, temperature=0.0, ignore_eos=True, end_id=-1, pad_id=0, detokenize=False)
tokens = [list(output.outputs[0].token_ids) for output in engine.generate(prompts, asked)]
"""
