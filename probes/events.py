"""Events that a worker appends to `events.jsonl`; see `probes.protocol`.

`event` is the tag of an event in the file. All events are in one module, because together they are
its format.
"""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class PhaseStarted:
    """The worker has started a phase."""

    phase: str
    batch_size: int | None = None
    #: A length that was not built and is tried; else None.
    input_tokens: int | None = None
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
    """The stack is imported, with these versions and the settings that determine its speed."""

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
    """One batch size is built."""

    batch_size: int
    build_seconds: float
    first_call_seconds: float
    event: str = "built"


@dataclasses.dataclass(frozen=True)
class Caches:
    """The bytes of this arm's caches before its first build and after its last, and their hits."""

    bytes_before: int
    bytes_after: int
    #: None where the stack does not count them.
    hits: int | None
    event: str = "caches"


@dataclasses.dataclass(frozen=True)
class Engagement:
    """The share of the work that runs on the compiled path, and its proof."""

    share: float
    proof: str
    facts: dict[str, Any]
    #: Bytes of all weights as the program stores them, where it does not store those of the model.
    weight_bytes: int | None = None
    event: str = "engaged"


@dataclasses.dataclass(frozen=True)
class RecipeFacts:
    """What the recipe of this arm needs from its worker."""

    #: By batch size, how far outputs may be from those of eager PyTorch: for the task `forward`
    #: eager's error for each output, for `generate` a gap in nats.
    allowances: dict[int, Any]
    #: The command with which an engine serves the model; None for other workflows.
    serving_command: str | None
    #: The lines of the workflow's `integration`.
    integration: str
    #: The `InputFacts` of the inputs of a PyTorch module; None for other models.
    inputs: list[Any] | None = None
    #: Whether the outputs for a row depend on the other rows of the batch, or have no rows; None if
    #: that is not known.
    coupled_rows: bool | None = None
    event: str = "recipe-facts"


@dataclasses.dataclass(frozen=True)
class Serving:
    """The workflow's server answers; what a load generator needs to send requests to it."""

    url: str
    model: str
    command: str
    settings: dict[str, str]
    #: Further fields of each request.
    fields: dict[str, Any]
    #: Directory with the tokenizer, and the number of its tokens. A prompt has a word for each
    #: token, in this format, with this text between two words.
    tokenizer: str
    vocabulary: int
    word: str
    separator: str
    #: Environment variables of the server, in addition to the worker's.
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    event: str = "serving"


@dataclasses.dataclass(frozen=True)
class ClosedLoop:
    """Requests to the server, always `concurrency` at once; each is followed by another.

    `requests` were answered, the last one after `seconds`. `problem` is the reason of the first
    request that failed.
    """

    concurrency: int
    requests: int
    failed: int
    seconds: float
    problem: str | None = None
    event: str = "closed-loop"


@dataclasses.dataclass(frozen=True)
class TextsSampled:
    """Texts that were checked while requests of others arrived; `unanswered` ones failed."""

    checked: int
    unanswered: int
    event: str = "sampled"


@dataclasses.dataclass(frozen=True)
class WarmedUp:
    """One batch size is warmed up; `calls_per_visit` is the size of its blocks."""

    batch_size: int
    typical_seconds: float
    warmup_calls: int
    #: Where the durations became steady, and whether they did.
    calls_until_steady: int
    steady: bool
    calls_per_visit: int
    event: str = "warm"


@dataclasses.dataclass(frozen=True)
class MemoryRead:
    """Peak bytes as the worker sees them; None for what it cannot read.

    `device_held_bytes` is what PyTorch's allocator has reserved now; the others are peaks.
    """

    peak_rss_bytes: int | None
    device_allocated_bytes: int | None = None
    device_reserved_bytes: int | None = None
    device_held_bytes: int | None = None
    event: str = "memory"


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Every batch size is built and correct; the worker waits before it warms up."""

    event: str = "prepared"


@dataclasses.dataclass(frozen=True)
class Ready:
    """All tokens so far are answered; the worker waits for another."""

    event: str = "ready"


@dataclasses.dataclass(frozen=True)
class BlockTimed:
    """One block of timed calls, in order.

    `enqueue_seconds` is the median time until a call returned, before the wait for its end.
    `lead_calls` warm-up calls, with durations `lead_seconds`, come before them and do not count.
    """

    batch_size: int
    round: int
    seconds: list[float]
    enqueue_seconds: float
    lead_calls: int
    cpu_seconds: float
    lead_seconds: list[float]
    #: Seconds of a call in a row of calls without waiting in between; None where a call has ended
    #: when it returns.
    streamed_seconds: float | None
    #: Readings of the clock before the first call and after the last one, in seconds.
    began: float
    ended: float
    #: Seconds of a fixed piece of host work before the block.
    host_seconds: float | None = None
    #: Of calls for the first token after the block; empty for tasks other than generated text and
    #: where prompts run one after the other.
    first_token_seconds: list[float] = dataclasses.field(default_factory=list)
    event: str = "visited"


@dataclasses.dataclass(frozen=True)
class Workload:
    """The work of one call; None for what cannot be counted.

    For generated text `moved_bytes` and `step_bytes` are lower bounds of the bytes that a call and
    one of its decode steps move, and `cache_bytes` is the size of the cache at the end.
    """

    batch_size: int
    flops: int | None
    moved_bytes: int | None = None
    step_bytes: int | None = None
    cache_bytes: int | None = None
    #: Number of inputs with the values of the example in every call, because the model takes no
    #: random ones.
    fixed_inputs: int = 0
    #: Whether `input_tokens` is the size of a dimension; None where the kind of the model decides.
    has_length: bool | None = None
    #: Whether the inputs have a batch dimension; without one every call has the shapes that the
    #: examples or the file give, and `batch_size` is 1. None for generated text.
    has_batch: bool | None = None
    event: str = "workload"


@dataclasses.dataclass(frozen=True)
class Peaks:
    """Peak rates of the device: bytes moved and, by precision, operations of a matrix product."""

    bytes_per_second: float
    operations_per_second: dict[str, float]
    event: str = "peaks"


@dataclasses.dataclass(frozen=True)
class Sustained:
    """Calls without a pause between them."""

    batch_size: int
    calls: int
    seconds: float
    event: str = "sustained"


@dataclasses.dataclass(frozen=True)
class Diagnosed:
    """The profile of a call by PyTorch's profiler; None for values that only a GPU has."""

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
    """The result of a batch size or a length that was not built."""

    batch_size: int
    #: `served`, `stalled`, `eager` (no longer compiled), `wrong`, `refused`, or `skipped` for want
    #: of time.
    outcome: str
    first_call_seconds: float | None = None
    steady_seconds: float | None = None
    reason: str | None = None
    #: The length that was not built; None where the batch size is what was not built.
    input_tokens: int | None = None
    event: str = "flexed"
