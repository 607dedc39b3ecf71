"""Modular MAX: its own graph compiler and kernels, through the model class that it has for use without a server."""

from __future__ import annotations

import math
import shlex
from typing import Any

import numpy as np

from probes import protocol
from probes.adapter import UnsupportedError
from probes.protocol import Engagement, Request
from probes.subjects.checkpoint import EngineSubject

TASKS = (protocol.GENERATE,)

open_subject = EngineSubject

#: What the engine takes of a GPU beside weights and cache, by its own estimate of activations and
#: more.
BESIDE_BYTES = 8 * 2**30
#: The cache is given this much of what the largest batch needs: its pages are not filled to the
#: last place.
CACHE_ROOM = 3.0
#: The engine's own default, which leaves hardly any memory to whoever measures beside it.
MOST_MEMORY = 0.9


def versions() -> dict[str, str]:
    """Import the engine and return its version."""
    from importlib import metadata  # noqa: PLC0415

    import max.driver  # noqa: PLC0415

    return {"max": metadata.version("max"), "accelerators": str(max.driver.accelerator_count())}


def settings(request: Request) -> dict[str, str]:
    """Return what is in force; threads come from the environment."""
    return {
        "threads": str(request.threads),
        "prefix_caching": "off",
        "device_graphs": "on" if request.device == "cuda" else "off",
    }


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> Generation:  # noqa: ARG001 - one engine serves all sizes
    """Open the model, once for all batch sizes: compiling it and capturing device graphs is its build."""
    if subject.engine is None:
        from max.pipelines import AutoModel  # noqa: PLC0415

        check_support(subject)
        subject.engine = AutoModel(str(subject.folder), **engine_arguments(subject, request))
    return Generation(subject.engine, request)


def check_support(subject: EngineSubject) -> None:
    """Ask the engine's own registry for the architecture and the precision before anything is loaded."""
    from max.pipelines.lib import PIPELINE_REGISTRY  # noqa: PLC0415

    found = PIPELINE_REGISTRY.retrieve_architecture(subject.note.architecture)
    if found is None:
        message = f"MAX has no {subject.note.architecture}"
        raise UnsupportedError(message)
    encodings = {
        str(getattr(encoding, "value", encoding)) for encoding in found.supported_encodings
    }
    if subject.dtype not in encodings:
        message = f"MAX runs {subject.note.architecture} in {', '.join(sorted(encodings))}, not in {subject.dtype}"
        raise UnsupportedError(message)


def engine_arguments(subject: EngineSubject, request: Request) -> dict[str, Any]:
    """Return how the model is opened: on a GPU with device graphs, as the engine's server does by itself, and memory for this run alone."""
    arguments: dict[str, Any] = {
        "devices": "cpu",
        "quantization_encoding": subject.dtype,
        "max_length": request.input_tokens + request.output_tokens + 1,
        "max_batch_size": max(request.batch_sizes),
        "trust_remote_code": request.trust_remote_code,
    }
    if request.device == "cuda":
        arguments |= {
            "devices": "gpu:0",
            "device_graph_capture": True,
            "device_memory_utilization": memory_share(subject, request),
        }
    return arguments


def memory_share(subject: EngineSubject, request: Request) -> float:
    """Return the share of the GPU's free memory for weights and cache."""
    from max.driver import Accelerator  # noqa: PLC0415

    needed = subject.parameter_bytes + CACHE_ROOM * subject.cache_bytes(request) + BESIDE_BYTES
    return float(
        min(math.ceil(1000 * needed / Accelerator().stats["free_memory"]) / 1000, MOST_MEMORY)
    )


class Generation:
    """See `probes.adapter.TextProgram`."""

    def __init__(self, engine: Any, request: Request) -> None:
        self.engine = engine
        self.request = request

    def feed(self, inputs: list[Any]) -> list[list[int]]:
        """Return the prompts as lists of tokens."""
        rows: list[list[int]] = inputs[0].tolist()
        return rows

    def __call__(self, fed: list[list[int]]) -> Any:
        """Generate all new tokens."""
        return self._generate(fed, self.request.output_tokens)

    def first_token(self, fed: list[list[int]]) -> Any:
        """Generate one new token."""
        return self._generate(fed, 1)

    def collect(self, output: Any) -> list[Any]:
        """Return the new tokens."""
        return [
            np.array([row[self.request.input_tokens :] for row in output.sequences], dtype=np.int64)
        ]

    def _generate(self, fed: list[list[int]], new_tokens: int) -> Any:
        return self.engine.generate(
            fed, max_new_tokens=new_tokens, temperature=0.0, ignore_eos=True
        )


def synchronise() -> None:
    """Return at once: the tokens are on the host when a call returns."""


def engagement(program: Generation, fed: Any) -> Engagement:  # noqa: ARG001
    """Return a full share: the engine has no other code than its own that could make the tokens."""
    return Engagement(
        1.0,
        "the engine makes all tokens; it has no eager code to fall back to",
        {"preallocates": program.request.device == "cuda"},
    )


def serving_command(request: Request) -> str:
    """Return the command that serves the model."""
    name, most = shlex.quote(request.subject["name"]), max(request.batch_sizes)
    return (
        f"max serve --model {name} --quantization-encoding {request.dtype} --max-batch-size {most}"
    )


def integration(request: Request) -> str:
    """Return the lines that open the model and generate."""
    graphs = ", device_graph_capture=True" if request.device == "cuda" else ""
    device, most = "gpu:0" if request.device == "cuda" else "cpu", max(request.batch_sizes)
    return f"""\
from max.pipelines import AutoModel

engine = AutoModel(CHECKPOINT, devices="{device}", quantization_encoding="{request.dtype}", max_batch_size={most}{graphs})
output = engine.generate(prompts, max_new_tokens={request.output_tokens}, temperature=0.0, ignore_eos=True)
tokens = [sequence[len(prompt) :] for sequence, prompt in zip(output.sequences, prompts)]
"""
