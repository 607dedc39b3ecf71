"""Summarised measurements: the input of scores and reports.

The module is long because it declares the values of one tree and has no functions.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from advisor.domain.accuracy import TrainedLoss
from advisor.domain.interval import Interval as Interval  # noqa: PLC0414 - also a name of this module
from advisor.domain.serving import ServingResults
from advisor.domain.worker_events import Checked, NewShapeResult, Peaks

#: Kind of a race's result; `advisor.statistics.race.Verdict` explains each.
VerdictKind = Literal["PROVEN", "TIE", "SAFE", "INCONCLUSIVE"]


class CallSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Typical seconds of a call: the median over visits of each visit's median.

    The bounds at 95 % are order statistics, or those of the geometric mean by Student's t
    distribution with fewer than six visits; null with one visit.
    """

    median: float
    low: float | None
    high: float | None
    #: Number of timed calls.
    samples: int


class CallPercentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of the seconds of all timed calls, slow ones included."""

    p50: float
    p90: float
    p95: float
    p99: float


class TimedVisit(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of the calls of one visit, in their order."""

    #: 0 for the process of the race, then the number of the repetition.
    process: int
    round: int
    seconds: tuple[float, ...]


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Units processed per second."""

    value: float
    unit: Literal["tokens/s", "samples/s"]


class GenerationMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Latency, memory and utilisation of text generation; null for what is not known."""

    #: Time to the first token of a batch, and between two later tokens.
    ttft_seconds: float | None
    itl_seconds: float | None
    tokens_per_second_per_user: float | None
    #: Size of the key-value cache of the batch after the last token.
    cache_bytes: int | None
    #: Share of the measured memory bandwidth while decoding, and share of the measured arithmetic
    #: peak over the whole call.
    mbu: float | None
    mfu: float | None
    method: str
    #: Why TTFT and ITL do not add up to the seconds of a call within 10 %; null where they do.
    latency_mismatch: str | None = None


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one arm at one batch size."""

    batch_size: int
    seconds: CallSeconds
    throughput: Throughput
    #: Seconds of the baseline over the arm's, paired within rounds.
    speedup: Interval
    tflops: float | None
    #: Number of processes behind the speed-up; from three on, its interval includes the variance
    #: between processes.
    processes: int = 1
    #: Standard deviation between processes, as a share; null with fewer than three processes.
    process_variation: float | None = None
    #: Standard deviation of the logarithms of the processes' speed-ups, which the rounds within
    #: them cause in part; null with fewer than three processes and in runs of earlier versions.
    process_deviation: float | None = None
    #: Change of its seconds relative to the baseline's during the race, as a share; 0 for none.
    shift: float = 0.0
    #: Null for tasks other than `generate`.
    generation: GenerationMetrics | None = None
    #: Null in documents of early versions.
    percentiles: CallPercentiles | None = None
    #: All times behind the figures; null unless they were asked for.
    times: tuple[TimedVisit, ...] | None = None


#: Bottleneck of a call.
Bound = Literal["launch", "memory", "compute", "mixed", "unknown"]


class CallDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Operators, kernels and bottleneck of one call; null for what is not known."""

    batch_size: int
    operators_per_call: float | None
    kernels_per_call: float | None
    launches_per_call: float | None
    graph_launches_per_call: float | None
    host_copies_per_call: float | None
    device_busy_share: float | None
    #: Share of a call's time until it returns.
    enqueue_share: float | None
    #: Shares of the measured peaks: reading the weights once a call, and the arithmetic in the
    #: tested precision.
    memory_share: float | None
    compute_share: float | None
    #: Share of the call time above the roofline: 1 minus the larger of `memory_share` and
    #: `compute_share`.
    headroom: float | None
    bound: Bound
    summary: str = msgspec.field(name="words")


class VisitCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of visits of an arm: made, discarded, and kept under unfit conditions."""

    made: int
    discarded: int
    unfit: int
    #: Calls that stalled because the stack compiled or captured something in them.
    stalled_calls: int = 0


class SustainedCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The two best arms called without a pause.

    The ratios are the seconds of the second arm over those of the first, in the race (`burst`) and
    without a pause (`sustained`).
    """

    batch_size: int
    arms: tuple[str, str]
    burst_ratio: float
    sustained_ratio: float
    agrees: bool
    #: By arm; null without an energy counter.
    joules_per_call: dict[str, float | None]


class BuildSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the loaded model to the end of the first call, over all batch sizes.

    A warm build uses the caches of the cold build.
    """

    cold: float
    warm: float | None
    #: Of the cold builds, the one for the batch size that takes longest; null in documents of early
    #: versions.
    worst: float | None = None
    #: Processors of the cold build, and builds that may have run at the same time; null for a build
    #: that ran alone with all processors.
    processors: int | None = None
    builds_at_once: int | None = None
    #: Whether the cold build began with empty caches and had no cache hits; null if not known.
    proven_cold: bool | None = None


class MemoryBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Peak memory and its source; null, with the reason as source, where it is not known."""

    #: Including builds.
    peak: int | None
    source: str
    #: Peak after the builds, and most memory that PyTorch's allocator reserved; null if not known.
    serving: int | None = None
    torch_reserved: int | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Measurement of one valid arm."""

    arm: str
    workflow: str
    option: str
    cells: tuple[Cell, ...]
    #: Geometric mean over the batch sizes.
    speedup: Interval
    build_seconds: BuildSeconds
    memory_bytes: MemoryBytes
    #: Bytes of all weights as the arm stores them; null if not known.
    weight_bytes: int | None = None
    correctness: tuple[Checked, ...]
    #: Null in runs without quantised arms and without a metric.
    trained_loss: TrainedLoss | None = None
    engaged_share: float
    engagement: str
    versions: dict[str, str]
    settings: dict[str, str]
    facts: dict[str, Any] = {}
    visits: VisitCounts = VisitCounts(made=0, discarded=0, unfit=0)
    #: False if the warm-up ended at some batch size before the times were steady.
    steady: bool = True
    diagnosis: tuple[CallDiagnosis, ...] = ()
    #: Results at shapes that were not built; empty if none was tried.
    new_shape_results: tuple[NewShapeResult, ...] = msgspec.field(name="flexed", default=())
    #: The worst of these results, as the rubric's fact: `served`, `recompiles`, `refused`.
    new_shapes: str | None = None
    #: Whether all of these shapes were tried before the time limit.
    new_shapes_complete: bool = True


class SurveyedModel(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a workflow for one model of the survey."""

    model: str
    family: str
    verdict: Literal["pass", "wrong", "failed", "fell-back", "untried"]
    reason: str | None


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a workflow for the panel's models and the user's model."""

    workflow: str
    passed: int
    #: Number of models that eager PyTorch can run.
    tried: int
    #: Support for architectures, as the rubric's fact: `any`, `most`, `listed`.
    architectures: str
    models: tuple[SurveyedModel, ...]
    #: Earlier run that made the survey; null for this run.
    run: str | None


class Efficiency(msgspec.Struct, frozen=True, kw_only=True):
    """Efficiency of one application on one platform."""

    #: The application's fastest workflow on the platform.
    workflow: str
    #: Its speed over that of the platform's fastest workflow.
    application_efficiency: float = msgspec.field(name="application")
    #: Its speed over the speed at the platform's measured peak; null if not known.
    architectural_efficiency: float | None = msgspec.field(name="architectural")


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """A device on which a run measured the model."""

    name: str
    run: str
    #: RFC 3339 with time zone.
    created: str
    #: By measured application.
    efficiencies: dict[str, Efficiency]
    #: Applications that cannot run on the platform; an application in neither was not tried.
    refused: tuple[str, ...] = ()


class ApplicationPortability(msgspec.Struct, frozen=True, kw_only=True):
    """Performance portability of one application over the platforms."""

    application: str
    #: By platform; null if it was not tried, 0 if it cannot run.
    efficiencies: dict[str, float | None]
    #: Harmonic means of the application and architectural efficiencies; null if one is not known.
    performance_portability: float | None
    architectural_portability: float | None
    #: Share of the user's lines that its workflows have in common, as the mean over pairs of
    #: platforms; null if a platform has none.
    code_convergence: float | None


class Portability(msgspec.Struct, frozen=True, kw_only=True):
    """Performance portability over platforms; the first is this run's."""

    platforms: tuple[Platform, ...]
    applications: tuple[ApplicationPortability, ...]


class RaceResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the race at one batch size."""

    batch_size: int
    verdict: VerdictKind
    best: str
    tied: tuple[str, ...]
    unresolved: tuple[str, ...]
    rounds: int
    eliminated: dict[str, int]
    #: Largest share by which the baseline and its duplicate may differ; null without the duplicate.
    noise_floor: float | None
    #: Why the race ended, as a sentence.
    closed: str


class HostSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of a fixed piece of host work of about a millisecond, over all visits of a run."""

    median_seconds: float
    #: Range of the middle 90 % of the visits, as a share of the median.
    spread: float


class StoppedBuild(msgspec.Struct, frozen=True, kw_only=True):
    """An arm whose build was ended because a time was over, so that its speed is not known."""

    arm: str
    #: What allows more time.
    fix: str | None


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All measurements of a run so far."""

    baseline: str
    measurements: tuple[Measurement, ...]
    races: tuple[RaceResult, ...]
    #: Largest noise floor of the races; null if none is known.
    noise_floor: float | None
    #: Paired log speed-ups over the baseline by arm and batch size, in the order of the rounds.
    log_speedups: dict[str, dict[int, tuple[float, ...]]]
    visits: VisitCounts = VisitCounts(made=0, discarded=0, unfit=0)
    sustained: SustainedCheck | None = None
    peaks: Peaks | None = None
    #: Null in runs of earlier versions.
    host: HostSpeed | None = None
    #: Number of completed repetitions in fresh processes.
    repeats: int = 0
    stopped_builds: tuple[StoppedBuild, ...] = ()
    surveys: tuple[Survey, ...] = ()
    #: Null with measurements on one platform only.
    portability: Portability | None = None
    #: What the servers sustained; null for tasks other than `serve`.
    serving: ServingResults | None = None
