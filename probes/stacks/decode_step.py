"""Generate text in a minimal loop around one decode step that is compiled or captured.

`generate()` of transformers spends time between its decode steps; a comparison with this loop
shows how much.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import transformers

from probes.checking.text_reference import TokenLogprobs
from probes.protocol import Request
from probes.subjects.transformers_generate import cache_keyword, installed_keyword

#: Libraries allocate memory in the first runs of a step, which a capture forbids.
WARMUP_RUNS = 3


@dataclasses.dataclass
class StepBuffers:
    """The tensors of one batch size, and the step that reads and writes them."""

    cache: Any
    token: torch.Tensor
    logits: torch.Tensor
    run_step: Callable[[], None]


class StepGeneration:
    """A decode loop over a cache of fixed size; see `probes.adapter.TextProgram`."""

    def __init__(
        self,
        model: Any,
        request: Request,
        make_step: Callable[[Any, StepBuffers], Callable[[], None]],
        *,
        counts_replays: bool,
    ) -> None:
        self.model = model
        self.request = request
        self._make_step = make_step
        self._keyword = cache_keyword(model)
        self._buffers: dict[int, StepBuffers] = {}
        #: Replays of a captured graph so far; None if the step is not captured.
        self.replays: int | None = 0 if counts_replays else None

    def feed(self, inputs: list[Any]) -> torch.Tensor:
        """Put the prompts on the device and prepare the buffers for their batch size."""
        prompts = torch.from_numpy(inputs[0]).to(self.request.device)
        if len(prompts) not in self._buffers:
            self._buffers[len(prompts)] = self._prepare(prompts)
        return prompts

    def __call__(self, device_inputs: torch.Tensor) -> torch.Tensor:
        return self._generate(device_inputs, self.request.output_tokens)

    def first_token(self, device_inputs: torch.Tensor) -> torch.Tensor:
        return self._generate(device_inputs, 1)

    def score(self, device_inputs: torch.Tensor, tokens: Any, rows: int) -> TokenLogprobs:
        """Decode `tokens` instead of the likeliest ones and return their log probabilities."""
        buffers = self._buffers[len(device_inputs)]
        forced = torch.from_numpy(tokens).to(device_inputs.device)
        kept = []
        self._prefill(buffers, device_inputs)
        for position in range(tokens.shape[1]):
            kept.append(torch.log_softmax(buffers.logits[:rows].float(), dim=-1).cpu().numpy())
            buffers.token.copy_(forced[:, position : position + 1])
            if position + 1 < tokens.shape[1]:
                buffers.run_step()
        return TokenLogprobs(np.stack(kept, axis=1))

    def collect(self, output: torch.Tensor) -> list[Any]:
        return [output.cpu().numpy()]

    def _generate(self, device_inputs: torch.Tensor, new_tokens: int) -> torch.Tensor:
        buffers = self._buffers[len(device_inputs)]
        self._prefill(buffers, device_inputs)
        chosen = torch.empty(
            (len(device_inputs), new_tokens), dtype=torch.int64, device=device_inputs.device
        )
        for position in range(new_tokens):
            torch.argmax(buffers.logits, dim=-1, keepdim=True, out=buffers.token)
            chosen[:, position : position + 1] = buffers.token
            if position + 1 < new_tokens:
                buffers.run_step()
                if self.replays is not None:
                    self.replays += 1
        return chosen

    def _prefill(self, buffers: StepBuffers, device_inputs: torch.Tensor) -> None:
        buffers.cache.reset()
        output = self.model(
            input_ids=device_inputs,
            use_cache=True,
            logits_to_keep=1,
            **{self._keyword: buffers.cache},
        )
        buffers.logits.copy_(output.logits[:, -1])

    def _prepare(self, prompts: torch.Tensor) -> StepBuffers:
        length = self.request.input_tokens + self.request.output_tokens
        cache = transformers.StaticCache(config=self.model.config, max_cache_len=length)
        # The first pass allocates the cache.
        output = self.model(
            input_ids=prompts, use_cache=True, logits_to_keep=1, **{self._keyword: cache}
        )
        logits = output.logits[:, -1].clone()
        token = logits.argmax(dim=-1, keepdim=True)
        buffers = StepBuffers(cache, token, logits, lambda: None)
        buffers.run_step = self._make_step(self.model, buffers)
        return buffers


def build(model: Any, request: Request, loop: str) -> StepGeneration:
    """Return a program whose step is `compiled`, or captured uncompiled as a `cuda-graph`."""
    if loop == "cuda-graph":
        return StepGeneration(model, request, capture_step, counts_replays=True)
    return StepGeneration(
        model,
        request,
        lambda model, buffers: compile_step(model, buffers, request.options.get("mode")),
        counts_replays=False,
    )


def compile_step(model: Any, buffers: StepBuffers, mode: str | None) -> Callable[[], None]:
    """Compile the model's pass over one token."""
    compiled = torch.compile(model, dynamic=False, mode=mode)
    cached = {cache_keyword(model): buffers.cache}

    def run() -> None:
        output = compiled(input_ids=buffers.token, use_cache=True, **cached)
        buffers.logits.copy_(output.logits[:, -1])

    return run


def capture_step(model: Any, buffers: StepBuffers) -> Callable[[], None]:
    """Capture the model's pass over one token as a CUDA graph."""
    cached = {cache_keyword(model): buffers.cache}

    def run() -> None:
        output = model(input_ids=buffers.token, use_cache=True, **cached)
        buffers.logits.copy_(output.logits[:, -1])

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARMUP_RUNS):
            buffers.cache.reset()
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def replay() -> None:
        graph.replay()

    return replay


def integration(request: Request) -> str:
    step = captured_lines() if request.options["loop"] == "cuda-graph" else compiled_lines(request)
    length = request.input_tokens + request.output_tokens
    return f"""\
import torch
import transformers

torch.set_grad_enabled(False)
cache = transformers.StaticCache(config=model.config, max_cache_len={length})
logits = model(input_ids=prompts, {installed_keyword()}=cache, use_cache=True, logits_to_keep=1).logits[:, -1].clone()
token = logits.argmax(dim=-1, keepdim=True)

{step}

def generate(prompts, new_tokens={request.output_tokens}):
    cache.reset()
    logits.copy_(model(input_ids=prompts, {installed_keyword()}=cache, use_cache=True, logits_to_keep=1).logits[:, -1])
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


def compiled_lines(request: Request) -> str:
    """Return the lines that define a compiled `step`."""
    mode, keyword = request.options.get("mode"), installed_keyword()
    return f"""\
compiled = torch.compile(model, dynamic=False{f', mode="{mode}"' if mode else ""})


def step():
    logits.copy_(compiled(input_ids=token, {keyword}=cache, use_cache=True).logits[:, -1])
"""


def captured_lines() -> str:
    """Return the lines that define a captured `step`."""
    return f"""\
def run():
    logits.copy_(model(input_ids=token, {installed_keyword()}=cache, use_cache=True).logits[:, -1])


for _ in range({WARMUP_RUNS}):
    cache.reset()
    run()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    run()
step = graph.replay
"""
