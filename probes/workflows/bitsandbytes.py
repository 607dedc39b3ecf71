"""bitsandbytes: `generate()` of transformers with linear layers of 8 or 4 bits, not compiled."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator
from typing import Any

import bitsandbytes as bnb
import torch
import transformers

from probes.adapter import GENERATE, Engagement, Request
from probes.stacks import pytorch
from probes.subjects.checkpoint import EngineSubject
from probes.subjects.transformers_generate import TextGeneration

TASKS = (GENERATE,)

versions = functools.partial(pytorch.versions, "transformers", "accelerate", "bitsandbytes")
settings = pytorch.apply_settings
open_subject = EngineSubject
synchronise = pytorch.synchronise


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> TextGeneration:
    if subject.engine is None:
        dtype = getattr(torch, subject.dtype)
        with pytorch.without_inference_mode():
            subject.engine = transformers.AutoModelForCausalLM.from_pretrained(
                subject.folder,
                quantization_config=configuration(request, dtype),
                dtype=dtype,
                device_map=request.device,
                use_safetensors=True,
                trust_remote_code=request.trust_remote_code,
            ).eval()
    program = TextGeneration(subject.engine, request)
    program(program.feed(inputs))
    return program


def configuration(request: Request, dtype: torch.dtype) -> Any:
    """Return the configuration: LLM.int8(), or NF4 that computes in `dtype`."""
    if request.options["weights"] == "int8":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
    )


def engagement(program: TextGeneration, device_inputs: Any) -> Engagement:
    """Return the share of the linear layers' weights that are stored quantised, by elements.

    The layer before the logits does not count: transformers leaves it as it is.
    """
    elements: collections.Counter[str] = collections.Counter()
    quantised = 0
    head = program.model.get_output_embeddings()
    for layer in program.model.modules():
        if isinstance(layer, torch.nn.Linear) and layer is not head:
            kind = str(layer.weight.dtype).removeprefix("torch.")
            count = layer.in_features * layer.out_features
            elements[f"{type(layer).__name__} {kind}"] += count
            is_small = isinstance(layer, (bnb.nn.Linear8bitLt, bnb.nn.Linear4bit))
            quantised += count if is_small and not layer.weight.is_floating_point() else 0
    share = quantised / elements.total() if elements else 0.0
    kinds = ", ".join(f"{name} {count:,}" for name, count in elements.most_common())
    return Engagement(
        share,
        f"{share * 100:.0f} % of the weights of linear layers are quantised, by elements: "
        f"{kinds or 'there are none'}",
        {"weights": dict(elements)},
        weight_bytes=sum(
            tensor.nbytes
            for parameter in program.model.parameters()
            for tensor in stored_tensors(parameter)
        ),
    )


def stored_tensors(parameter: Any) -> Iterator[Any]:
    """Yield a parameter, and the scales that belong to a quantised one."""
    yield parameter
    state = getattr(parameter, "quant_state", None)
    scales = getattr(parameter, "SCB", None) if state is None else state.absmax
    if scales is not None:
        yield scales


def integration(request: Request) -> str:
    dtype = f"torch.{request.dtype}"
    arguments = (
        "load_in_8bit=True"
        if request.options["weights"] == "int8"
        else f'load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype={dtype}'
    )
    return f"""\
import torch
import transformers

quantised = transformers.BitsAndBytesConfig({arguments})
model = transformers.AutoModelForCausalLM.from_pretrained(CHECKPOINT, quantization_config=quantised, dtype={dtype}, device_map="{request.device}")
model.generation_config = transformers.GenerationConfig()  # greedy, to the last token
{pytorch.each_call(pytorch.generate_call(request), result="tokens")}"""  # noqa: E501 - the lines are counted, so they are not wrapped
