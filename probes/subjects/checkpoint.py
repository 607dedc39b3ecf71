"""The one checkpoint of a run, which every stack loads so that their texts can be compared; the reference worker writes it.

Next to the weights it has a tokenizer made up of whole words, one for each token: some engines do
not open a checkpoint without one.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from probes.adapter import UnsupportedError
from probes.protocol import Request

FOLDER = "checkpoint"
NOTE = "p3-advisor.json"


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """What there is to know about the checkpoint without opening it."""

    architecture: str
    dtype: str
    parameters: int
    parameter_bytes: int
    weights: str
    vocabulary: int
    #: Bytes that one token of one sequence takes in the cache of keys and values; None for a cache
    #: of another kind.
    cache_bytes_per_token: int | None


def folder_of(request: Request) -> pathlib.Path:
    """Return where the checkpoint lies."""
    return pathlib.Path(request.shared_directory) / FOLDER


def write_note(folder: pathlib.Path, note: CheckpointInfo) -> None:
    """Leave the note in the checkpoint's folder."""
    (folder / NOTE).write_text(json.dumps(dataclasses.asdict(note)), encoding="utf-8")


def read_note(request: Request) -> CheckpointInfo:
    """Return the checkpoint's note."""
    return CheckpointInfo(**json.loads((folder_of(request) / NOTE).read_text(encoding="utf-8")))


def word_of(token: int) -> str:
    """Return the word that the made-up tokenizer has for a token; all are of one length, for none may be the beginning of another."""
    return f"t{token:07d}"


class EngineSubject:
    """The checkpoint as an engine sees it: a folder.

    See `probes.adapter.Subject`; what only the reference worker needs is missing.
    """

    unit = "tokens"

    def __init__(self, request: Request) -> None:
        note = read_note(request)
        self.folder = folder_of(request)
        self.note = note
        self.dtype = note.dtype
        self.parameters = note.parameters
        self.parameter_bytes = note.parameter_bytes
        self.weights = note.weights
        self.units_per_sample = request.output_tokens
        #: The engine, once the first batch size was built: it serves all of them.
        self.engine: Any = None

    def cache_bytes(self, request: Request) -> int:
        """Return what the cache holds when the largest batch is done."""
        tokens = max(request.batch_sizes) * (request.input_tokens + request.output_tokens)
        return tokens * (self.note.cache_bytes_per_token or 0)


def require_architecture(subject: EngineSubject, supported: Any, engine: str) -> None:
    """Raise `UnsupportedError` before anything is loaded when the engine's own list lacks the model's architecture."""
    if subject.note.architecture not in supported:
        message = f"{engine} has no {subject.note.architecture} among the {len(list(supported))} architectures that it lists"
        raise UnsupportedError(message)
