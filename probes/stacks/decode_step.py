"""Generate text in a minimal loop around one decode step that is compiled or captured.

`generate()` of transformers spends time between its decode steps; a comparison with this loop
shows how much.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import transformers

from probes.adapter import Request, TextProgram, TokenLogprobs
from probes.stacks import cuda_graphs, pytorch
from probes.subjects.transformers_generate import cache_keyword, installed_keyword


@dataclasses.dataclass(frozen=True)
class StepBuffers:
    """The tensors of one batch size, and the step that reads and writes them."""

    cache: Any
    token: torch.Tensor
    logits: torch.Tensor
    run_step: Callable[[], None]


class StepGeneration(TextProgram):
    """A decode loop over a cache of fixed size, whose step is compiled or captured uncompiled."""

    def __init__(self, model: Any, request: Request) -> None:
        super().__init__(request)
        self.model = model
        self._keyword = cache_keyword(model)
        self._buffers: dict[int, StepBuffers] = {}
        #: Replays of a captured graph so far; None if the step is not captured.
        self.replays: int | None = 0 if request.options["loop"] == "cuda-graph" else None

    def feed(self, inputs: list[Any]) -> torch.Tensor:
        prompts = torch.from_numpy(inputs[0]).to(self.request.device)
        if len(prompts) not in self._buffers:
            self._buffers[len(prompts)] = self._prepare(prompts)
        return prompts

    def score(self, device_inputs: torch.Tensor, tokens: Any, rows: int) -> TokenLogprobs:
        forced = torch.from_numpy(tokens).to(device_inputs.device)
        kept = []
        for position, buffers in self._steps(device_inputs, tokens.shape[1]):
            kept.append(torch.log_softmax(buffers.logits[:rows].float(), dim=-1).cpu().numpy())
            buffers.token.copy_(forced[:, position : position + 1])
        return TokenLogprobs(np.stack(kept, axis=1))

    def collect(self, output: torch.Tensor) -> list[Any]:
        return [output.cpu().numpy()]

    def generate(self, device_inputs: torch.Tensor, new_tokens: int) -> torch.Tensor:
        chosen = torch.empty(
            (len(device_inputs), new_tokens), dtype=torch.int64, device=device_inputs.device
        )
        for position, buffers in self._steps(device_inputs, new_tokens):
            torch.argmax(buffers.logits, dim=-1, keepdim=True, out=buffers.token)
            chosen[:, position : position + 1] = buffers.token
        return chosen

    def _steps(self, device_inputs: torch.Tensor, count: int) -> Iterator[tuple[int, StepBuffers]]:
        """Yield each position with the logits; what is then the token is decoded next."""
        buffers = self._buffers[len(device_inputs)]
        buffers.cache.reset()
        buffers.logits.copy_(self._last_logits(device_inputs, buffers.cache))
        for position in range(count):
            yield position, buffers
            if position + 1 < count:
                buffers.run_step()
                if self.replays is not None:
                    self.replays += 1

    def _last_logits(self, prompts: torch.Tensor, cache: Any) -> Any:
        cached = {self._keyword: cache}
        output = self.model(input_ids=prompts, use_cache=True, logits_to_keep=1, **cached)
        return output.logits[:, -1]

    def _prepare(self, prompts: torch.Tensor) -> StepBuffers:
        length = self.request.input_tokens + self.request.output_tokens
        cache = transformers.StaticCache(config=self.model.config, max_cache_len=length)
        # The first pass allocates the cache.
        logits = self._last_logits(prompts, cache).clone()
        token = logits.argmax(dim=-1, keepdim=True)
        is_captured = self.replays is not None
        mode = self.request.options.get("mode")
        model = self.model if is_captured else torch.compile(self.model, dynamic=False, mode=mode)

        def run() -> None:
            output = model(input_ids=token, use_cache=True, **{self._keyword: cache})
            logits.copy_(output.logits[:, -1])

        def warm_up() -> None:
            cache.reset()
            run()

        step = cuda_graphs.record(run, warm_up)[0].replay if is_captured else run
        return StepBuffers(cache, token, logits, step)


def integration(request: Request) -> str:
    keyword, mode = installed_keyword(), request.options.get("mode")
    step = f"""\
compiled = torch.compile(model, dynamic=False{f', mode="{mode}"' if mode else ""})


def step():
    logits.copy_(compiled(input_ids=token, {keyword}=cache, use_cache=True).logits[:, -1])
"""
    if request.options["loop"] == "cuda-graph":
        step = f"""\
def run():
    logits.copy_(model(input_ids=token, {keyword}=cache, use_cache=True).logits[:, -1])


for _ in range({cuda_graphs.WARMUP_CALLS}):
    cache.reset()
    run()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    run()
step = graph.replay
"""
    length = request.input_tokens + request.output_tokens
    return f"""\
import torch
import transformers

torch.set_grad_enabled(False)
cache = transformers.StaticCache(config=model.config, max_cache_len={length})
logits = model(input_ids=prompts, {keyword}=cache, use_cache=True, logits_to_keep=1).logits[:, -1].clone()
token = logits.argmax(dim=-1, keepdim=True)

{step}

def generate(prompts, new_tokens={request.output_tokens}):
    cache.reset()
    logits.copy_(model(input_ids=prompts, {keyword}=cache, use_cache=True, logits_to_keep=1).logits[:, -1])
    chosen = []
    for position in range(new_tokens):
        token.copy_(logits.argmax(dim=-1, keepdim=True))
        chosen.append(token.clone())
        if position + 1 < new_tokens:
            step()
    return torch.cat(chosen, dim=1)

# Each call:
tokens = generate(prompts)
"""  # noqa: E501 - the lines are counted, so they are not wrapped


def fixed_cache_lines(
    request: Request, *, imports: Sequence[str] = (), preparation: Sequence[str] = ()
) -> str:
    """Return the lines; `imports` and `preparation` come before the first call."""
    cache, prepared = 'cache_implementation="static"', list[str]()
    if request.device == "cpu":
        cache += ", compile_config=compile_config"
        prepared = [
            "compile_config = transformers.CompileConfig(dynamic=False)",
            "compile_config._compile_all_devices = True  # transformers compiles on GPUs only",
        ]
    head = [*(["import transformers"] if prepared else []), *imports]
    before = "\n".join([*head, "", *preparation, *prepared]) if head else ""
    return f"""\
import torch
{before}
{pytorch.each_call(pytorch.generate_call(request, cache), result="tokens")}"""
