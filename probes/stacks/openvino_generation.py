"""Generate text with OpenVINO: one compiled model for the prompt and one for a decode step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import torch
import transformers

from probes.adapter import Request, TextProgram, TokenLogprobs, UnsupportedError, log_softmax
from probes.stacks import openvino_model
from probes.subjects.causal_lm import CausalLm
from probes.subjects.transformers_generate import cache_keyword, installed_keyword

#: Tokens that the decode step is traced with: any number but 0 and 1, which an export specialises.
TRACED_TOKENS = 5


class CachedForward(torch.nn.Module):
    """The model's forward pass with the key-value cache as plain tensors, in and out.

    The cache is a list of keys and values by layer, each `(rows, heads, positions, width)`.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.keyword = cache_keyword(model)

    def forward(self, tokens: torch.Tensor, past: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        cache = transformers.DynamicCache(config=self.model.config)
        # Not through `update`: it would concatenate with an empty tensor of no dimensions, which
        # OpenVINO does not convert.
        for layer, keys, values in zip(cache.layers, past[::2], past[1::2], strict=False):
            layer.keys, layer.values = keys, values
            layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
        output = self.model(input_ids=tokens, use_cache=True, **{self.keyword: cache})
        return (
            output.logits[:, -1],
            *(tensor for layer in cache.layers for tensor in (layer.keys, layer.values)),
        )


@dataclasses.dataclass(eq=False)
class OpenVinoGeneration(TextProgram):
    """Runs one compiled model for the prompts, and another for each decode step."""

    request: Request
    prompt: Any
    step: Any
    empty_cache: list[torch.Tensor]
    #: What `engagement` needs to know; the bytes are those of the step's compressed weights.
    facts: dict[str, Any]

    def feed(self, inputs: list[Any]) -> torch.Tensor:
        return torch.from_numpy(inputs[0])

    def score(self, device_inputs: Any, tokens: Any, rows: int) -> TokenLogprobs:
        kept: list[Any] = []

        def force(position: int, logits: Any) -> Any:
            kept.append(log_softmax(logits[:rows].astype("float64")).astype("float32"))
            return tokens[:, position]

        self._run(device_inputs, tokens.shape[1], force)
        return TokenLogprobs(np.stack(kept, axis=1))

    def collect(self, output: Any) -> list[Any]:
        return [output]

    def generate(self, device_inputs: Any, new_tokens: int) -> Any:
        return self._run(device_inputs, new_tokens, lambda _, logits: logits.argmax(-1))

    def _run(
        self, prompts: torch.Tensor, new_tokens: int, choose: Callable[[int, Any], Any]
    ) -> Any:
        """Do what the lines of `integration` do, with the choice of each token as a function."""
        results = self.prompt([prompts.numpy(), *(tensor.numpy() for tensor in self.empty_cache)])
        chosen: list[Any] = []
        for position in range(new_tokens):
            logits, *past = results.values()
            chosen.append(choose(position, logits))
            if position + 1 < new_tokens:
                results = self.step([chosen[-1][:, None], *past])
        return np.stack(chosen, axis=1)


def build(subject: CausalLm, inputs: list[Any], request: Request) -> OpenVinoGeneration:
    layers = transformers.DynamicCache(config=subject.model.config).layers
    if not all(hasattr(layer, "keys") for layer in layers):  # other states, such as Mamba's
        raise UnsupportedError(f"{type(subject.model).__name__} has no key-value cache")
    core = openvino.Core()
    configuration = openvino_model.configuration(subject.dtype, request)
    module = CachedForward(subject.model)
    tokens = torch.from_numpy(inputs[0]).clone()
    _, *past = module(tokens[:, :TRACED_TOKENS], [])
    empty = [tensor[:, :, :0].clone() for tensor in past]
    prompt = openvino.convert_model(torch.export.export(module, (tokens, empty), strict=False))
    free_length = {2: torch.export.Dim.AUTO}
    shapes: Any = ({}, [free_length] * len(past))
    exported = torch.export.export(
        module, (tokens[:, :1].clone(), past), dynamic_shapes=shapes, strict=False
    )
    step = openvino.convert_model(exported)
    weight_bytes = None
    if request.options.get("weights"):
        prompt, step = (
            openvino_model.compress(model, request.options["weights"]) for model in (prompt, step)
        )
        weight_bytes = openvino_model.count_weight_bytes(step)
    prompt, step = (core.compile_model(model, "CPU", configuration) for model in (prompt, step))
    facts = {"compiled": step, "weight_bytes": weight_bytes}
    return OpenVinoGeneration(request, prompt, step, empty, facts)


def integration(request: Request, hint: str) -> str:
    converted, package = openvino_model.conversion("each", request)
    return f"""\
{package}import numpy as np
import openvino
import torch
import transformers

class CachedForward(torch.nn.Module):
    def forward(self, tokens, past):
        cache = transformers.DynamicCache(config=model.config)
        for layer, keys, values in zip(cache.layers, past[::2], past[1::2]):
            layer.keys, layer.values = keys, values
            layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
        output = model(input_ids=tokens, {installed_keyword()}=cache, use_cache=True)
        return (output.logits[:, -1], *(tensor for layer in cache.layers for tensor in (layer.keys, layer.values)))

with torch.no_grad():
    _, *past = CachedForward()(prompts[:, :{TRACED_TOKENS}], [])
    empty = [tensor[:, :, :0] for tensor in past]
    free_length = [{{2: torch.export.Dim.AUTO}}] * len(past)
    first = torch.export.export(CachedForward(), (prompts, empty), strict=False)
    step = torch.export.export(CachedForward(), (prompts[:, :1], past), dynamic_shapes=({{}}, free_length), strict=False)
# Without the hint OpenVINO chooses the precision, such as bfloat16 on some CPUs.
settings = {{"INFERENCE_PRECISION_HINT": "{hint}", "PERFORMANCE_HINT": "LATENCY"}}
first, step = (openvino.compile_model({converted}, "CPU", settings) for each in (first, step))
# Each call:
logits, *past = first([prompts.numpy(), *(tensor.numpy() for tensor in empty)]).values()
tokens = [logits.argmax(-1)]
for _ in range({request.output_tokens - 1}):
    logits, *past = step([tokens[-1][:, None], *past]).values()
    tokens.append(logits.argmax(-1))
tokens = np.stack(tokens, axis=1)
"""  # noqa: E501 - the lines are counted, so they are not wrapped
