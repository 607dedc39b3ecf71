"""Text by OpenVINO: one compiled model for the prompt and one for a step, which hand the cache of keys and values on to each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import torch
import transformers

from probes.checking.logprobs import Scores
from probes.protocol import Request
from probes.stacks import openvino_model, pytorch
from probes.subjects.causal_lm import CausalLm

#: Places that the exported step is traced with; any but 0 and 1, which an export takes for
#: constants.
TRACED_PLACES = 5


class Pass(torch.nn.Module):
    """The model's pass over tokens with the cache as plain tensors, in and out: keys and values by layer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, past: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return the logits of the last token and the cache with what was added."""
        cache = transformers.DynamicCache(config=self.model.config)
        # Not through `update`: it would join them to an empty tensor without dimensions, which
        # OpenVINO does not convert.
        for layer, keys, values in zip(cache.layers, past[::2], past[1::2], strict=False):
            layer.keys, layer.values = keys, values
            layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
        output = self.model(input_ids=tokens, past_key_values=cache, use_cache=True)
        return (
            output.logits[:, -1],
            *(tensor for layer in cache.layers for tensor in (layer.keys, layer.values)),
        )


class OpenVinoGeneration:
    """See `probes.adapter.TextProgram`."""

    def __init__(self, prompt: Any, step: Any, empty: list[Any], request: Request) -> None:
        self.compiled = step
        self._empty = empty
        self.request = request
        self._prompt = prompt.create_infer_request()
        self._step = step.create_infer_request()

    def feed(self, inputs: list[Any]) -> Any:
        """Return the prompts."""
        return inputs[0]

    def __call__(self, fed: Any) -> Any:
        """Generate all new tokens."""
        return self._generate(fed, self.request.output_tokens)

    def first_token(self, fed: Any) -> Any:
        """Generate one new token."""
        return self._generate(fed, 1)

    def score(self, fed: Any, tokens: Any, rows: int) -> Scores:
        """Feed `tokens` instead of what is chosen and return the probabilities."""
        kept: list[Any] = []

        def force(place: int, logits: Any) -> Any:
            shifted = logits[:rows].astype("float64")
            shifted -= shifted.max(-1, keepdims=True)
            kept.append(
                (shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))).astype("float32")
            )
            return tokens[:, place]

        self._run(fed, tokens.shape[1], force)
        return Scores(np.stack(kept, axis=1))

    def collect(self, output: Any) -> list[Any]:
        """Return the new tokens."""
        return [output]

    def _generate(self, fed: Any, new_tokens: int) -> Any:
        return self._run(fed, new_tokens, lambda _, logits: logits.argmax(-1))

    def _run(self, fed: Any, new_tokens: int, choose: Any) -> Any:
        chosen: Any = np.empty((len(fed), new_tokens), dtype=np.int64)
        results = self._prompt.infer([fed, *self._empty], share_inputs=True, share_outputs=True)
        for place in range(new_tokens):
            logits, *past = results.values()
            chosen[:, place] = choose(place, logits)
            if place + 1 < new_tokens:
                # The step's outputs are overwritten by its next call, which reads them: they are
                # copied.
                taken = [past_one if place == 0 else past_one.copy() for past_one in past]
                results = self._step.infer(
                    [chosen[:, place : place + 1], *taken], share_inputs=True, share_outputs=True
                )
        return chosen


def build(subject: CausalLm, inputs: list[Any], request: Request) -> OpenVinoGeneration:
    """Export both passes for this batch size, convert and compile them."""
    core = openvino.Core()
    configuration = openvino_model.configuration(subject.dtype, request)
    with pytorch.ordinary_mode():
        module = Pass(subject.model)
        tokens = torch.from_numpy(inputs[0]).clone()
        _, *past = module(tokens[:, :TRACED_PLACES], [])
        empty = [tensor[:, :, :0].clone() for tensor in past]
        prompt = openvino.convert_model(torch.export.export(module, (tokens, empty), strict=False))
        grows = {2: torch.export.Dim.AUTO}
        shapes: Any = ({}, [grows] * len(past))
        exported = torch.export.export(
            module, (tokens[:, :1].clone(), past), dynamic_shapes=shapes, strict=False
        )
        step = openvino.convert_model(exported)
    compiled = [core.compile_model(model, "CPU", configuration) for model in (prompt, step)]
    return OpenVinoGeneration(
        compiled[0], compiled[1], [tensor.numpy() for tensor in empty], request
    )


def integration(request: Request, hint: str) -> str:
    """Return the lines that export both passes, compile them and run them in turn."""
    return f"""\
import numpy as np
import openvino
import torch
import transformers

class Pass(torch.nn.Module):
    def forward(self, tokens, past):
        cache = transformers.DynamicCache(config=model.config)
        for layer, keys, values in zip(cache.layers, past[::2], past[1::2]):
            layer.keys, layer.values = keys, values
            layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
        output = model(input_ids=tokens, past_key_values=cache, use_cache=True)
        return (output.logits[:, -1], *(tensor for layer in cache.layers for tensor in (layer.keys, layer.values)))

with torch.no_grad():
    _, *past = Pass()(prompts[:, :{TRACED_PLACES}], [])
    empty = [tensor[:, :, :0] for tensor in past]
    grows = [{{2: torch.export.Dim.AUTO}}] * len(past)
    first = torch.export.export(Pass(), (prompts, empty), strict=False)
    step = torch.export.export(Pass(), (prompts[:, :1], past), dynamic_shapes=({{}}, grows), strict=False)
# Without the hint OpenVINO computes in bfloat16 where the processor can.
settings = {{"INFERENCE_PRECISION_HINT": "{hint}", "PERFORMANCE_HINT": "LATENCY"}}
first, step = (openvino.compile_model(openvino.convert_model(each), "CPU", settings) for each in (first, step))
logits, *past = first([prompts.numpy(), *(tensor.numpy() for tensor in empty)]).values()
tokens = [logits.argmax(-1)]
for _ in range({request.output_tokens - 1}):
    logits, *past = step([tokens[-1][:, None], *past]).values()
    tokens.append(logits.argmax(-1))
tokens = np.stack(tokens, axis=1)
"""
