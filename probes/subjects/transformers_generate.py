"""`generate()` of transformers: greedy, a fixed number of new tokens, the end of a text a token like any other."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
import transformers

from probes.checking.logprobs import CANDIDATES, Scores
from probes.protocol import Request


class Forcing(transformers.LogitsProcessor):
    """Makes `generate()` give these tokens, whatever it would choose, and keeps the probabilities it had.

    Those of all tokens are kept for the first rows, those of the likeliest for every row.
    """

    def __init__(self, tokens: torch.Tensor, rows: int) -> None:
        self.tokens = tokens
        self.rows = rows
        self.kept: list[Any] = []
        self.likeliest: list[tuple[Any, Any]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 - the signature is the library's
        """Keep the logarithms of this step's probabilities and leave only its token possible."""
        step = len(self.kept)
        logarithms = torch.log_softmax(scores.float(), dim=-1)
        self.kept.append(logarithms[: self.rows].cpu().numpy())
        values, ids = logarithms.topk(min(CANDIDATES, logarithms.shape[-1]), dim=-1)
        self.likeliest.append((values.cpu().numpy(), ids.cpu().numpy()))
        return torch.full_like(scores, -torch.inf).scatter_(1, self.tokens[:, step : step + 1], 0.0)


class TextGeneration:
    """`model.generate` for one batch size; see `probes.adapter.TextProgram`."""

    def __init__(
        self,
        model: Any,
        request: Request,
        settings: Mapping[str, Any] | None = None,
        cache: Callable[[torch.Tensor], Any] | None = None,
    ) -> None:
        self.model = model
        self.request = request
        self._settings = {
            "do_sample": False,
            "pad_token_id": 0,
            "eos_token_id": None,
            **(settings or {}),
        }
        #: Gives an empty cache for prompts, where `generate` shall not make its own.
        self._cache = cache
        # What the checkpoint says about sampling and ends would otherwise fill what is left open
        # here.
        getattr(model, "_orig_mod", model).generation_config = transformers.GenerationConfig(
            **self._settings
        )

    def feed(self, inputs: list[Any]) -> torch.Tensor:
        """Put the prompts on the device."""
        return torch.from_numpy(inputs[0]).to(self.request.device)

    def __call__(self, fed: torch.Tensor) -> torch.Tensor:
        """Generate all new tokens."""
        return self._generate(fed, self.request.output_tokens)

    def first_token(self, fed: torch.Tensor) -> torch.Tensor:
        """Generate one new token."""
        return self._generate(fed, 1)

    def score(self, fed: torch.Tensor, tokens: Any, rows: int) -> Scores:
        """Generate `tokens` by force and return the probabilities that the model gave all tokens meanwhile."""
        return self.score_all(fed, tokens, rows)[0]

    def score_all(self, fed: torch.Tensor, tokens: Any, rows: int) -> tuple[Scores, Scores]:
        """Return the same, and the likeliest tokens of every row with theirs."""
        import numpy as np  # noqa: PLC0415 - torch needs it for the conversion anyway

        forcing = Forcing(torch.from_numpy(tokens).to(fed.device), rows)
        self._generate(
            fed,
            self.request.output_tokens,
            logits_processor=transformers.LogitsProcessorList([forcing]),
        )
        values, ids = (np.stack(each, axis=1) for each in zip(*forcing.likeliest, strict=True))
        return Scores(np.stack(forcing.kept, axis=1)), Scores(values, ids)

    def collect(self, output: torch.Tensor) -> list[Any]:
        """Return the new tokens on the host."""
        return [output[:, self.request.input_tokens :].cpu().numpy()]

    def _generate(self, fed: torch.Tensor, new_tokens: int, **further: Any) -> torch.Tensor:
        if self._cache is not None:
            further["past_key_values"] = self._cache(fed)
        config = transformers.GenerationConfig(**self._settings, max_new_tokens=new_tokens)
        tokens: torch.Tensor = self.model.generate(
            fed, generation_config=config, attention_mask=torch.ones_like(fed), **further
        )
        return tokens


def share_weights(model: Any) -> Any:
    """Return a copy of the model that has the same tensors."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def with_fixed_cache(
    model: Any,
    request: Request,
    compile_config: transformers.CompileConfig,
    *,
    is_kept: bool = False,
) -> TextGeneration:
    """Generate with a cache of fixed size, whose decode step transformers compiles; one that is kept is emptied for each call, not made."""
    compile_config._compile_all_devices = True  # noqa: SLF001 - the library's own switch for processors
    length = request.input_tokens + request.output_tokens
    if not is_kept:
        return TextGeneration(
            model,
            request,
            {
                "cache_implementation": "static",
                "max_cache_len": length,
                "compile_config": compile_config,
            },
        )
    caches: dict[int, Any] = {}

    def empty_cache(fed: torch.Tensor) -> Any:
        cache = caches.setdefault(
            len(fed), transformers.StaticCache(config=model.config, max_cache_len=length)
        )
        cache.reset()
        return cache

    return TextGeneration(model, request, {"compile_config": compile_config}, empty_cache)
