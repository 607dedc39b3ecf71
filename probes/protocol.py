"""The protocol between the advisor and a worker.

The advisor starts a worker as `python worker.py DIRECTORY` in a session of its own. The worker
reads `request.json` (one `Request`) in DIRECTORY. It appends events to `events.jsonl`, one JSON
object a line, each flushed. At the end it writes `response.json` (one outcome), atomically. All
output of the stack goes to `log`.

Standard input carries one-line tokens:
    build                       use the device and build (sent when it is this worker's turn), then
                                warm up
    build hold                  the same, but report `prepared` after the builds and their checks
    warm                        warm up, after `build hold`
    visit BATCH_SIZE ROUND      time one block of calls
    sustain BATCH_SIZE SECONDS  call without a pause for that long
    diagnose                    profile a few calls of each batch size
    probe CONCURRENCY SECONDS   ask the server (role `serve`), always this many requests at once
    sample SECONDS              ask the server for a text that is checked every so many seconds
    enough                      end that
    flex                        check the outputs, then try batch sizes and a length that were not
                                built; this is the last token, because it may break the programs
    flex short                  the same with one batch size
    allocate BYTES              hold this much device memory outside every allocator, or none (the
                                reference worker only)
    peaks                       measure how fast the device can be (the reference worker only)
    stop                        check the outputs again, respond, end
After `build`, `warm`, `sustain`, `diagnose`, `probe`, `enough` and `allocate` the worker reports
`ready`. End of file means that the advisor is gone; the watchdog then kills the worker and
everything it started.
Standard output carries one byte after each event, so that the advisor can sleep until there is one.

The protocol is one file with one version, and therefore longer than other modules: the two
interpreters may share nothing else.
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
#: File in the scratch directory: the server of a workflow that has none of its own.
SERVER_SCRIPT = "server.py"
#: Folder in the scratch directory: temporary files of the stack and of what it starts.
TEMPORARY_FOLDER = "tmp"

#: Tasks: one pass over the inputs, or new tokens for prompts.
FORWARD = "forward"
GENERATE = "generate"

#: Precisions that the catalogue describes, and what stands for the model's own.
PRECISIONS = ("float32", "float16", "bfloat16")
NATIVE = "native"

#: Argument of the token `flex`.
SHORT = "short"

#: Environment variable with the control directory. All descendants of a worker inherit it, and the
#: watchdog and the supervisor find them by it.
MARK_VARIABLE = "P3_ADVISOR_WORKER"

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
    """The request has another version of this protocol."""


@dataclasses.dataclass(frozen=True)
class Request:
    """Everything that a worker is asked."""

    version: int
    arm: str
    #: File of the workflow's module. It is loaded by path, so that the advisor's packages stay off
    #: the stack's import path.
    workflow_file: str
    options: dict[str, Any]
    #: Tagged by `kind`. Each kind has one module of `probes.subjects` that opens it.
    subject: dict[str, Any]
    #: One of `PRECISIONS`, or `NATIVE` for the model's own.
    dtype: str
    #: `cpu` or `cuda`. The worker's environment variables select the GPU.
    device: str
    batch_sizes: list[int]
    input_tokens: int
    seed: int
    threads: int
    #: `build`: build for a device that is not attached, keep the artefact, and end. `reference`:
    #: write weights, inputs and reference outputs to `shared_directory`. `measure`: build, check
    #: and time. `serve`: start the workflow's server and do the same over HTTP. The roles need
    #: different processes, because the allocations of the reference would
    #: change the speed of what is measured.
    role: str
    shared_directory: str
    #: For compiler caches and artefacts; empty at the first build.
    scratch_directory: str
    trust_remote_code: bool
    allow_pickle: bool
    #: Number of different input sets for each batch size.
    input_sets: int
    #: Duration of one block of calls, and the minimum of the warm-up.
    block_seconds: float
    warmup_seconds: float
    #: The arm is not engaged if a smaller share of the work runs on the compiled path.
    minimum_engaged_share: float
    #: How outputs are judged: `rubric/accuracy.toml` with the user's tolerance.
    accuracy: dict[str, Any]
    #: `forward`: one pass over the inputs. `generate`: `output_tokens` new tokens for each prompt.
    task: str = "forward"
    output_tokens: int = 1
    #: Whether the worker confines itself before it imports its stack.
    sandbox: bool = False
    #: Whether shapes that were not built may be tried. The reference worker then also makes a
    #: reference for another length, if the model has one.
    new_shapes: bool = False
    #: For the role `serve`: `lengths` of the requests, pairs of input and output tokens;
    #: `most_tokens` of one request; `input_tokens`, `output_tokens` and `batch_sizes` that a
    #: composed server is built for; and the seconds after which a server that starts
    #: (`start_seconds`), or a request (`request_seconds`), has failed. Else empty.
    load: dict[str, Any] = dataclasses.field(default_factory=dict)
    #: Of the long text: `tokens`, time limit `seconds`, and a file `data` or ""; empty for none.
    long_text: dict[str, Any] = dataclasses.field(default_factory=dict)
    #: The user's metric as `file.py:function`, or "".
    metric: str = ""
    #: Interpreter that writes the quantised checkpoint of the arm, or "".
    quantiser: str = ""
    #: Number of devices over which a server splits the model.
    devices_per_model: int = 1
    #: The `PRECISIONS` that the arm supports; empty if that is not known.
    supported_dtypes: list[str] = dataclasses.field(default_factory=list)


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
class Agreement:
    """Agreement of generated text with the reference's; None for what the stack does not report.

    A divergence is the earliest position at which a sequence differs; its gap is by how much the
    reference preferred its own token there, in nats. `kl_*` and `top*` are those of the next-token
    probabilities in a run that is forced to generate the reference's tokens.
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
class Accuracy:
    """How accurate the outputs of one batch size are: the worst over input sets and outputs.

    Errors are root mean squares of the difference from the reference, over the reference's. None
    for what does not apply: relative errors of zeros, classes of an output without them.
    """

    #: What keeps the outputs from being exact: `error`, `row-error`, `typical-error`,
    #: `integers`, `probabilities` or `divergence` (text), or a structural fault: `shape`,
    #: `not-finite`, `same-output`, `identity`; what prevents a check: `constant-output`,
    #: `random-model`; else empty.
    fault: str
    #: Of integers: the share that differs.
    relative_error: float | None = None
    relative_error_eager: float | None = None
    #: The arm's error over that of eager PyTorch in the same precision.
    ratio_to_eager: float | None = None
    cosine: float | None = None
    #: Largest error of an element, and of a row, over the RMS of the reference.
    worst_element: float | None = None
    worst_row: float | None = None
    #: Share of rows, or of positions of a text, with the same likeliest class.
    top1: float | None = None
    top1_eager: float | None = None
    #: Relative error that rounding alone caused in `perturbations` of inputs and weights.
    envelope: float | None = None
    perturbations: int = 0
    #: Text: divergence from the reference in nats a token, and share of equal tokens.
    kl_mean: float | None = None
    equal_tokens: float | None = None
    #: How often one input was called again, and all results were the same within rounding.
    repeats: int = 0


@dataclasses.dataclass(frozen=True)
class Checked:
    """The comparison of one batch size with the reference; see `probes.checking`.

    The verdict is `equivalent` (exact), `near` (close), `wrong` (incorrect), or `unchecked` where
    the outputs are constant or random.
    """

    batch_size: int
    verdict: str
    reference: str
    rmse: float | None
    rmse_eager: float | None
    allowed: float | None
    max_abs: float | None
    compared_elements: int
    agreement: Agreement | None = None
    accuracy: Accuracy | None = None
    event: str = "checked"


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
class TextScores:
    """Losses along a long text, by sequence; see `RowScores` in `probes.checking.long_text`."""

    source: str
    positions: int
    is_incomplete: bool
    divergence: list[float]
    same_top: list[float]
    loss: list[float]
    divergence_eager: list[float]
    same_top_eager: list[float]
    loss_eager: list[float]
    event: str = "text-scores"


@dataclasses.dataclass(frozen=True)
class UserMetric:
    """What the user's metric returned, or the problem; larger is better."""

    value: float | None
    problem: str = ""
    event: str = "user-metric"


@dataclasses.dataclass(frozen=True)
class RecipeFacts:
    """What the script of this arm needs to know from its worker; the advisor composes the script.

    `allowances` has, by batch size, how far outputs may be from eager PyTorch's: for the task
    `forward` eager's error for each output, for `generate` a gap in nats. `integration` has the
    workflow's lines, `inputs` the `InputFacts` of a PyTorch module: none if nested, else None.
    `coupled_rows` is whether the outputs for a row depend on the other rows of the batch, or have
    no rows, and None if that is not known.
    """

    allowances: dict[int, Any]
    serving_command: str | None
    integration: str
    inputs: list[Any] | None = None
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
    device_allocated_bytes: int | None
    device_reserved_bytes: int | None
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
    first_call_seconds: float | None
    steady_seconds: float | None
    reason: str | None
    #: The length that was not built; None where the batch size is what was not built.
    input_tokens: int | None = None
    event: str = "flexed"


@dataclasses.dataclass(frozen=True)
class Completed:
    """The worker has answered all tokens, and its last outputs were correct."""

    status: str = "completed"


@dataclasses.dataclass(frozen=True)
class Failed:
    """Why there is no valid measurement."""

    #: `unsupported`, `build-failed`, `incorrect`, `nondeterministic`, `out-of-memory`,
    #: `disk-full`, `not-engaged`, `model-refused` for a model that no workflow can open, or
    #: `model-failed` for one that raises when eager PyTorch calls it.
    status: str
    phase: str
    reason: str
    fix: str | None = None


def read_request(directory: pathlib.Path) -> Request:
    """Return the request in `directory`; raise `VersionMismatchError` for another version."""
    fields = json.loads((directory / REQUEST).read_text(encoding="utf-8"))
    if fields.get("version") != VERSION:
        found = fields.get("version")
        message = f"this worker has protocol version {VERSION}, the request has version {found}"
        raise VersionMismatchError(message)
    return Request(**fields)
