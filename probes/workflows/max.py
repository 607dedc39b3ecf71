"""Modular MAX: its own graph compiler and kernels, offline.

It takes and gives text only, so tokens travel as the words of the checkpoint.
"""

from __future__ import annotations

import _thread
import math
import re
import shlex
import threading
from typing import Any

import numpy as np

from probes import protocol
from probes.adapter import UnsupportedError
from probes.checkpoint import EngineSubject, word_of
from probes.protocol import Engagement, Request

TASKS = (protocol.GENERATE,)

open_subject = EngineSubject

WORD = re.compile(r"t(\d{7})")
#: What the engine takes of a GPU beside weights and cache, by its own estimate of activations and more.
BESIDE_BYTES = 8 * 2**30
#: The cache is given this much of what the largest batch needs: its pages are not filled to the last place.
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
    return {"threads": str(request.threads), "interface": "max._entrypoints.llm, private and deprecated since 26.5"}


def build(subject: EngineSubject, inputs: list[Any], request: Request) -> Generation:  # noqa: ARG001 - one engine serves all sizes
    """Start the engine, once for all batch sizes: compiling the model is its build."""
    if subject.engine is None:
        check_support(subject)
        keep_own_tokenizer()
        subject.engine = start_engine(subject, request)
    return Generation(subject.engine, request)


def check_support(subject: EngineSubject) -> None:
    """Ask the engine's own registry for the architecture and the precision before anything is loaded."""
    from max.pipelines.lib import PIPELINE_REGISTRY  # noqa: PLC0415

    found = PIPELINE_REGISTRY.retrieve_architecture(subject.note.architecture)
    if found is None:
        message = f"MAX has no {subject.note.architecture}"
        raise UnsupportedError(message)
    encodings = {str(getattr(encoding, "value", encoding)) for encoding in found.supported_encodings}
    if subject.dtype not in encodings:
        message = f"MAX runs {subject.note.architecture} in {', '.join(sorted(encodings))}, not in {subject.dtype}"
        raise UnsupportedError(message)


def start_engine(subject: EngineSubject, request: Request) -> Any:
    """Start the engine; what its thread raises meanwhile is raised here, where the engine itself would wait for ever.

    https://github.com/modular/modular: `LLM.__init__` waits for an event that a failed thread never sets.
    """
    from max._entrypoints.llm import LLM  # noqa: PLC0415 - the only offline interface that it has
    from max.driver import DeviceSpec  # noqa: PLC0415
    from max.pipelines.lib import PipelineArgs  # noqa: PLC0415

    arguments = PipelineArgs.from_flat_kwargs(
        model_path=str(subject.folder),
        quantization_encoding=subject.dtype,
        max_length=request.input_tokens + request.output_tokens + 1,
        max_batch_size=max(request.batch_sizes),
        device_specs=[DeviceSpec.accelerator() if request.device == "cuda" else DeviceSpec.cpu()],
        enable_prefix_caching=False,
        trust_remote_code=request.trust_remote_code,
        **({"device_memory_utilization": memory_share(subject, request)} if request.device == "cuda" else {}),
    )
    problems: list[BaseException | None] = []

    def interrupt(raised: threading.ExceptHookArgs) -> None:
        problems.append(raised.exc_value)
        _thread.interrupt_main()

    before, threading.excepthook = threading.excepthook, interrupt
    try:
        return LLM(arguments)
    except KeyboardInterrupt as interruption:
        message = f"it cannot start: {problems[0] if problems else interruption}"
        raise RuntimeError(message) from interruption
    finally:
        threading.excepthook = before


def keep_own_tokenizer() -> None:
    """Make transformers open the checkpoint's tokenizer as it is.

    For some architectures, Qwen2 among them, it takes the class by the model's type whatever the checkpoint says. That one reads nothing in
    the prompts, and the engine waits for ever. https://github.com/huggingface/transformers: MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS.
    """
    from transformers.models.auto import tokenization_auto  # noqa: PLC0415

    getattr(tokenization_auto, "MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS", set()).clear()


def memory_share(subject: EngineSubject, request: Request) -> float:
    """Return the share of the GPU's free memory for weights and cache."""
    from max.driver import Accelerator  # noqa: PLC0415

    needed = subject.parameter_bytes + CACHE_ROOM * subject.cache_bytes(request) + BESIDE_BYTES
    return float(min(math.ceil(1000 * needed / Accelerator().stats["free_memory"]) / 1000, MOST_MEMORY))


class Generation:
    """See `probes.adapter.TextProgram`."""

    def __init__(self, engine: Any, request: Request) -> None:
        self.engine = engine
        self.request = request

    def feed(self, inputs: list[Any]) -> list[str]:
        """Return the prompts as words."""
        return [" ".join(word_of(token) for token in row) for row in inputs[0].tolist()]

    def __call__(self, fed: list[str]) -> Any:
        """Generate all new tokens."""
        return self.engine.generate(fed, max_new_tokens=self.request.output_tokens, use_tqdm=False)

    def first_token(self, fed: list[str]) -> Any:
        """Generate one new token."""
        return self.engine.generate(fed, max_new_tokens=1, use_tqdm=False)

    def collect(self, output: Any) -> list[Any]:
        """Return the tokens of the words; a text that ended early is filled up with a token that there is not."""
        rows = [[int(word) for word in WORD.findall(text)] for text in output]
        longest = self.request.output_tokens
        return [np.array([(row + [-1] * longest)[:longest] for row in rows], dtype=np.int64)]


def synchronise() -> None:
    """Return at once: the texts are there when a call returns."""


def engagement(program: Generation, fed: Any) -> Engagement:  # noqa: ARG001
    """Return a full share: the engine has no other code than its own that could make the tokens."""
    return Engagement(
        1.0, "the engine makes all tokens; it has no eager code to fall back to", {"preallocates": program.request.device == "cuda"}
    )


def serving_command(request: Request) -> str:
    """Return the command that serves the model."""
    name, most = shlex.quote(request.subject["name"]), max(request.batch_sizes)
    return f"max serve --model {name} --quantization-encoding {request.dtype} --max-batch-size {most}"


def integration(request: Request) -> str:
    """Return the lines that ask the server, with any client of the OpenAI interface: the offline one is private."""
    return f"""\
import openai

client = openai.OpenAI(base_url="http://localhost:8000/v1", api_key="none")
answer = client.completions.create(model=CHECKPOINT, prompt=prompts, max_tokens={request.output_tokens}, temperature=0)
tokens = [choice.text for choice in answer.choices]
"""
