"""The run's checkpoint, which every stack loads so that their texts can be compared.

The reference worker writes it. Next to the weights it has a tokenizer of whole words, one for each
token, because some engines do not open a checkpoint without a tokenizer.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import sys
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from probes.adapter import Request, Server, Subject, TextProgram, UnsupportedError
from probes.arrays import np

#: The model's name in requests to servers that have one.
SERVED_NAME = "model"
FOLDER = "checkpoint"
INFO_FILE = "p3-advisor.json"
GIBIBYTE = 2**30
#: Format of the tokenizer's word for a token; words have one length, so none is a prefix.
WORD_FORMAT = "t{:07d}"
token_word = WORD_FORMAT.format


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """What a stack needs to know about the checkpoint before it opens it."""

    architecture: str
    dtype: str
    parameters: int
    parameter_bytes: int
    adjusted: dict[str, str]
    vocabulary: int
    #: Bytes of one token of one sequence in the key-value cache; None if layers differ in kind.
    cache_bytes_per_token: int | None


def folder_of(request: Request) -> pathlib.Path:
    return pathlib.Path(request.shared_directory) / FOLDER


def write_info(folder: pathlib.Path, info: CheckpointInfo) -> None:
    (folder / INFO_FILE).write_text(json.dumps(dataclasses.asdict(info)), encoding="utf-8")


def read_info(request: Request) -> CheckpointInfo:
    text = (folder_of(request) / INFO_FILE).read_text(encoding="utf-8")
    return CheckpointInfo(**json.loads(text))


class EngineSubject(Subject):
    """The checkpoint as an engine opens it, by its folder."""

    unit = "tokens"

    def __init__(self, request: Request) -> None:
        info = read_info(request)
        #: The request; of several lengths it has the longest, which the engine has to hold.
        self.request = request
        self.folder = folder_of(request)
        self.info = info
        self.dtype = info.dtype
        self.parameters = info.parameters
        self.parameter_bytes = info.parameter_bytes
        self.adjusted = info.adjusted
        self.units_per_sample = request.output_tokens
        #: Engines take seeds of 31 bits.
        self.seed = request.seed % (1 << 31)
        #: The engine, once the first shape is built: one serves all shapes.
        self.engine: Any = None
        #: The arguments that limit its length and memory, and its variables: those of the lines for
        #: users, because the measured memory is that of an engine with them.
        self.engine_limits: Mapping[str, Any] = {}
        self.engine_variables: Mapping[str, str] = {}

    def engine_cache_bytes(self) -> int:
        """Return more bytes than a call with the largest batch needs at its end."""
        request, memory = self.request, self.request.engine_memory
        tokens = max(request.batch_sizes) * (request.input_tokens + request.output_tokens)
        used = tokens * (self.info.cache_bytes_per_token or 0)
        least = math.ceil(memory["least_cache_gib"] * GIBIBYTE) if request.device == "cuda" else 0
        return max(math.ceil(used * memory["cache_factor"]), least)

    def engine_memory_share(self, available_bytes: int) -> float:
        memory = self.request.engine_memory
        overhead = memory["overhead_gib"] * GIBIBYTE
        needed = self.parameter_bytes + self.engine_cache_bytes() + overhead
        return float(min(math.ceil(1000 * needed / available_bytes) / 1000, memory["most_share"]))


class EngineProgram(TextProgram):
    def __init__(self, subject: EngineSubject, request: Request) -> None:
        super().__init__(request)
        self.subject, self.engine = subject, subject.engine

    def feed(self, inputs: list[Any]) -> Any:
        return inputs[0].tolist()

    def collect(self, output: Any) -> list[Any]:
        """Return the tokens of outputs in the form that vLLM and TensorRT-LLM have."""
        return [np.array([list(one.outputs[0].token_ids) for one in output], dtype=np.int64)]


def continued(prompts: Sequence[list[int]], tokens: Any, rows: int) -> list[list[int]]:
    """Return the first `rows` prompts, each with its row of `tokens`."""
    pairs = zip(prompts[:rows], tokens[:rows].tolist(), strict=True)
    return [[*prompt, *row] for prompt, row in pairs]


def option_words(options: Mapping[str, object]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def batching_server(
    subject: EngineSubject,
    port: int,
    length: int,
    *,
    module: str,
    names: tuple[str, str, str, str],
    flags: Sequence[str],
    variables: Mapping[str, str] = types.MappingProxyType({}),
) -> Server:
    """Return an engine's server that batches continuously, with its defaults, on this machine.

    `names` are those of the options for the model, its longest text, the seed and the number of
    devices. The server caches no prefixes: the check sends the same prompts several times, and each
    has to be computed again.
    """
    model, most_tokens, seed, devices = names
    count = subject.request.devices_per_model
    options = {
        model: subject.folder,
        "served-model-name": SERVED_NAME,
        "host": "127.0.0.1",
        "port": port,
        "dtype": subject.dtype,
        most_tokens: length,
        seed: subject.seed,
        **({devices: count} if count > 1 else {}),
    }
    return Server(
        command=[sys.executable, "-m", module, *option_words(options), *flags],
        model=SERVED_NAME,
        settings={
            "batching": "continuous",
            "prefix caching": "off",
            "max sequences": "default",
            "max model length": str(length),
            **({"tensor parallel": str(count)} if count > 1 else {}),
        },
        variables=dict(variables),
        fields={"temperature": 0.0, "ignore_eos": True},
    )


def require_architecture(subject: EngineSubject, supported: Collection[str], engine: str) -> None:
    if subject.info.architecture not in supported:
        raise UnsupportedError(
            f"{engine} has no {subject.info.architecture} among the "
            f"{len(supported)} architectures that it lists"
        )
