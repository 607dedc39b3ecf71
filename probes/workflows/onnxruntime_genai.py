"""ONNX Runtime GenAI: its model builder writes an ONNX graph with a cache of keys and values, its generator runs it."""

from __future__ import annotations

import collections
import json
import pathlib
import subprocess
import sys
from importlib import import_module
from typing import Any

import numpy as np
import onnxruntime as ort
import onnxruntime_genai as og

from probes import protocol
from probes.adapter import UnsupportedError
from probes.checking.logprobs import Scores
from probes.protocol import Engagement, Request
from probes.subjects.checkpoint import EngineSubject

TASKS = (protocol.GENERATE,)

open_subject = EngineSubject

PRECISIONS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
#: The builder is a program of its own; that it does not know an architecture is seen only by the
#: exception that ends its log.
REFUSAL = "NotImplementedError"
#: Anything but this could be chosen: a logit that no forced token has.
NEVER = np.float32(-1e30)


def versions() -> dict[str, str]:
    """Return the versions of the library and of the runtime beneath it."""
    return {"onnxruntime-genai": og.__version__, "onnxruntime": ort.__version__}


def settings(request: Request) -> dict[str, str]:
    """Send nothing anywhere; return what is in force."""
    og.disable_telemetry_events()
    if request.device == "cuda":
        import_module(
            "torch"
        )  # brings CUDA's own libraries, which the provider does not find by itself
    return {
        "threads": str(request.threads),
        "precision": PRECISIONS[request.dtype],
        "provider": request.device,
        "prompts at once": str(request.options["prompts_at_once"]),
    }


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> Generation:  # noqa: ARG001 - one model serves all sizes
    """Write the model and load it, once for all batch sizes."""
    if subject.engine is None:
        folder = write_model(subject, request)
        config = og.Config(str(folder))
        config.clear_providers()
        if request.device != "cpu":
            config.append_provider(request.device)
        subject.engine = og.Model(config)
    return Generation(subject, request)


def write_model(subject: EngineSubject, request: Request) -> pathlib.Path:
    """Run the builder in a process of its own, so that the weights it reads do not stay in this one."""
    folder = pathlib.Path(request.scratch_directory) / "model"
    if (folder / "genai_config.json").exists():
        return folder
    arguments = [
        "-i",
        str(subject.folder),
        "-o",
        str(folder),
        "-p",
        PRECISIONS[subject.dtype],
        "-e",
        request.device,
    ]
    command = [
        sys.executable,
        "-m",
        "onnxruntime_genai.models.builder",
        *arguments,
        "-c",
        f"{request.scratch_directory}/builder",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603 - an argument list, no shell
    sys.stderr.write(ended.stdout + ended.stderr)
    if ended.returncode:
        reason = next(
            (line for line in reversed(ended.stderr.splitlines()) if line.strip()),
            "it said nothing",
        )
        if reason.startswith(REFUSAL):
            raise UnsupportedError(
                reason.partition(":")[2]
                .strip()
                .replace(str(subject.folder), str(request.subject["name"]))
            )
        message = f"the model builder failed: {reason}"
        raise RuntimeError(message)
    end_nowhere(folder / "genai_config.json", request)
    return folder


def end_nowhere(file: pathlib.Path, request: Request) -> None:
    """Take the end of a text for a token like any other, and give the processor's threads their number."""
    config = json.loads(file.read_text(encoding="utf-8"))
    config["model"]["eos_token_id"] = []
    config["model"]["decoder"]["session_options"]["intra_op_num_threads"] = request.threads
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")


class Generation:
    """See `probes.adapter.TextProgram`."""

    def __init__(self, subject: EngineSubject, request: Request) -> None:
        self.model = subject.engine
        self.request = request
        self.vocabulary = subject.note.vocabulary

    def feed(self, inputs: list[Any]) -> Any:
        """Return the prompts in the type that the library takes."""
        return inputs[0].astype(np.int32)

    def __call__(self, fed: Any) -> Any:
        """Generate all new tokens."""
        return self._generate(fed, self.request.output_tokens)

    def first_token(self, fed: Any) -> Any:
        """Generate one new token; of prompts that take turns, the last have theirs long after the first are done."""
        at_once = self.request.options["prompts_at_once"]
        if len(fed) > at_once:
            message = f"more than {at_once} prompts take turns: no call gives all of them their first token and no more"
            raise UnsupportedError(message)
        return self._generate(fed, 1)

    def score(self, fed: Any, tokens: Any, rows: int) -> Scores:
        """Let the generator choose from nothing but `tokens` and return the logits it had."""
        at_once = self.request.options["prompts_at_once"]
        groups = [
            (slice(start, start + at_once), min(rows - start, at_once))
            for start in range(0, rows, at_once)
        ]
        return Scores(
            np.concatenate(
                [self._force(fed[group], tokens[group], count) for group, count in groups]
            )
        )

    def collect(self, output: Any) -> list[Any]:
        """Return the new tokens."""
        return [np.stack(output)[:, self.request.input_tokens :].astype(np.int64)]

    def _generate(self, fed: Any, new_tokens: int) -> list[Any]:
        """Generate for as many prompts at once as the library takes; return each one's sequence."""
        at_once = self.request.options["prompts_at_once"]
        sequences: list[Any] = []
        for start in range(0, len(fed), at_once):
            part = fed[start : start + at_once]
            generator = self._begin(part, new_tokens)
            for _ in range(new_tokens):
                generator.generate_next_token()
            sequences += [np.asarray(generator.get_sequence(row)) for row in range(len(part))]
        return sequences

    def _force(self, fed: Any, tokens: Any, rows: int) -> Any:
        """Return the logarithms of the probabilities before each of `tokens`, which are the only choice, for the first `rows`."""
        generator = self._begin(fed, tokens.shape[1])
        kept = []
        for place in range(tokens.shape[1]):
            logits = np.array(generator.get_logits(), dtype=np.float32).reshape(len(fed), -1)
            kept.append(logarithms_of(logits[:rows, : self.vocabulary]))
            forced = np.full(logits.shape, NEVER, dtype=np.float32)
            forced[np.arange(len(fed)), tokens[:, place]] = 0
            generator.set_logits(forced.reshape(len(fed), 1, -1))
            generator.generate_next_token()
        return np.stack(kept, axis=1)

    def _begin(self, fed: Any, new_tokens: int) -> Any:
        parameters = og.GeneratorParams(self.model)
        parameters.set_search_options(
            batch_size=len(fed), max_length=fed.shape[1] + new_tokens, do_sample=False
        )
        generator = og.Generator(self.model, parameters)
        generator.append_tokens(fed)
        return generator


def logarithms_of(logits: Any) -> Any:
    """Return the logarithms of the probabilities along the last axis."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def synchronise() -> None:
    """Return at once: the tokens are on the host when a call returns."""


def engagement(program: Generation, fed: Any) -> Engagement:  # noqa: ARG001
    """Return the share of the graph's nodes that a session of the same settings places on the provider."""
    folder = pathlib.Path(program.request.scratch_directory) / "model"
    config = json.loads((folder / "genai_config.json").read_text(encoding="utf-8"))
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    wanted = PROVIDERS[program.request.device]
    session = ort.InferenceSession(
        folder / config["model"]["decoder"]["filename"],
        options,
        providers=[wanted],
        enable_fallback=0,
    )
    placed: collections.Counter[str] = collections.Counter()
    kinds: collections.Counter[str] = collections.Counter()
    for part in session.get_provider_graph_assignment_info():
        placed[part.ep_name] += len(part.get_nodes())
        kinds.update(node.op_type for node in part.get_nodes())
    nodes = sum(placed.values())
    attention = sum(count for kind, count in kinds.items() if kind.endswith("Attention"))
    proof = f"{placed[wanted]} of {nodes} nodes are placed on {wanted}, {attention} of them attention with its cache"
    return Engagement(
        placed[wanted] / nodes if nodes else 0.0,
        proof,
        {"nodes": dict(placed), "device": program.model.device_type},
    )


def integration(request: Request) -> str:
    """Return the command that writes the model and the lines that generate."""
    at_once = request.options["prompts_at_once"]
    return f"""\
import subprocess
import sys

import numpy as np
import onnxruntime_genai as og

builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", CHECKPOINT, "-o", "model"]
subprocess.run([*builder, "-p", "{PRECISIONS[request.dtype]}", "-e", "{request.device}", "-c", "builder"], check=True)  # once
model = og.Model("model")
tokens = []
for start in range(0, len(prompts), {at_once}):  # it takes no more at once
    some = prompts[start : start + {at_once}]
    parameters = og.GeneratorParams(model)
    parameters.set_search_options(batch_size=len(some), max_length={request.input_tokens + request.output_tokens}, do_sample=False)
    generator = og.Generator(model, parameters)
    generator.append_tokens(np.array(some, dtype=np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    tokens += [generator.get_sequence(row) for row in range(len(some))]
"""
