"""What the advisor and a worker say to each other.

A worker is started as `python worker.py DIRECTORY` in its own session. In DIRECTORY it finds
`request.json` (one `Request`); there it writes `events.jsonl` (one JSON object a line, appended and
flushed) and at the end `response.json` (one outcome, written beside and renamed). Whatever the
stack prints goes to `log`.

Standard input is the lifeline and carries one-line tokens:
    build                       take the device and build (sent when it is this worker's turn)
    visit BATCH_SIZE ROUND      time one block of calls
    sustain BATCH_SIZE SECONDS  call without a pause for that long
    diagnose                    profile a few calls of each batch size
    flex                        check the outputs, then try shapes that were not built: the last thing, as it may break the program
    allocate BYTES              hold this much memory of the device outside every allocator, or none (the reference worker only)
    peaks                       measure how fast the device can be (the reference worker only)
    stop                        check the outputs once more, answer, end
After each but `visit` and `stop` the worker says `ready` again. End of file on it means that the
advisor is gone: the worker's whole process group is killed. Standard output is the doorbell: one
byte after each event, so that the advisor sleeps until there is news.

All of it stands in one file, however long: it is the contract between two interpreters that may
share nothing else, and has one version.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

VERSION = 1

REQUEST = "request.json"
EVENTS = "events.jsonl"
RESPONSE = "response.json"
LOG = "log"

#: Tasks: one pass over the inputs, or new tokens for prompts.
FORWARD = "forward"
GENERATE = "generate"

#: Environment variable that holds the control directory: whatever a worker starts inherits it and
#: is found by it when it has to end.
MARK = "P3_ADVISOR_WORKER"

PHASES = (
    "start",
    "import",
    "load",
    "build",
    "correctness",
    "warmup",
    "measure",
    "sustain",
    "diagnose",
    "flex",
    "done",
)


class VersionMismatchError(Exception):
    """The request speaks another version of this protocol."""


@dataclasses.dataclass(frozen=True)
class Request:
    """Everything a worker needs to know; nothing else reaches it."""

    version: int
    arm: str
    #: File of the workflow's module; it is loaded by path so that nothing of the advisor lands on
    #: the stack's import path.
    workflow_file: str
    options: dict[str, Any]
    #: Tagged by `kind`; each kind is opened by one module of `probes.subjects`.
    subject: dict[str, Any]
    #: `float32`, `float16` or `bfloat16`.
    dtype: str
    #: `cpu` or `cuda`; which GPU is decided by the environment the worker gets.
    device: str
    batch_sizes: list[int]
    input_tokens: int
    seed: int
    threads: int
    #: `build`: build for a device that is not here, leave the artefact, end. `reference`: make
    #: weights, inputs and reference outputs in `shared_directory` and end; `measure`: build, check
    #: and be timed. They are different processes because what the first allocates would change how
    #: fast the second runs.
    role: str
    shared_directory: str
    #: Compiler caches and artefacts; empty at the first build.
    scratch_directory: str
    trust_remote_code: bool
    allow_pickle: bool
    #: Distinct input sets per batch size.
    input_sets: int
    #: Wall time of one visit's block and of the warm-up.
    block_seconds: float
    warmup_seconds: float
    #: Below this share of the work on the compiled path, the arm counts as not engaged.
    minimum_engaged_share: float
    #: `forward`: one pass over the inputs; `generate`: `output_tokens` new tokens for each prompt.
    task: str = "forward"
    output_tokens: int = 1


@dataclasses.dataclass(frozen=True)
class Phase:
    """The worker entered a phase."""

    phase: str
    batch_size: int | None = None
    event: str = "phase"


@dataclasses.dataclass(frozen=True)
class Environment:
    """The interpreter of a worker, and what is installed for it.

    `python` is the minor version, such as `3.11`; `distributions` has versions by name, and
    `providers` the names of the distributions that provide each top-level package.
    `source_digest` identifies the source of the probes.
    """

    python: str
    interpreter: str
    distributions: dict[str, str]
    providers: dict[str, list[str]]
    source_digest: str


@dataclasses.dataclass(frozen=True)
class Imported:
    """The stack is imported; its versions and the settings that decide its speed."""

    versions: dict[str, str]
    settings: dict[str, str]
    seconds: float
    #: None for a worker that measures nothing, or where reading it failed.
    environment: Environment | None = None
    event: str = "imported"


@dataclasses.dataclass(frozen=True)
class Loaded:
    """The model is in memory."""

    seconds: float
    parameters: int | None
    parameter_bytes: int | None
    weights: str
    unit: str
    units_per_sample: int
    event: str = "loaded"


@dataclasses.dataclass(frozen=True)
class Built:
    """One batch size is built: seconds of the build and of the first call after it."""

    batch_size: int
    build_seconds: float
    first_call_seconds: float
    event: str = "built"


@dataclasses.dataclass(frozen=True)
class Agreement:
    """How generated tokens and their probabilities agree with the reference's; None for what the stack does not tell.

    Divergence is where a sequence first departs from the reference's own; its gap is by how much
    the reference preferred its token there. Distances and shares are of next-token probabilities
    when the reference's tokens are forced.
    """

    method: str
    sequences: int
    identical_sequences: int
    first_divergence: int | None
    divergence_gap: float | None
    allowed_gap: float
    positions: int
    kl_mean: float | None
    kl_p99: float | None
    kl_eager: float
    kl_allowed: float
    top1: float | None
    top1_eager: float
    top1_least: float
    top5: float | None


@dataclasses.dataclass(frozen=True)
class Correctness:
    """How far one batch size is from the reference; see `probes.checking.correctness`."""

    batch_size: int
    verdict: str
    reference: str
    rmse: float | None
    rmse_eager: float | None
    allowed: float | None
    max_abs: float | None
    compared_elements: int
    agreement: Agreement | None = None
    event: str = "checked"


@dataclasses.dataclass(frozen=True)
class Caches:
    """What lay in this arm's caches before its first build and after its last, and how often the builds found something they could use.

    None for hits where the stack does not count them.
    """

    bytes_before: int
    bytes_after: int
    hits: int | None
    event: str = "caches"


@dataclasses.dataclass(frozen=True)
class Engagement:
    """Which share of the work runs on the compiled path, and how that is known."""

    share: float
    proof: str
    facts: dict[str, Any]
    event: str = "engaged"


@dataclasses.dataclass(frozen=True)
class RecipeFacts:
    """What the script of this arm needs to know from its worker; the advisor composes the script.

    `allowances` has, by batch size, how far outputs may be from eager PyTorch's: for the task
    `forward` eager's error for each output, for `generate` a gap in nats. `integration` has the
    workflow's lines for text, and is empty for `forward`.
    """

    allowances: dict[int, Any]
    serving_command: str | None
    integration: str
    event: str = "recipe-facts"


@dataclasses.dataclass(frozen=True)
class WarmedUp:
    """One batch size is warmed up: typical seconds of a call, where the calls became steady (if they did), and the size of a visit."""

    batch_size: int
    typical_seconds: float
    warmup_calls: int
    calls_until_steady: int
    steady: bool
    calls_per_visit: int
    event: str = "warm"


@dataclasses.dataclass(frozen=True)
class Memory:
    """Peak bytes seen by the worker itself, each with its source."""

    peak_rss_bytes: int | None
    device_allocated_bytes: int | None
    device_reserved_bytes: int | None
    event: str = "memory"


@dataclasses.dataclass(frozen=True)
class Ready:
    """Everything asked so far is done; the worker waits for a token."""

    event: str = "ready"


@dataclasses.dataclass(frozen=True)
class Visit:
    """One block of timed calls, in order; the first `lead_calls` of the visit were made but not kept.

    `enqueue_seconds` is the median time until a call returned, before waiting for its end;
    `lead_seconds` are the times that do not count.
    """

    batch_size: int
    round: int
    seconds: list[float]
    enqueue_seconds: float
    lead_calls: int
    cpu_seconds: float
    lead_seconds: list[float]
    #: Seconds of a call when the next is made without waiting for its end; None where a call is
    #: over when it returns.
    streamed_seconds: float | None
    event: str = "visited"


@dataclasses.dataclass(frozen=True)
class Workload:
    """Floating-point operations of one call of the model; None where nobody can count them.

    For generation also the bytes that a call and one of its decode steps have to move at the least,
    and what the cache holds at the end.
    """

    batch_size: int
    flops: int | None
    moved_bytes: int | None = None
    step_bytes: int | None = None
    cache_bytes: int | None = None
    event: str = "workload"


@dataclasses.dataclass(frozen=True)
class Latency:
    """Seconds of calls for the first token only and of whole calls, in pairs."""

    batch_size: int
    output_tokens: int
    first_token_seconds: list[float]
    whole_seconds: list[float]
    event: str = "latency"


@dataclasses.dataclass(frozen=True)
class Peaks:
    """How fast the device can be: bytes moved and, by precision, operations of a matrix product in a second."""

    bytes_per_second: float
    operations_per_second: dict[str, float]
    event: str = "peaks"


@dataclasses.dataclass(frozen=True)
class Sustained:
    """Calls made back to back without a pause."""

    batch_size: int
    calls: int
    seconds: float
    event: str = "sustained"


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What a call consists of, by PyTorch's profiler; None for what only a GPU has."""

    batch_size: int
    operators_per_call: float
    kernels_per_call: float | None
    launches_per_call: float | None
    graph_launches_per_call: float | None
    host_copies_per_call: float | None
    device_busy_share: float | None
    event: str = "diagnosed"


@dataclasses.dataclass(frozen=True)
class NewShapeResult:
    """What came of a batch size that was not built: `served`, `stalled`, `eager` (no longer compiled), `wrong` or `refused`."""

    batch_size: int
    outcome: str
    first_call_seconds: float | None
    steady_seconds: float | None
    reason: str | None
    event: str = "flexed"


@dataclasses.dataclass(frozen=True)
class Completed:
    """The worker did all it was asked and its last output was still right."""

    status: str = "completed"


@dataclasses.dataclass(frozen=True)
class Failed:
    """Why there is no (valid) measurement; `status` says what kind of end it was.

    `unsupported`, `build-failed`, `incorrect`, `out-of-memory`, `not-engaged`; `model-refused` when
    the model itself cannot be opened.
    """

    status: str
    phase: str
    reason: str
    fix: str | None = None


def read_request(directory: pathlib.Path) -> Request:
    """Return the request in `directory`; raise `VersionMismatchError` when it speaks another version."""
    fields = json.loads((directory / REQUEST).read_text(encoding="utf-8"))
    if fields.get("version") != VERSION:
        message = f"this worker speaks protocol version {VERSION}, the request version {fields.get('version')}"
        raise VersionMismatchError(message)
    return Request(**fields)
