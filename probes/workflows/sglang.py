"""SGLang's offline engine, with the prefix cache of its radix attention switched off."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from probes.adapter import Engagement, Request, Server, TokenLogprobs
from probes.subjects import checkpoint
from probes.subjects.checkpoint import EngineProgram, EngineSubject, require_architecture

open_subject = EngineSubject

TOP_LOGPROBS = 20
#: Positions of a sequence that the engine reserves: generated text ends two before the last, and a
#: prompt six before it. A scored text is all prompt. (`TpModelWorker` and
#: `Scheduler.init_req_max_new_tokens` of 0.5.17)
RESERVED_POSITIONS = 8


def versions() -> dict[str, str]:
    import sglang
    import torch

    return {"sglang": sglang.__version__, "torch": torch.__version__}


def settings(request: Request) -> dict[str, str]:
    """Return the settings of the engine. A server has its own."""
    if request.role == "serve":
        return {}
    return {"prefix caching": "off", "processes": "a separate scheduler"}


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> EngineGeneration:
    if subject.engine is None:
        import sglang
        from sglang.srt.models.registry import ModelRegistry

        require_architecture(subject, ModelRegistry.get_supported_archs(), "SGLang")
        subject.engine = sglang.Engine(model_path=str(subject.folder), **engine_arguments(subject))
    return EngineGeneration(subject, request)


def engine_arguments(subject: EngineSubject) -> dict[str, Any]:
    import torch

    request, (free, _) = subject.request, torch.cuda.mem_get_info()
    return {
        "skip_tokenizer_init": True,
        "dtype": subject.dtype,
        "context_length": request.input_tokens + request.output_tokens + RESERVED_POSITIONS,
        "max_running_requests": max(request.batch_sizes),
        "cuda_graph_max_bs_decode": max(request.batch_sizes),
        # A share of the memory that is free when the engine starts, not of the GPU's whole memory.
        "mem_fraction_static": subject.engine_memory_share(free),
        "disable_radix_cache": True,
        "random_seed": subject.seed,
        "trust_remote_code": request.trust_remote_code,
        "log_level": "info",
    }


class EngineGeneration(EngineProgram):
    def score(self, device_inputs: list[list[int]], tokens: Any, rows: int) -> TokenLogprobs:
        """Pass `tokens` as part of the prompts and return the likeliest tokens at their places."""
        outputs = self.engine.generate(
            input_ids=checkpoint.continued(device_inputs, tokens, rows),
            sampling_params={"temperature": 0, "max_new_tokens": 1, "ignore_eos": True},
            return_logprob=True,
            logprob_start_len=0,
            top_logprobs_num=TOP_LOGPROBS,
        )
        tops = []
        for output in outputs:
            places = output["meta_info"]["input_top_logprobs"][-tokens.shape[1] :]
            tops.append([{top[1]: top[0] for top in each} for each in places])
        return TokenLogprobs.of_top_tokens(tops, TOP_LOGPROBS)

    def collect(self, output: Any) -> list[Any]:
        return [np.array([one["output_ids"] for one in output], dtype=np.int64)]

    def generate(self, device_inputs: list[list[int]], new_tokens: int) -> Any:
        sampling = {"temperature": 0, "max_new_tokens": new_tokens, "ignore_eos": True}
        return self.engine.generate(input_ids=device_inputs, sampling_params=sampling)


def engagement(program: EngineGeneration, device_inputs: Any) -> Engagement:
    captured = not getattr(program.engine.server_args, "disable_cuda_graph", False)
    proof = f"the engine generates all tokens; CUDA graphs {'on' if captured else 'off'}"
    return Engagement(1.0 if captured else 0.0, proof)


def server(subject: EngineSubject, request: Request, port: int) -> Server:
    return checkpoint.batching_server(
        subject,
        port,
        request.load["most_tokens"] + RESERVED_POSITIONS,
        module="sglang.launch_server",
        names=("model-path", "context-length", "random-seed", "tp-size"),
        flags=["--log-level", "warning", "--disable-radix-cache"],
    )


def serving_command(request: Request) -> str:
    name, batch_size = shlex.quote(request.subject["name"]), max(request.batch_sizes)
    count = request.devices_per_model
    split = f" --tp-size {count}" if count > 1 else ""
    return (
        f"python -m sglang.launch_server --model-path {name} --dtype {request.dtype} "
        f"--max-running-requests {batch_size}{split}"
    )


def integration(subject: Any, request: Request) -> str:
    return f"""\
import sglang

batch_size = {max(request.batch_sizes)}
engine = sglang.Engine(model_path=CHECKPOINT, skip_tokenizer_init=True, dtype="{request.dtype}", max_running_requests=batch_size)
# Each call:
outputs = engine.generate(
    input_ids=prompts.tolist(), sampling_params={{"temperature": 0, "max_new_tokens": {request.output_tokens}, "ignore_eos": True}}
)
tokens = [output["output_ids"] for output in outputs]
"""  # noqa: E501 - the lines are counted, so they are not wrapped
