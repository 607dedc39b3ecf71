"""OpenXLA through JAX: torchax turns the module into a function of JAX, which XLA compiles."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import jax
import ml_dtypes
import numpy as np
import torch

from probes.protocol import Engagement, Request
from probes.stacks import pytorch
from probes.subjects.opening import TorchSubject, open_torch_subject

settings_of_torch = pytorch.apply_settings
open_subject = open_torch_subject

#: Words by which operators with named dimensions are known; torch 2.13 no longer has them, torchax
#: 0.0.13 still asks for them.
NAMED = ("imname", "names")


@contextlib.contextmanager
def placeholders_for_named_operators() -> Iterator[None]:
    """Answer for operators that torch has dropped, so that torchax can be imported; it never calls them.

    https://github.com/google/torchax mended it after 0.0.13, in d1a9349. Where it is not, the first
    import fails and so does any later one.
    """
    packet: Any = torch._ops.OpOverloadPacket  # noqa: SLF001 - the one place where the names are looked up
    found = packet.__getattr__

    def look_up(self: Any, name: str) -> Any:
        try:
            return found(self, name)
        except AttributeError:
            if any(word in name for word in NAMED):
                return f"<{self}.{name} is gone>"
            raise

    packet.__getattr__ = look_up
    try:
        yield
    finally:
        packet.__getattr__ = found


def import_torchax() -> Any:
    """Import torchax whatever torch still has."""
    with placeholders_for_named_operators():
        import_module("torchax.decompositions")
        return import_module("torchax")


torchax = import_torchax()


def versions() -> dict[str, str]:
    """Return the versions of all that take part."""
    return pytorch.versions("torchax", "jax", "jaxlib")


def settings(request: Request) -> dict[str, str]:
    """Let JAX keep every compiled program where the variable says, and return where it computes."""
    logging.getLogger("jax").setLevel(logging.WARNING)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if request.device == "cuda" and request.dtype not in {"float16", "bfloat16"}:
        # Left alone, products of float32 round to TF32 there, which eager PyTorch's do not.
        jax.config.update("jax_default_matmul_precision", "highest")
    # JAX reads the variable when it is imported; a recipe sets it only when it knows its folder.
    jax.config.update("jax_compilation_cache_dir", os.environ.get("JAX_COMPILATION_CACHE_DIR"))
    found = settings_of_torch(request)
    return {
        **found,
        "platform": jax.default_backend(),
        "matmul_precision": str(jax.config.jax_default_matmul_precision),
    }


@dataclasses.dataclass
class Latest:
    """What was asked for last; JAX hands out outputs before they are computed, and computes them in order."""

    output: Any = None


_latest = Latest()


@dataclasses.dataclass(frozen=True)
class XlaProgram:
    """A compiled function with the weights it is called with."""

    compiled: Any
    weights: Any
    types: tuple[Any, ...]

    def feed(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Put the inputs on the device, in the types that were compiled for."""
        return tuple(
            jax.device_put(array.astype(kind))
            for array, kind in zip(inputs, self.types, strict=True)
        )

    def __call__(self, fed: tuple[Any, ...]) -> Any:
        """Run once."""
        _latest.output = self.compiled(self.weights, fed)
        return _latest.output

    def collect(self, output: Any) -> list[Any]:
        """Return the outputs on the host; half precisions as float32."""
        arrays = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(output)]
        return [
            array.astype(np.float32)
            if array.dtype in {np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)}
            else array
            for array in arrays
        ]


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> XlaProgram:  # noqa: ARG001 - its cache is set by a variable
    """Compile the module's function of its weights and inputs for these shapes; afterwards the module's own weights are on the host."""
    types = tuple(jax_type(tensor.dtype) for tensor in subject.tensors(inputs))
    pytorch.leave_device(subject)
    with pytorch.ordinary_mode():
        weights, function = extract(subject)
        program = XlaProgram(None, weights, types)
        lowered = jax.jit(function).lower(weights, program.feed(inputs))
        return dataclasses.replace(program, compiled=lowered.compile())


@functools.cache
def extract(subject: TorchSubject) -> tuple[Any, Any]:
    """Return the weights as JAX has them and the function of them that the module is: once, as all batch sizes share them.

    From the host, through which torchax copies them anyway: it keeps the module's tensors, which
    would stay on the GPU.
    """
    weights, function = torchax.extract_jax(subject.module)
    return weights, function


def jax_type(dtype: torch.dtype) -> Any:
    """Return the type JAX has for one of torch: whole numbers have 32 bits there."""
    known = {torch.bfloat16: ml_dtypes.bfloat16, torch.int64: np.int32}
    return known[dtype] if dtype in known else torch.empty(0, dtype=dtype).numpy().dtype


def synchronise() -> None:
    """Wait for the latest output and then, on a GPU, as for every other workflow, for the whole device."""
    jax.block_until_ready(_latest.output)
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def engagement(program: XlaProgram, fed: Any) -> Engagement:  # noqa: ARG001
    """Show the one executable that was compiled: nothing of the module is left outside."""
    text = program.compiled.as_text()
    fusions, calls = text.count(" fusion("), text.count(" custom-call(")
    memory = program.compiled.memory_analysis()
    devices = sorted(
        {device.platform for device in jax.tree_util.tree_leaves(program.weights)[0].devices()}
    )
    proof = f"one XLA executable for {', '.join(devices)} is the whole call: {fusions} fusions, {calls} calls into libraries"
    facts = {
        "fusions": fusions,
        "library_calls": calls,
        "temporary_bytes": int(memory.temp_size_in_bytes) if memory else None,
    }
    return Engagement(1.0, proof, facts)


def integration(request: Request) -> str:  # noqa: ARG001 - the same for every model
    """Return the lines that turn the module into a function of JAX, compile and run it."""
    return """\
import jax
import torch
import torchax  # 0.0.13 needs torch below 2.13; see p3-advisor's probes/workflows/openxla_jax.py for how to import it with 2.13

weights, function = torchax.extract_jax(model)
compiled = jax.jit(lambda weights, inputs: function(weights, inputs))
output = compiled(weights, tuple(jax.numpy.asarray(tensor.numpy()) for tensor in inputs))
output.block_until_ready()
"""
