"""What a worker says while it works.

The counterparts of the events in `probes.protocol`, checked as they are read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Phase = Literal[
    "queued",
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
]


class PhaseStarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="phase"):
    """A phase began; builds, checks and warm-ups name their batch size."""

    phase: Phase
    batch_size: int | None


class Imported(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="imported"):
    """The stack is imported: its versions and the settings that decide its speed."""

    versions: dict[str, str]
    settings: dict[str, str]
    seconds: float


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="loaded"):
    """The model is in memory; one sample of it holds `units_per_sample` units of throughput."""

    seconds: float
    parameters: int | None
    parameter_bytes: int | None
    weights: str
    unit: Literal["samples", "tokens"]
    units_per_sample: int


class Built(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="built"):
    """A batch size is built; the first call is timed apart because some stacks finish only then."""

    batch_size: int
    build_seconds: float
    first_call_seconds: float


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How generated tokens and their probabilities agree with the reference's; null for what the stack does not tell."""

    #: How probabilities were had: `teacher-forced`, `teacher-forced, 20 likeliest`, `tokens only`,
    #: ...
    method: str
    sequences: int
    identical_sequences: int
    #: Earliest place at which a sequence departs from the reference's own; null when none does.
    first_divergence: int | None
    #: By how much at most, in nats, the reference preferred its own token where a sequence departs.
    divergence_gap: float | None
    allowed_gap: float
    positions: int
    #: Kullback-Leibler divergence from the reference in nats; beside it eager PyTorch's in the
    #: tested precision, and what is allowed.
    kl_mean: float | None
    kl_p99: float | None
    kl_eager: float
    kl_allowed: float
    #: Share of positions with the same likeliest token, and of the five likeliest that are the
    #: same.
    top1: float | None
    top1_eager: float
    top1_least: float
    top5: float | None


class Checked(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="checked"):
    """A batch size was compared with the reference."""

    batch_size: int
    verdict: Literal["equivalent", "near", "wrong"]
    reference: str
    rmse: float | None
    rmse_eager: float | None
    allowed: float | None
    max_abs: float | None
    compared_elements: int
    agreement: Agreement | None = None


class Caches(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="caches"):
    """Bytes in the arm's caches before its first build and after its last, and the hits that the stack counted."""

    bytes_before: int
    bytes_after: int
    #: Null where the stack counts none.
    hits: int | None


class Engaged(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="engaged"):
    """Which share of the work the compiled path took, and how that is known."""

    share: float
    proof: str
    facts: dict[str, Any]


class Recipe(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="recipe"):
    """The script that does what is measured, without its head; its requirements are pinned to what is installed."""

    imports: tuple[str, ...]
    source: str
    requirements: tuple[str, ...]
    python: str
    #: The program that has them.
    interpreter: str
    #: For an engine, the command that serves the model.
    serving_command: str | None
    #: Of the environment, as they were when the stack was imported; none in runs that are older
    #: than this.
    variables: dict[str, str] = {}


class WarmedUp(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="warm"):
    """A batch size is warmed up; its visits have this size."""

    batch_size: int
    typical_seconds: float
    warmup_calls: int
    calls_until_steady: int = 0
    #: False when the times had not settled when the warm-up had to end.
    steady: bool = True
    calls_per_visit: int


class MemoryRead(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="memory"):
    """Peaks as the worker itself sees them."""

    peak_rss_bytes: int | None
    device_allocated_bytes: int | None
    device_reserved_bytes: int | None


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="ready"):
    """Everything asked so far is done; the worker waits for a token."""


class BlockTimed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="visited"):
    """One block of timed calls."""

    batch_size: int
    round: int
    seconds: Annotated[tuple[Annotated[float, msgspec.Meta(gt=0)], ...], msgspec.Meta(min_length=1)]
    #: Median until a call returned, before the wait for its end.
    enqueue_seconds: float | None = None
    lead_calls: int
    cpu_seconds: float
    #: Times of the calls before the kept ones.
    lead_seconds: tuple[float, ...] = ()
    #: Seconds of a call when the next is made without waiting for its end; null where a call is
    #: over when it returns.
    streamed_seconds: float | None = None


class Workload(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="workload"):
    """Floating-point operations of one call; None where nobody can count them."""

    batch_size: int
    flops: int | None
    #: Of generation: bytes that a call, and one decode step, move at the least; and what the cache
    #: holds at the end.
    moved_bytes: int | None = None
    step_bytes: int | None = None
    cache_bytes: int | None = None


class Latency(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="latency"):
    """Seconds of calls for the first token only and of whole calls, in pairs."""

    batch_size: int
    output_tokens: Annotated[int, msgspec.Meta(ge=1)]
    first_token_seconds: Annotated[tuple[float, ...], msgspec.Meta(min_length=1)]
    whole_seconds: Annotated[tuple[float, ...], msgspec.Meta(min_length=1)]


class Peaks(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="peaks"):
    """How fast the device can be: bytes moved and, by precision, operations of a matrix product in a second."""

    bytes_per_second: float
    operations_per_second: dict[str, float]


class Sustained(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="sustained"):
    """Calls made back to back without a pause."""

    batch_size: int
    calls: Annotated[int, msgspec.Meta(gt=0)]
    seconds: Annotated[float, msgspec.Meta(gt=0)]


class Diagnosed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="diagnosed"):
    """What a call consists of, by PyTorch's profiler; null for what only a GPU has."""

    batch_size: int
    operators_per_call: float
    kernels_per_call: float | None
    launches_per_call: float | None
    graph_launches_per_call: float | None
    host_copies_per_call: float | None
    device_busy_share: float | None


class NewShapeResult(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="flexed"):
    """What came of a batch size that was not built."""

    batch_size: int
    outcome: Literal["served", "stalled", "eager", "wrong", "refused"]
    first_call_seconds: float | None
    steady_seconds: float | None
    reason: str | None


WorkerEvent = (
    PhaseStarted
    | Imported
    | Loaded
    | Built
    | Checked
    | Caches
    | Engaged
    | Recipe
    | WarmedUp
    | MemoryRead
    | Ready
    | BlockTimed
    | Workload
    | Latency
    | Peaks
    | Sustained
    | Diagnosed
    | NewShapeResult
)
