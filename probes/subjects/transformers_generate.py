"""Generate text with `generate()` of transformers: greedy, with a fixed number of new tokens."""

from __future__ import annotations

import copy
import importlib.metadata
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import transformers

from probes.adapter import TextProgram, TokenLogprobs, UnsupportedError
from probes.checking.text_reference import KEPT_TOKENS
from probes.protocol import Request


class ForcedTokens(transformers.LogitsProcessor):
    """Makes `generate()` choose given tokens, and keeps the log probabilities of its own choice.

    It keeps those of the whole vocabulary for the first `rows`, and those of the likeliest tokens
    for every row. `tokens` are `(batch, steps) int64`.
    """

    def __init__(self, tokens: torch.Tensor, rows: int) -> None:
        self.tokens = tokens
        self.rows = rows
        #: Log probabilities of each step, `(rows, vocabulary) float32`.
        self.kept: list[Any] = []
        #: Log probabilities and ids of each step's likeliest tokens, both `(batch, KEPT_TOKENS)`.
        self.top_tokens: list[tuple[Any, Any]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 - the signature is the library's
        step = len(self.kept)
        logprobs = torch.log_softmax(scores.float(), dim=-1)
        self.kept.append(logprobs[: self.rows].cpu().numpy())
        values, ids = logprobs.topk(min(KEPT_TOKENS, logprobs.shape[-1]), dim=-1)
        self.top_tokens.append((values.cpu().numpy(), ids.cpu().numpy()))
        return torch.full_like(scores, -torch.inf).scatter_(1, self.tokens[:, step : step + 1], 0.0)


class TextGeneration(TextProgram):
    """`model.generate` for one batch size."""

    def __init__(
        self, model: Any, request: Request, settings: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(request)
        self.model = model
        greedy = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
        self._settings = {**greedy, **(settings or {})}
        # Settings that are not given here would otherwise come from the checkpoint.
        model.generation_config = transformers.GenerationConfig(**self._settings)

    def feed(self, inputs: list[Any]) -> torch.Tensor:
        return torch.from_numpy(inputs[0]).to(self.request.device)

    def score(self, device_inputs: torch.Tensor, tokens: Any, rows: int) -> TokenLogprobs:
        return self.score_all(device_inputs, tokens, rows)[0]

    def score_all(
        self, device_inputs: torch.Tensor, tokens: Any, rows: int
    ) -> tuple[TokenLogprobs, TokenLogprobs]:
        """Return what `score` returns, and the likeliest tokens of every row."""
        forced = ForcedTokens(torch.from_numpy(tokens).to(device_inputs.device), rows)
        self.generate(
            device_inputs,
            self.request.output_tokens,
            logits_processor=transformers.LogitsProcessorList([forced]),
        )
        values, ids = (np.stack(each, axis=1) for each in zip(*forced.top_tokens, strict=True))
        return TokenLogprobs(np.stack(forced.kept, axis=1)), TokenLogprobs(values, ids)

    def collect(self, output: torch.Tensor) -> list[Any]:
        return [output[:, -self.request.output_tokens :].cpu().numpy()]

    def generate(
        self, device_inputs: torch.Tensor, new_tokens: int, **keywords: Any
    ) -> torch.Tensor:
        config = transformers.GenerationConfig(**self._settings, max_new_tokens=new_tokens)
        mask = torch.ones_like(device_inputs)
        tokens: torch.Tensor = self.model.generate(
            device_inputs, generation_config=config, attention_mask=mask, **keywords
        )
        return tokens


def copy_with_same_weights(model: Any) -> Any:
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def with_fixed_cache(model: Any, request: Request, **options: Any) -> TextGeneration:
    """Generate with a cache of fixed size; transformers compiles the decode step with `options`.

    It keeps one compiled call for each model, and a second batch size would make its shapes
    dynamic, so a copy with the same weights generates.
    """
    compile_config = transformers.CompileConfig(dynamic=False, **options)
    compile_config._compile_all_devices = True  # noqa: SLF001 - without it transformers compiles on GPUs only
    length = request.input_tokens + request.output_tokens
    fixed = {"cache_implementation": "static", "max_cache_len": length}
    settings = {**fixed, "compile_config": compile_config}
    return TextGeneration(copy_with_same_weights(model), request, settings)


CACHE = "cache"
#: The keyword before the release `RENAMED_IN`.
EARLIER = "past_key_values"
RENAMED_IN = (5, 24)


def cache_keyword(model: Any) -> str:
    """Return the keyword for the cache in the model's `forward`.

    It depends on the model as well as on the release of transformers: models with code of their own
    may keep the earlier one. Raise `UnsupportedError` for a model that takes no cache.
    """
    parameters = inspect.signature(model.forward).parameters
    for keyword in (CACHE, EARLIER):
        if keyword in parameters:
            return keyword
    raise UnsupportedError(f"{type(model).__name__} has no key-value cache")


def installed_keyword() -> str:
    """Return the keyword of the installed transformers; the present one where it is missing."""
    try:
        version = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        return CACHE
    major, minor = version.split(".")[:2]
    return CACHE if (int(major), int(minor)) >= RENAMED_IN else EARLIER


def cache_of(output: Any) -> Any:
    return getattr(output, CACHE, None) or getattr(output, EARLIER, None)
