"""SGLang, offline: radix attention (its prefix cache switched off), its own kernels, CUDA graphs; it runs in processes of its own."""

from __future__ import annotations

import math
import shlex
from typing import Any

import numpy as np

from probes import protocol
from probes.checking.logprobs import Scores, scores_of_likeliest
from probes.protocol import Engagement, Request
from probes.subjects.checkpoint import EngineSubject, require_architecture

TASKS = (protocol.GENERATE,)

open_subject = EngineSubject

GIBIBYTE = 2**30
#: What the engine keeps beside weights and cache, and the cache's room beyond what the largest
#: batch needs.
BESIDE_BYTES = 2 * GIBIBYTE
CACHE_ROOM = 3.0
LIKELIEST = 20
#: Places of a sequence that the engine keeps to itself: an answer ends two before the last, and a
#: prompt, which is a whole text when its probabilities are asked for, six before it
#: (`TpModelWorker` and `Scheduler.init_req_max_new_tokens` of 0.5.17).
KEPT_PLACES = 8


def versions() -> dict[str, str]:
    """Import the engine and return its version and torch's."""
    import sglang  # noqa: PLC0415
    import torch  # noqa: PLC0415

    return {"sglang": sglang.__version__, "torch": torch.__version__}


def settings(request: Request) -> dict[str, str]:  # noqa: ARG001 - the same for every model
    """Return what is in force."""
    return {"prefix_caching": "off", "processes": "scheduler beside this one"}


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> Generation:  # noqa: ARG001 - one engine serves all sizes
    """Start the engine, once for all batch sizes: loading and capturing graphs are its build."""
    if subject.engine is None:
        import sglang  # noqa: PLC0415
        from sglang.srt.models.registry import ModelRegistry  # noqa: PLC0415

        require_architecture(subject, ModelRegistry.get_supported_archs(), "SGLang")
        subject.engine = sglang.Engine(
            model_path=str(subject.folder), **engine_arguments(subject, request)
        )
    return Generation(subject.engine, request)


def engine_arguments(subject: EngineSubject, request: Request) -> dict[str, Any]:
    """Return how the engine is started: no prefix caching, and memory for this run alone."""
    return {
        "skip_tokenizer_init": True,
        "dtype": subject.dtype,
        "context_length": request.input_tokens + request.output_tokens + KEPT_PLACES,
        "max_running_requests": max(request.batch_sizes),
        "cuda_graph_max_bs_decode": max(request.batch_sizes),
        "mem_fraction_static": memory_share(subject, request),
        "disable_radix_cache": True,
        "random_seed": request.seed % (1 << 31),
        "trust_remote_code": request.trust_remote_code,
        "log_level": "info",
    }


def memory_share(subject: EngineSubject, request: Request) -> float:
    """Return the share of the memory that is free now for weights and cache: the engine takes it of that, not of the whole GPU's."""
    import torch  # noqa: PLC0415

    needed = subject.parameter_bytes + CACHE_ROOM * subject.cache_bytes(request) + BESIDE_BYTES
    free, _ = torch.cuda.mem_get_info()
    return float(min(math.ceil(1000 * needed / free) / 1000, 0.9))


class Generation:
    """See `probes.adapter.TextProgram`."""

    def __init__(self, engine: Any, request: Request) -> None:
        self.engine = engine
        self.request = request

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

    def score(self, fed: list[list[int]], tokens: Any, rows: int) -> Scores:
        """Give `tokens` as part of the prompts and return the likeliest tokens at their places."""
        prompts = [
            [*one, *row] for one, row in zip(fed[:rows], tokens[:rows].tolist(), strict=True)
        ]
        outputs = self.engine.generate(
            input_ids=prompts,
            sampling_params={"temperature": 0, "max_new_tokens": 1, "ignore_eos": True},
            return_logprob=True,
            logprob_start_len=0,
            top_logprobs_num=LIKELIEST,
        )
        count = tokens.shape[1]
        tops = [output["meta_info"]["input_top_logprobs"][-count:] for output in outputs]
        return scores_of_likeliest(
            [[{entry[1]: entry[0] for entry in place} for place in row] for row in tops], LIKELIEST
        )

    def collect(self, output: Any) -> list[Any]:
        """Return the new tokens."""
        return [np.array([one["output_ids"] for one in output], dtype=np.int64)]

    def _generate(self, fed: list[list[int]], new_tokens: int) -> Any:
        asked = {"temperature": 0, "max_new_tokens": new_tokens, "ignore_eos": True}
        return self.engine.generate(input_ids=fed, sampling_params=asked)


def synchronise() -> None:
    """Return at once: the tokens are on the host when a call returns."""


def engagement(program: Generation, fed: Any) -> Engagement:  # noqa: ARG001
    """Say whether decoding runs as CUDA graphs: without them the engine fell back to launching kernel by kernel."""
    arguments = program.engine.server_args
    captured = not getattr(arguments, "disable_cuda_graph", False)
    facts = {
        "memory_share": getattr(arguments, "mem_fraction_static", None),
        "attention": str(getattr(arguments, "attention_backend", None)),
        "preallocates": True,
    }
    return Engagement(
        1.0 if captured else 0.0,
        f"the engine makes all tokens; CUDA graphs {'on' if captured else 'off'}",
        facts,
    )


def serving_command(request: Request) -> str:
    """Return the command that serves the model."""
    name, most = shlex.quote(request.subject["name"]), max(request.batch_sizes)
    return f"python -m sglang.launch_server --model-path {name} --dtype {request.dtype} --max-running-requests {most}"


def integration(request: Request) -> str:
    """Return the lines that start the engine and generate."""
    return f"""\
import sglang

most = {max(request.batch_sizes)}
engine = sglang.Engine(model_path=CHECKPOINT, skip_tokenizer_init=True, dtype="{request.dtype}", max_running_requests=most)
outputs = engine.generate(
    input_ids=prompts, sampling_params={{"temperature": 0, "max_new_tokens": {request.output_tokens}, "ignore_eos": True}}
)
tokens = [output["output_ids"] for output in outputs]
"""
