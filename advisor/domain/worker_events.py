"""Events of a worker, decoded from those of `probes.events`.

All are in one module, because together they are the format of a worker's file.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from advisor.domain.bounds import Amount, Count, Duration, Rate, Size
from advisor.domain.check_events import Checked, TextScores, UserMetric
from advisor.domain.recipe_facts import RecipeFacts

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
    """A phase began; builds, checks and warm-ups have a batch size."""

    phase: Phase
    batch_size: Size | None
    #: A length that was not built and is tried; else null.
    input_tokens: Size | None = None


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter of a worker, and what is installed for it."""

    #: Its minor version, such as `3.11`.
    python: str
    interpreter: str
    #: Versions by distribution.
    distributions: dict[str, str]
    #: The distributions that provide each importable top-level package.
    providers: dict[str, tuple[str, ...]]
    #: Identifies the source of the probes that the worker ran.
    source_digest: str


class Imported(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="imported"):
    """The stack is imported; its versions and the settings that affect its speed."""

    versions: dict[str, str]
    settings: dict[str, str]
    seconds: Amount
    #: Null for a worker that measures nothing, and in runs of earlier versions.
    environment: Environment | None = None


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="loaded"):
    """The model is in memory.

    `units_per_sample` is the number of units of throughput in one sample.
    """

    seconds: Amount
    parameters: Count | None
    parameter_bytes: Count | None
    weights: str
    unit: Literal["samples", "tokens"]
    units_per_sample: Size


class Built(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="built"):
    """A batch size is built.

    The first call is timed apart, because some stacks finish their build in it.
    """

    batch_size: Size
    build_seconds: Amount
    first_call_seconds: Amount


class Caches(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="caches"):
    """Size of the arm's caches before its first build and after its last build."""

    bytes_before: Count
    bytes_after: Count
    #: Cache hits; null where the stack does not count them.
    hits: Count | None


class Engagement(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="engaged"):
    """Share of the work on the compiled path, and its proof."""

    share: Amount
    proof: str
    facts: dict[str, Any]
    #: Bytes of all weights as the program stores them; null where they are those of the model.
    weight_bytes: Count | None = None


class WarmedUp(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="warm"):
    """A batch size is warmed up; each of its visits has `calls_per_visit` timed calls."""

    batch_size: Size
    typical_seconds: Duration
    warmup_calls: Count
    calls_until_steady: Count = 0
    #: False if the warm-up ended before the times were steady.
    steady: bool = True
    calls_per_visit: Count


class MemoryRead(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="memory"):
    """Peaks of memory as the worker reads them."""

    peak_rss_bytes: Count | None
    device_allocated_bytes: Count | None
    device_reserved_bytes: Count | None
    #: What PyTorch's allocator has reserved when the peaks are read.
    device_held_bytes: Count | None = None


class Serving(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="serving"):
    """The arm's server answers; what the load generator needs to send requests to it."""

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
    #: Environment variables of the server, in addition to the worker's; earlier versions did not
    #: report them.
    variables: dict[str, str] = {}


class ClosedLoop(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="closed-loop"):
    """Requests to the server, always as many at once, until the last one was answered."""

    concurrency: Size
    requests: Count
    failed: Count
    seconds: Duration
    #: Why the first request that failed did so.
    problem: str | None = None

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


class TextsSampled(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="sampled"):
    """Texts that were checked while requests of others arrived, and requests without an answer."""

    checked: Count
    unanswered: Count


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="ready"):
    """All requested work is done; the worker waits for the next request."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="prepared"):
    """Every batch size is built and correct; the worker waits before it warms up."""


class BlockTimed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="visited"):
    """One block of timed calls."""

    batch_size: Size
    round: Count
    seconds: Annotated[tuple[Duration, ...], msgspec.Meta(min_length=1)]
    #: Median seconds until a call returns, without the synchronisation after it.
    enqueue_seconds: Amount | None = None
    warmup_calls: Count = msgspec.field(name="lead_calls")
    cpu_seconds: Amount
    #: Seconds of the warm-up calls before the timed calls.
    warmup_seconds: tuple[Amount, ...] = msgspec.field(name="lead_seconds", default=())
    #: Mean seconds per call of a block that is synchronised once, at its end; null where a call
    #: is complete when it returns.
    streamed_seconds: Duration | None = None
    #: Seconds of a fixed piece of host work before the block; null in runs of earlier versions.
    host_seconds: Amount | None = None
    #: Seconds of calls for the first token after the block; empty for tasks other than generated
    #: text, where prompts run one after the other, and in runs of earlier versions.
    first_token_seconds: tuple[Duration, ...] = ()
    #: Readings of the worker's clock before the first call and after the last one, in seconds from
    #: an arbitrary origin; null in runs of earlier versions.
    began: float | None = None
    ended: float | None = None


class Workload(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="workload"):
    """Work of one call; null for what cannot be counted."""

    batch_size: Size
    #: Floating-point operations.
    flops: Count | None
    #: For text generation: least bytes that a call and a decode step move, and final cache size.
    moved_bytes: Count | None = None
    step_bytes: Count | None = None
    cache_bytes: Count | None = None
    #: Inputs with the values of the example in every call; the model takes no random ones.
    fixed_inputs: Count = 0
    #: Whether `input_tokens` is the size of a dimension; null where the kind of the model decides.
    has_length: bool | None = None
    #: Whether the inputs have a batch dimension; without one every call has the shapes that the
    #: examples or the file give, and `batch_size` is 1. Null for generated text and in runs of
    #: earlier versions.
    has_batch: bool | None = None


class Latency(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="latency"):
    """Seconds of calls for the first token and of whole calls, in pairs, apart from the race.

    Workers of earlier versions sent it.
    """

    batch_size: Size
    output_tokens: Size
    first_token_seconds: Annotated[tuple[Duration, ...], msgspec.Meta(min_length=1)]
    whole_seconds: Annotated[tuple[Duration, ...], msgspec.Meta(min_length=1)]


class Peaks(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="peaks"):
    """Measured peaks of the device: memory bandwidth and, by precision, matrix products."""

    bytes_per_second: Rate
    operations_per_second: dict[str, float]


class Sustained(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="sustained"):
    """Calls made without a pause."""

    batch_size: Size
    calls: Size
    seconds: Duration


class Diagnosed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="diagnosed"):
    """Counts of one call by PyTorch's profiler; the GPU's are null on a CPU."""

    batch_size: Size
    operators_per_call: Amount
    kernels_per_call: Amount | None
    launches_per_call: Amount | None
    graph_launches_per_call: Amount | None
    host_copies_per_call: Amount | None
    device_busy_share: Amount | None


class NewShapeResult(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="flexed"):
    """Result at a batch size or a length that was not built."""

    batch_size: Size
    #: `skipped`: there was no time to try it.
    outcome: Literal["served", "stalled", "eager", "wrong", "refused", "skipped"]
    first_call_seconds: Amount | None
    steady_seconds: Duration | None
    reason: str | None
    #: The length that was not built; null where the batch size is what was not built.
    input_tokens: Size | None = None


WorkerEvent = (
    PhaseStarted
    | Imported
    | Loaded
    | Built
    | Checked
    | Caches
    | Engagement
    | TextScores
    | UserMetric
    | RecipeFacts
    | Serving
    | ClosedLoop
    | TextsSampled
    | WarmedUp
    | MemoryRead
    | Prepared
    | Ready
    | BlockTimed
    | Workload
    | Latency
    | Peaks
    | Sustained
    | Diagnosed
    | NewShapeResult
)
