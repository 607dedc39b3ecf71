"""Modular MAX: compile a language model with its own graph compiler, without a server."""

from __future__ import annotations

import shlex
from importlib import metadata
from typing import Any

import numpy as np

from probes.adapter import Engagement, Request, UnsupportedError
from probes.subjects.checkpoint import EngineProgram, EngineSubject

open_subject = EngineSubject


def versions() -> dict[str, str]:
    import max.driver

    return {"max": metadata.version("max"), "accelerators": str(max.driver.accelerator_count())}


def settings(request: Request) -> dict[str, str]:
    """Return the settings; the threads come from the environment."""
    return {
        "threads": str(request.threads),
        "prefix caching": "off",
        "device_graphs": "on" if request.device == "cuda" else "off",
    }


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> EngineGeneration:
    if subject.engine is None:
        from max.pipelines import AutoModel

        check_support(subject)
        subject.engine = AutoModel(str(subject.folder), **engine_arguments(subject))
    return EngineGeneration(subject, request)


def check_support(subject: EngineSubject) -> None:
    from max.pipelines.lib import PIPELINE_REGISTRY

    name = subject.info.architecture
    architecture = PIPELINE_REGISTRY.retrieve_architecture(name)
    if architecture is None:
        raise UnsupportedError(f"MAX has no {name}")
    encodings = {
        str(getattr(encoding, "value", encoding)) for encoding in architecture.supported_encodings
    }
    if subject.dtype not in encodings:
        message = f"MAX runs {name} in {', '.join(sorted(encodings))}, not in {subject.dtype}"
        raise UnsupportedError(message)


def engine_arguments(subject: EngineSubject) -> dict[str, Any]:
    """Give a GPU device graphs, as MAX's server does, and memory for this run only."""
    request = subject.request
    arguments: dict[str, Any] = {
        "devices": "cpu",
        "quantization_encoding": subject.dtype,
        "max_length": request.input_tokens + request.output_tokens + 1,
        "max_batch_size": max(request.batch_sizes),
        "trust_remote_code": request.trust_remote_code,
    }
    if request.device == "cuda":
        from max.driver import Accelerator

        free = Accelerator().stats["free_memory"]
        arguments |= {"devices": "gpu:0", "device_graph_capture": True}
        arguments["device_memory_utilization"] = subject.engine_memory_share(free)
    return arguments


class EngineGeneration(EngineProgram):
    def collect(self, output: Any) -> list[Any]:
        new = self.request.output_tokens
        return [np.array([row[-new:] for row in output.sequences], dtype=np.int64)]

    def generate(self, device_inputs: list[list[int]], new_tokens: int) -> Any:
        return self.engine.generate(
            device_inputs, max_new_tokens=new_tokens, temperature=0.0, ignore_eos=True
        )


def engagement(program: EngineGeneration, device_inputs: Any) -> Engagement:
    return Engagement(1.0, "the engine generates all tokens; it has no eager code to fall back to")


def serving_command(request: Request) -> str:
    name, batch_size = shlex.quote(request.subject["name"]), max(request.batch_sizes)
    return (
        f"max serve --model {name} --quantization-encoding {request.dtype} "
        f"--max-batch-size {batch_size}"
    )


def integration(subject: Any, request: Request) -> str:
    graphs = ", device_graph_capture=True" if request.device == "cuda" else ""
    device, batch_size = "gpu:0" if request.device == "cuda" else "cpu", max(request.batch_sizes)
    return f"""\
from max.pipelines import AutoModel

engine = AutoModel(CHECKPOINT, devices="{device}", quantization_encoding="{request.dtype}", max_batch_size={batch_size}{graphs})
# Each call:
output = engine.generate(prompts.tolist(), max_new_tokens={request.output_tokens}, temperature=0.0, ignore_eos=True)
tokens = [sequence[len(prompt) :] for sequence, prompt in zip(output.sequences, prompts.tolist())]
"""  # noqa: E501 - the lines are counted, so they are not wrapped
