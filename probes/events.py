"""Events that a worker appends to `events.jsonl`; see `probes.protocol`.

The advisor decodes every subclass of `Event`, and keeps it in the field of `ProcessState` that has
its type; without one, `_process_changes` of `advisor/domain/event_folding.py` has to name it.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal

from probes.facts import InputSpec, InterpreterFacts, SizeLimit, StartLines
from probes.outcome import Phase
from probes.shape import Amount, Count, Duration, Rate, Shape, Size

#: Unit of throughput.
Unit = Literal["samples", "tokens"]
#: A call stalls when it takes this many times the typical seconds and at least this long, so that a
#: user notices it: the stack compiled or captured something in it.
STALL_RATIO, STALL_SECONDS = 10.0, 0.25
#: `eager`: no longer compiled; `skipped`: there was no time to try it.
NewShapeHandling = Literal["served", "stalled", "eager", "wrong", "refused", "skipped"]


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Event:
    """The base class of all events, which are dataclasses.

    It gives each a last field `event`, the tag in the file: the name of the class in snake case.
    """

    event: str

    def __init_subclass__(cls) -> None:
        cls.event = snake_case(cls.__name__)
        cls.__annotations__["event"] = Literal[cls.event]


@dataclasses.dataclass(frozen=True)
class PhaseStarted(Event):
    """The worker has started a phase."""

    phase: Phase
    shape: Shape | None = None


@dataclasses.dataclass(frozen=True)
class Imported(Event):
    """The stack is imported, with these versions and the settings that determine its speed."""

    versions: dict[str, str]
    settings: dict[str, str]
    #: The worker's environment; None if it measures nothing, or if reading it failed.
    environment: InterpreterFacts | None = None


@dataclasses.dataclass(frozen=True)
class Created(Event):
    """What needs nothing of the reference worker is done; the model's weights follow."""


@dataclasses.dataclass(frozen=True)
class Opened(Event):
    """The model is in memory."""

    #: Number of parameters and their bytes; None where the format does not state them.
    parameters: Count | None
    parameter_bytes: Count | None
    unit: Unit
    #: How many units one sample holds.
    units_per_sample: Size
    #: Settings of the process that the model changed, a compiler around it, and weights that its
    #: files lack, with what was done.
    adjusted: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Number of layers that convolve images.
    convolutions: Count = 0


@dataclasses.dataclass(frozen=True)
class Built(Event):
    """The program for one shape is built.

    The first call is timed apart, because some stacks finish their build in it.
    """

    shape: Shape
    build_seconds: Amount
    first_call_seconds: Amount
    #: What both leave in the memory of the GPU, such as captured graphs; None where PyTorch uses
    #: none.
    kept_bytes: int | None = None

    @property
    def seconds(self) -> float:
        return self.build_seconds + self.first_call_seconds


@dataclasses.dataclass(frozen=True)
class Caches(Event):
    """The bytes of this arm's caches before its first build and after its last."""

    bytes_before: Count
    bytes_after: Count


@dataclasses.dataclass(frozen=True)
class Engagement(Event):
    """The share of the work that runs on the compiled path, and its proof."""

    share: Amount
    proof: str
    #: Breaks of the graph and, of quantised arms, stored weights by type.
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    #: Bytes of all weights as the program stores them, where it does not store those of the model.
    weight_bytes: Count | None = None
    #: What the program takes of its free dimensions, which it may not check itself.
    size_limits: tuple[SizeLimit, ...] = ()


@dataclasses.dataclass(frozen=True)
class SnippetFacts(Event):
    """What the snippet of this arm needs from its worker; `advisor.recipes` composes it."""

    #: How far outputs may be from those of eager PyTorch, by the text of a shape: for the task
    #: `forward` eager's error for each output, None for one that is not compared; for `generate` a
    #: gap in nats.
    allowances: dict[str, tuple[float | None, ...] | float | None]
    #: The command that serves the model with an engine; None for other workflows.
    serving_command: str | None
    #: The lines of the workflow's `integration`.
    integration: str
    #: The inputs of a PyTorch module; None for other models.
    inputs: tuple[InputSpec, ...] | None = None
    #: Whether the outputs for a row depend on the other rows of the batch, or have no rows; None if
    #: that is not known.
    coupled_rows: bool | None = None
    #: Whether parameters or buffers are complex, which keep their type in another precision.
    complex_weights: bool = False
    #: Whether the module refuses `eval`, as that of an exported program does.
    fixed_mode: bool = False
    #: The lines of each way to start faster, which is a table of `rubric/starts.toml`.
    starts: dict[str, StartLines] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Serving(Event):
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
    vocabulary: Count
    word: str
    separator: str
    #: Environment variables of the server, in addition to the worker's.
    variables: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ClosedLoop(Event):
    """Requests to the server, always `concurrency` at once; each is followed by another.

    `requests` were answered, the last one after `seconds`.
    """

    concurrency: Size
    requests: Count
    seconds: Duration
    #: Why the first request that failed did so.
    problem: str | None = None

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


@dataclasses.dataclass(frozen=True)
class TextsSampled(Event):
    """Texts that were checked while other requests arrived."""

    checked: Count


@dataclasses.dataclass(frozen=True)
class WarmedUp(Event):
    """The program for one shape is warmed up."""

    shape: Shape
    typical_seconds: Duration
    #: Whether the durations became steady.
    steady: bool


@dataclasses.dataclass(frozen=True)
class FirstReply(Event):
    """A snippet has returned its first output, `seconds` after its process was asked for."""

    seconds: Amount
    #: How often the graph of `torch.compile` broke, by place and reason.
    graph_breaks: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Compared(Event):
    """What is wrong with the outputs of the call of another snippet; None for nothing."""

    call: str
    problem: str | None
    #: The largest error of an output, relative to its size; None for text.
    error: Amount | None = None


@dataclasses.dataclass(frozen=True)
class MemoryRead(Event):
    """Peak bytes as the worker sees them; None for what it cannot read.

    `device_held_bytes` is what PyTorch's allocator has reserved now; the others are peaks.
    """

    peak_rss_bytes: Count | None
    device_reserved_bytes: Count | None = None
    device_held_bytes: Count | None = None


@dataclasses.dataclass(frozen=True)
class Prepared(Event):
    """Every shape is built and correct; the worker waits before it warms up."""


@dataclasses.dataclass(frozen=True)
class Ready(Event):
    """All commands so far are answered; the worker waits for another."""


@dataclasses.dataclass(frozen=True)
class Visited(Event):
    """The timed calls of one visit, in order, without those that a slow host disturbed."""

    shape: Shape
    round: Count
    seconds: tuple[Duration, ...]
    #: Seconds of the warm-up calls before the timed ones, which do not count.
    warmup_seconds: tuple[Amount, ...]
    #: Seconds of a call in a row of calls without waiting in between; None where a call has ended
    #: when it returns.
    streamed_seconds: Duration | None
    #: How many times as long these calls typically took because their processor was slow, by a
    #: fixed piece of host work next to them and its fastest time in the worker; None without a GPU.
    host_slowdown: Amount | None = None
    #: Seconds of the calls for the first token that follow; empty for tasks other than generated
    #: text and where prompts run one after the other.
    first_token_seconds: tuple[Duration, ...] = ()

    def __post_init__(self) -> None:
        if not self.seconds:
            raise ValueError("a visit has no timed call")


@dataclasses.dataclass(frozen=True)
class Workload(Event):
    """The work of one call; None for what cannot be counted.

    For generated text `moved_bytes` and `step_bytes` are lower bounds of the bytes that a call and
    one of its decode steps move, and `cache_bytes` is the size of the cache at the end.
    """

    shape: Shape
    #: Floating-point operations.
    flops: Count | None
    moved_bytes: Count | None = None
    step_bytes: Count | None = None
    cache_bytes: Count | None = None
    #: Number of inputs with the values of the example in every call, because the model takes no
    #: random ones.
    fixed_inputs: Count = 0
    #: Whether `input_tokens` is the size of a dimension; None where the kind of the model decides.
    has_length: bool | None = None
    #: Whether the inputs have a batch dimension; without one every call has the shapes that the
    #: examples or the file give, and the batch size is 1. None for generated text.
    has_batch: bool | None = None


@dataclasses.dataclass(frozen=True)
class Peaks(Event):
    """Peak rates of the device: bytes moved and, by precision, operations of a matrix product."""

    bytes_per_second: Rate
    operations_per_second: dict[str, Rate]


@dataclasses.dataclass(frozen=True)
class Sustained(Event):
    """Calls without a pause between them."""

    shape: Shape
    calls: Size
    seconds: Duration


@dataclasses.dataclass(frozen=True)
class Diagnosed(Event):
    """The profile of a call by PyTorch's profiler; None for values that only a GPU has."""

    shape: Shape
    kernels_per_call: Amount | None
    launches_per_call: Amount | None
    graph_launches_per_call: Amount | None
    device_busy_share: Amount | None


@dataclasses.dataclass(frozen=True)
class NewShapeResult(Event):
    """The result of a batch size or a length that was not built."""

    #: Its lengths are None where the batch size is what was not built.
    shape: Shape
    handling: NewShapeHandling
    first_call_seconds: Amount | None = None
    steady_seconds: Duration | None = None
    reason: str | None = None
