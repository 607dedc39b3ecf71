"""ONNX Runtime GenAI: build an ONNX graph with a key-value cache, and run its generator."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from importlib import import_module
from typing import Any

import numpy as np
import onnxruntime as ort
import onnxruntime_genai as og

from probes.adapter import Engagement, Request, TokenLogprobs, UnsupportedError, log_softmax
from probes.stacks import onnxruntime_quantisation
from probes.subjects.checkpoint import EngineProgram, EngineSubject

open_subject = EngineSubject

PRECISIONS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
#: The builder runs in its own process, so its exception arrives as the last line of its log. The
#: text is compared because an unknown architecture is a limit of the stack, while every other
#: exception is a failed build.
UNSUPPORTED_EXCEPTION = "NotImplementedError"
#: Logit of a token that must not be chosen.
MASKED_LOGIT = np.float32(-1e30)


def versions() -> dict[str, str]:
    return {"onnxruntime-genai": og.__version__, "onnxruntime": ort.__version__}


def settings(request: Request) -> dict[str, str]:
    og.disable_telemetry_events()
    if request.device == "cuda":
        # Loads CUDA's libraries, which the provider does not find by itself.
        import_module("torch")
    return {
        "threads": str(request.threads),
        "precision": precision_of(request, request.dtype),
        "provider": request.device,
        "prompts at once": str(request.options["prompts_at_once"]),
    }


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> EngineGeneration:
    if subject.engine is None:
        config = og.Config(str(write_model(subject, request)))
        config.clear_providers()
        if request.device != "cpu":
            config.append_provider(request.device)
        subject.engine = og.Model(config)
    return EngineGeneration(subject, request)


def write_model(subject: EngineSubject, request: Request) -> pathlib.Path:
    """Run the model builder, unless an earlier process has, and return the model's folder.

    The builder runs in its own process, so that the weights it reads leave memory with it. Raise
    `UnsupportedError` if it does not know the architecture.
    """
    folder = model_folder(request)
    if (folder / "genai_config.json").exists():
        return folder
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
    command += ["-i", str(subject.folder), "-o", str(folder), "-e", request.device]
    command += ["-p", precision_of(request, subject.dtype)]
    command += ["-c", f"{request.scratch_directory}/builder"]
    builder = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603 - an argument list, no shell
    sys.stderr.write(builder.stdout + builder.stderr)
    if builder.returncode:
        lines = [line for line in builder.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else "it printed no reason"
        if reason.startswith(UNSUPPORTED_EXCEPTION):
            text = reason.partition(":")[2].strip()
            raise UnsupportedError(text.replace(str(subject.folder), str(request.subject["name"])))
        raise RuntimeError(f"the model builder failed: {reason}")
    file = folder / "genai_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["model"]["eos_token_id"] = []
    config["model"]["decoder"]["session_options"]["intra_op_num_threads"] = request.threads
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")
    return folder


def model_folder(request: Request) -> pathlib.Path:
    name = "-".join(["model", *filter(None, [request.options.get("weights")])])
    return pathlib.Path(request.scratch_directory) / name


def precision_of(request: Request, dtype: str) -> str:
    return str(request.options.get("weights") or PRECISIONS[dtype])


class EngineGeneration(EngineProgram):
    """Generates for a limited number of prompts at a time."""

    def feed(self, inputs: list[Any]) -> Any:
        return inputs[0].astype(np.int32)

    def first_token(self, device_inputs: Any) -> Any:
        at_once = self.request.options["prompts_at_once"]
        if len(device_inputs) > at_once:
            raise UnsupportedError(
                f"more than {at_once} prompts are generated in turns: no call gives all of them "
                "their first token and no more"
            )
        return super().first_token(device_inputs)

    def score(self, device_inputs: Any, tokens: Any, rows: int) -> TokenLogprobs:
        groups = [
            self._forced_log_probabilities(device_inputs[group], tokens[group], rows - group.start)
            for group in self._groups(rows)
        ]
        return TokenLogprobs(np.concatenate(groups))

    def _groups(self, rows: int) -> list[slice]:
        at_once = self.request.options["prompts_at_once"]
        return [slice(start, start + at_once) for start in range(0, rows, at_once)]

    def collect(self, output: Any) -> list[Any]:
        return [np.stack(output)[:, -self.request.output_tokens :].astype(np.int64)]

    def generate(self, device_inputs: Any, new_tokens: int) -> list[Any]:
        sequences: list[Any] = []
        for group in map(device_inputs.__getitem__, self._groups(len(device_inputs))):
            generator = self._make_generator(group, new_tokens)
            for _ in range(new_tokens):
                generator.generate_next_token()
            sequences += [np.asarray(generator.get_sequence(row)) for row in range(len(group))]
        return sequences

    def _forced_log_probabilities(self, device_inputs: Any, tokens: Any, rows: int) -> Any:
        """Return `(rows, positions, vocabulary) float32`; fewer rows if the input has fewer."""
        generator = self._make_generator(device_inputs, tokens.shape[1])
        count, kept = len(device_inputs), []
        for position in range(tokens.shape[1]):
            logits = np.array(generator.get_logits(), dtype=np.float32).reshape(count, -1)
            kept.append(log_softmax(logits[:rows, : self.subject.info.vocabulary]))
            forced = np.full(logits.shape, MASKED_LOGIT, dtype=np.float32)
            forced[np.arange(count), tokens[:, position]] = 0
            generator.set_logits(forced.reshape(count, 1, -1))
            generator.generate_next_token()
        return np.stack(kept, axis=1)

    def _make_generator(self, device_inputs: Any, new_tokens: int) -> Any:
        parameters = og.GeneratorParams(self.engine)
        parameters.set_search_options(
            batch_size=len(device_inputs),
            max_length=device_inputs.shape[1] + new_tokens,
            do_sample=False,
        )
        generator = og.Generator(self.engine, parameters)
        generator.append_tokens(device_inputs)
        return generator


def engagement(program: EngineGeneration, device_inputs: Any) -> Engagement:
    """Return the share of nodes on the provider in an equal session, or of quantised weights."""
    folder = model_folder(program.request)
    config = json.loads((folder / "genai_config.json").read_text(encoding="utf-8"))
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    wanted = PROVIDERS[program.request.device]
    file = folder / config["model"]["decoder"]["filename"]
    session = ort.InferenceSession(file, options, providers=[wanted], enable_fallback=0)
    placed, kinds = onnxruntime_quantisation.count_nodes(session)
    if program.request.options.get("weights"):
        return onnxruntime_quantisation.engagement(file, kinds)
    nodes = sum(placed.values())
    attention = sum(count for kind, count in kinds.items() if kind.endswith("Attention"))
    proof = (
        f"{placed[wanted]} of {nodes} nodes are placed on {wanted}, "
        f"{attention} of them attention with a key-value cache"
    )
    return Engagement(placed[wanted] / nodes if nodes else 0.0, proof)


def integration(subject: Any, request: Request) -> str:
    at_once = request.options["prompts_at_once"]
    return f"""\
import subprocess
import sys

import numpy as np
import onnxruntime_genai as og

builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", CHECKPOINT, "-o", "model"]
subprocess.run([*builder, "-p", "{precision_of(request, request.dtype)}", "-e", "{request.device}", "-c", "builder"], check=True)  # once
model = og.Model("model")
# Each call:
tokens = []
for start in range(0, len(prompts), {at_once}):  # the library takes no more at once
    some = prompts[start : start + {at_once}]
    parameters = og.GeneratorParams(model)
    parameters.set_search_options(batch_size=len(some), max_length={request.input_tokens + request.output_tokens}, do_sample=False)
    generator = og.Generator(model, parameters)
    generator.append_tokens(np.array(some, dtype=np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    tokens += [generator.get_sequence(row) for row in range(len(some))]
"""  # noqa: E501 - the lines are counted, so they are not wrapped
