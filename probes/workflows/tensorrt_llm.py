"""TensorRT-LLM's LLM API with its PyTorch backend, the only one since 1.0."""

from __future__ import annotations

import math
import shlex
from typing import Any

from probes.adapter import Engagement, Request, UnsupportedError
from probes.subjects.checkpoint import EngineProgram, EngineSubject

open_subject = EngineSubject

#: Part of the engine's error for an unknown architecture.
UNSUPPORTED_PHRASE = "Unknown architecture"


def versions() -> dict[str, str]:
    import tensorrt_llm
    import torch

    return {"tensorrt-llm": tensorrt_llm.__version__, "torch": torch.__version__}


def settings(request: Request) -> dict[str, str]:
    return {"backend": "pytorch", "block_reuse": "off"}


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> EngineGeneration:
    if subject.engine is None:
        subject.engine = start_engine(subject, subject.request)
    return EngineGeneration(subject, request)


def start_engine(subject: EngineSubject, request: Request) -> Any:
    import tensorrt_llm
    from tensorrt_llm.llmapi import CudaGraphConfig, KvCacheConfig

    length = request.input_tokens + request.output_tokens
    cache = KvCacheConfig(enable_block_reuse=False, max_tokens=cache_tokens(request))
    graphs = CudaGraphConfig(batch_sizes=sorted(request.batch_sizes), enable_padding=True)
    try:
        return tensorrt_llm.LLM(
            model=str(subject.folder),
            skip_tokenizer_init=True,
            trust_remote_code=request.trust_remote_code,
            dtype=subject.dtype,
            max_batch_size=max(request.batch_sizes),
            max_seq_len=length + 1,
            max_num_tokens=max(max(request.batch_sizes) * request.input_tokens, 8192),
            kv_cache_config=cache,
            cuda_graph_config=graphs,
        )
    except ValueError as problem:
        if UNSUPPORTED_PHRASE in str(problem):
            raise UnsupportedError(str(problem)) from problem
        raise


def cache_tokens(request: Request) -> int:
    block = 64
    each = math.ceil((request.input_tokens + request.output_tokens + 1) / block) * block
    return math.ceil(request.engine_memory["cache_factor"] * max(request.batch_sizes) * each)


class EngineGeneration(EngineProgram):
    """It has no `score`, so only its tokens are checked."""

    def generate(self, device_inputs: list[list[int]], new_tokens: int) -> Any:
        import tensorrt_llm

        # Without a tokenizer the engine needs ids for the end and padding; -1 is not a token.
        sampling = tensorrt_llm.SamplingParams(
            max_tokens=new_tokens,
            temperature=0.0,
            top_k=1,
            ignore_eos=True,
            end_id=-1,
            pad_id=0,
            detokenize=False,
        )
        return self.engine.generate(device_inputs, sampling_params=sampling, use_tqdm=False)


def engagement(program: EngineGeneration, device_inputs: Any) -> Engagement:
    """Return a full share: the engine has no other path than its kernels and CUDA graphs."""
    proof = "the engine generates all tokens, with CUDA graphs for the run's batch sizes"
    return Engagement(1.0, proof)


def serving_command(request: Request) -> str:
    name, batch_size = shlex.quote(request.subject["name"]), max(request.batch_sizes)
    return f"trtllm-serve {name} --backend pytorch --max_batch_size {batch_size}"


def integration(subject: Any, request: Request) -> str:
    return f"""\
from tensorrt_llm import LLM, SamplingParams

engine = LLM(model=CHECKPOINT, skip_tokenizer_init=True, dtype="{request.dtype}", max_batch_size={max(request.batch_sizes)})
sampling = SamplingParams(max_tokens={request.output_tokens}, temperature=0.0, ignore_eos=True, end_id=-1, pad_id=0, detokenize=False)
# Each call:
tokens = [list(output.outputs[0].token_ids) for output in engine.generate(prompts.tolist(), sampling)]
"""  # noqa: E501 - the lines are counted, so they are not wrapped
