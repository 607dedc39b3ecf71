"""OpenXLA through JAX: torchax turns the module into a JAX function, which XLA compiles."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import jax
import numpy as np
import torch

from probes.adapter import Engagement, Request
from probes.arrays import as_collected
from probes.stacks import pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import TorchSubject, open_torch_subject

versions = functools.partial(pytorch.versions, "torchax", "jax", "jaxlib")
open_subject = open_torch_subject

#: Parts of the names of operators with named dimensions. torch 2.13 has removed them, and torchax
#: 0.0.13 still looks them up.
NAMED_DIMENSION_WORDS = ("imname", "names")


@contextlib.contextmanager
def placeholders_for_named_operators() -> Iterator[None]:
    """Answer lookups of operators that torch has removed, so that torchax can be imported.

    torchax never calls them. https://github.com/google/torchax no longer looks them up after
    0.0.13, since d1a9349. The placeholders are needed at the first import: a failed import makes
    every later one fail.
    """
    packet: Any = torch._ops.OpOverloadPacket  # noqa: SLF001 - the class that looks names up
    original = packet.__getattr__

    def look_up(self: Any, name: str) -> Any:
        try:
            return original(self, name)
        except AttributeError:
            if any(word in name for word in NAMED_DIMENSION_WORDS):
                return f"<{self}.{name} is removed>"
            raise

    packet.__getattr__ = look_up
    try:
        yield
    finally:
        packet.__getattr__ = original


with placeholders_for_named_operators():
    import_module("torchax.decompositions")
    torchax: Any = import_module("torchax")


def settings(request: Request) -> dict[str, str]:
    """Make JAX cache every compiled program and compute float32 exactly; return the settings."""
    logging.getLogger("jax").setLevel(logging.WARNING)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if may_round(request):
        # By default JAX rounds float32 products to TF32 on a GPU, and eager PyTorch does not.
        jax.config.update("jax_default_matmul_precision", "highest")
    return {
        **pytorch.apply_settings(request),
        "platform": jax.default_backend(),
        "matmul_precision": str(jax.config.jax_default_matmul_precision),
    }


def may_round(request: Request) -> bool:
    return request.device == "cuda" and request.dtype not in {"float16", "bfloat16"}


class XlaProgram(TorchProgram):
    def collect(self, output: Any) -> list[Any]:
        return [as_collected(np.asarray(leaf)) for leaf in jax.tree_util.tree_leaves(output)]


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> XlaProgram:
    """Compile the module for these shapes; afterwards the module's weights are on the host."""
    pytorch.move_weights_to_host(subject)
    weights, function = extract(subject)
    arrays = tuple(map(jax.dlpack.from_dlpack, subject.tensors(inputs)))
    facts = {"compiled": jax.jit(function).lower(weights, arrays).compile(), "weights": weights}
    call = pytorch.compile_call(integration(subject, request), jax=jax, **facts)
    return XlaProgram(subject, call, facts=facts)


@functools.cache
def extract(subject: TorchSubject) -> tuple[Any, Any]:
    """Convert the model once for all batch sizes.

    torchax keeps the tensors, which must not occupy the GPU.
    """
    weights, function = torchax.extract_jax(subject.module)
    return weights, function


def engagement(program: XlaProgram, device_inputs: Any) -> Engagement:
    text = program.facts["compiled"].as_text()
    fusions, calls = text.count(" fusion("), text.count(" custom-call(")
    weight = jax.tree_util.tree_leaves(program.facts["weights"])[0]
    devices = sorted({device.platform for device in weight.devices()})
    proof = (
        f"one XLA executable for {', '.join(devices)} is the whole call: "
        f"{fusions} fusions, {calls} calls into libraries"
    )
    return Engagement(1.0, proof)


def integration(subject: Any, request: Request) -> str:
    # On a CPU this takes less time; numpy has no bfloat16.
    has_arrays = request.device == "cpu" and subject.dtype != "bfloat16"
    array = "tensor.numpy()" if has_arrays else "jax.dlpack.from_dlpack(tensor)"
    exact = 'jax.config.update("jax_default_matmul_precision", "highest")\n'
    return f"""\
import jax
import torch
import torchax  # 0.0.13 needs torch below 2.13; p3-advisor's probes/workflows/openxla_jax.py imports it with 2.13

{exact if may_round(request) else ""}weights, function = torchax.extract_jax(model)
compiled = jax.jit(function).lower(weights, tuple(map(jax.dlpack.from_dlpack, inputs))).compile()
# Each call:
output = jax.block_until_ready(compiled(weights, tuple({array} for tensor in inputs)))
"""  # noqa: E501 - the lines are counted, so they are not wrapped
