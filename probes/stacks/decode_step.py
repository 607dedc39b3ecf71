"""A loop of our own around one decode step with a cache of fixed size: the step compiled, captured as a CUDA graph, or both.

`generate()` spends time between its steps that a loop of ten lines does not; what that is worth
shows only beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import transformers

from probes.checking.logprobs import Scores
from probes.protocol import Request

#: Runs of a step before it is captured: libraries allocate in the first ones.
RUNS_BEFORE_CAPTURE = 3


@dataclasses.dataclass
class Batch:
    """The tensors of one batch size, and the step that works on them."""

    cache: Any
    token: torch.Tensor
    logits: torch.Tensor
    run: Callable[[], None]


class StepGeneration:
    """See `probes.adapter.TextProgram`."""

    def __init__(
        self,
        model: Any,
        request: Request,
        make_step: Callable[[Any, Batch], Callable[[], None]],
        *,
        counts: bool,
    ) -> None:
        self.model = model
        self.request = request
        self._make_step = make_step
        self._batches: dict[int, Batch] = {}
        #: Replays of a captured graph so far; None where none is.
        self.replays: int | None = 0 if counts else None

    def feed(self, inputs: list[Any]) -> torch.Tensor:
        """Put the prompts on the device and have a batch of their size ready."""
        prompts = torch.from_numpy(inputs[0]).to(self.request.device)
        if len(prompts) not in self._batches:
            self._batches[len(prompts)] = self._prepare(prompts)
        return prompts

    def __call__(self, fed: torch.Tensor) -> torch.Tensor:
        """Generate all new tokens."""
        return self._generate(fed, self.request.output_tokens)

    def first_token(self, fed: torch.Tensor) -> torch.Tensor:
        """Generate one new token."""
        return self._generate(fed, 1)

    def score(self, fed: torch.Tensor, tokens: Any, rows: int) -> Scores:
        """Feed `tokens` instead of what is chosen and return the probabilities."""
        import numpy as np  # noqa: PLC0415 - torch needs it for the conversion anyway

        batch = self._batches[len(fed)]
        forced = torch.from_numpy(tokens).to(fed.device)
        kept = []
        self._prefill(batch, fed)
        for place in range(tokens.shape[1]):
            kept.append(torch.log_softmax(batch.logits[:rows].float(), dim=-1).cpu().numpy())
            batch.token.copy_(forced[:, place : place + 1])
            if place + 1 < tokens.shape[1]:
                batch.run()
        return Scores(np.stack(kept, axis=1))

    def collect(self, output: torch.Tensor) -> list[Any]:
        """Return the new tokens on the host."""
        return [output.cpu().numpy()]

    def _generate(self, fed: torch.Tensor, new_tokens: int) -> torch.Tensor:
        batch = self._batches[len(fed)]
        self._prefill(batch, fed)
        chosen = torch.empty((len(fed), new_tokens), dtype=torch.int64, device=fed.device)
        for place in range(new_tokens):
            torch.argmax(batch.logits, dim=-1, keepdim=True, out=batch.token)
            chosen[:, place : place + 1] = batch.token
            if place + 1 < new_tokens:
                batch.run()
                if self.replays is not None:
                    self.replays += 1
        return chosen

    def _prefill(self, batch: Batch, fed: torch.Tensor) -> None:
        batch.cache.reset()
        output = self.model(
            input_ids=fed, past_key_values=batch.cache, use_cache=True, logits_to_keep=1
        )
        batch.logits.copy_(output.logits[:, -1])

    def _prepare(self, prompts: torch.Tensor) -> Batch:
        length = self.request.input_tokens + self.request.output_tokens
        cache = transformers.StaticCache(config=self.model.config, max_cache_len=length)
        # The first pass allocates the cache.
        logits = (
            self.model(input_ids=prompts, past_key_values=cache, use_cache=True, logits_to_keep=1)
            .logits[:, -1]
            .clone()
        )
        batch = Batch(cache, logits.argmax(dim=-1, keepdim=True), logits, lambda: None)
        batch.run = self._make_step(self.model, batch)
        return batch


def build(model: Any, request: Request, loop: str) -> StepGeneration:
    """Return the program whose step is `compiled`, or captured as a `cuda-graph` without being compiled."""
    if loop == "cuda-graph":
        return StepGeneration(model, request, capture, counts=True)
    return StepGeneration(
        model,
        request,
        lambda model, batch: compile_step(model, batch, request.options.get("mode")),
        counts=False,
    )


def compile_step(model: Any, batch: Batch, mode: str | None) -> Callable[[], None]:
    """Compile the model's pass over one token."""
    compiled = torch.compile(model, dynamic=False, mode=mode)

    def run() -> None:
        output = compiled(input_ids=batch.token, past_key_values=batch.cache, use_cache=True)
        batch.logits.copy_(output.logits[:, -1])

    return run


def capture(model: Any, batch: Batch) -> Callable[[], None]:
    """Capture the model's pass over one token as a CUDA graph."""

    def run() -> None:
        output = model(input_ids=batch.token, past_key_values=batch.cache, use_cache=True)
        batch.logits.copy_(output.logits[:, -1])

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(RUNS_BEFORE_CAPTURE):
            batch.cache.reset()
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def replay() -> None:
        graph.replay()

    return replay


def integration(request: Request) -> str:
    """Return the loop."""
    mode = request.options.get("mode")
    length = request.input_tokens + request.output_tokens
    compiled = f"""\
compiled = torch.compile(model, dynamic=False{f', mode="{mode}"' if mode else ""})


def step():
    logits.copy_(compiled(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1])
"""
    captured = """\
def run():
    logits.copy_(model(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1])


for _ in range(3):
    cache.reset()
    run()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    run()
step = graph.replay
"""
    return f"""\
import torch
import transformers

torch.inference_mode().__enter__()
cache = transformers.StaticCache(config=model.config, max_cache_len={length})
logits = model(input_ids=prompts, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].clone()
token = logits.argmax(dim=-1, keepdim=True)

{captured if request.options["loop"] == "cuda-graph" else compiled}

def generate(prompts, new_tokens={request.output_tokens}):
    cache.reset()
    logits.copy_(model(input_ids=prompts, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1])
    chosen = []
    for place in range(new_tokens):
        token.copy_(logits.argmax(dim=-1, keepdim=True))
        chosen.append(token.clone())
        if place + 1 < new_tokens:
            step()
    return torch.cat(chosen, dim=1)
"""
