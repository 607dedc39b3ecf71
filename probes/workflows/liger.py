"""Liger: transformers models whose normalisation, rotation and activation are Triton kernels."""

from __future__ import annotations

import functools
from typing import Any

import transformers
from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

from probes.adapter import FORWARD, GENERATE, Engagement, Program, Request, UnsupportedError
from probes.stacks import pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import TorchSubject, open_by_task
from probes.subjects.transformers_generate import TextGeneration
from probes.subjects.transformers_model import Forward

TASKS = (FORWARD, GENERATE)

versions = functools.partial(pytorch.versions, "transformers", "triton", "liger-kernel")
settings = pytorch.apply_settings
synchronise = pytorch.synchronise

#: Start of the names of Liger's functions in a profile.
LIGER = "Liger"


def open_subject(request: Request) -> Any:
    """Open the model and replace the modules and functions for which Liger has kernels.

    Functions are replaced for the whole process, which has no other model.
    """
    subject = open_by_task(request)
    model: Any = subject.module if isinstance(subject, TorchSubject) else subject.model
    if isinstance(model, Forward):
        model = model.model
    if not isinstance(model, transformers.PreTrainedModel):
        message = "Liger replaces parts of models of transformers only"
        raise UnsupportedError(message)
    model_type = model.config.model_type
    if model_type not in MODEL_TYPE_TO_APPLY_LIGER_FN:
        message = f"Liger has no kernels for models of the type {model_type}"
        raise UnsupportedError(message)
    MODEL_TYPE_TO_APPLY_LIGER_FN[model_type](model=model)
    return subject


def build(subject: Any, inputs: list[Any], request: Request) -> Program:
    """Return the model's call or its `generate`; Triton compiles the kernels in the first call.

    `subject` is a `CausalLm` for text, else a `TorchSubject`.
    """
    program: Program = (
        TextGeneration(subject.model, request)
        if request.task == GENERATE
        else TorchProgram(subject, subject.module)
    )
    program(program.feed(inputs))
    return program


def engagement(program: Program, device_inputs: Any) -> Engagement:
    outside, kernels = pytorch.count_operators_outside(lambda: program(device_inputs), (LIGER,))
    proof = f"{kernels} functions of Liger ran in a call, and {outside} operators of PyTorch"
    share = kernels / (kernels + outside) if kernels else 0.0
    return Engagement(share, proof, {"liger_functions": kernels, "operators_outside": outside})


def integration(request: Request) -> str:
    call = (
        pytorch.each_call(pytorch.generate_call(request), result="tokens")
        if request.task == GENERATE
        else pytorch.each_call("model(*inputs)")
    )
    # The lines of a forward pass load a model of transformers inside a module that returns tensors.
    is_wrapped = request.task == FORWARD and request.subject["kind"] == "transformers"
    model = "model.model" if is_wrapped else "model"
    return f"""\
import torch
from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

MODEL_TYPE_TO_APPLY_LIGER_FN[{model}.config.model_type](model={model})
{call}"""
