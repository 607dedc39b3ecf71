"""The measurement of one arm, and what it consists of."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from advisor.domain.accuracy import TrainedLoss
from advisor.domain.machine import Doubt
from probes.accuracy import Checked
from probes.events import NewShapeResult
from probes.facts import SizeLimit
from probes.shape import Shape

#: An interval whose ends differ by a larger factor is shown without its middle.
WIDE = 4.0
#: What an arm does with new shapes, the best first: values of the rubric's fact `new_shapes`.
NewShapeBehaviour = Literal["served", "recompiles", "refused"]


class Interval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value with its 95 % interval; a bound is null where the data do not bound the value."""

    value: float
    low: float | None
    high: float | None
    #: Standard error of its logarithm between processes, if that widened the bounds of one.
    process_error: float | None = None

    @classmethod
    def around(
        cls, value: float, below: float, above: float, process_error: float | None = None
    ) -> Interval:
        """Return the interval with these distances of logarithms; infinite ones do not bound."""
        return cls(
            value=value,
            low=None if math.isinf(below) else value * math.exp(-below),
            high=None if math.isinf(above) else value * math.exp(above),
            process_error=process_error,
        )

    @property
    def log_widths(self) -> tuple[float, float]:
        """The distances of the value from both bounds as logarithms; infinite without a bound."""
        return (
            math.log(self.value / self.low) if self.low else math.inf,
            math.log(self.high / self.value) if self.high else math.inf,
        )

    def is_range(self, *, unfit: bool = False) -> bool:
        """Return whether its value alone misleads: it is wide, or the machine was `unfit`."""
        low, high = self.low, self.high
        return low is not None and high is not None and high > (1 if unfit else WIDE) * low

    def over(self, other: Interval, log_error: float = 0.0, widening: float = 1.0) -> Interval:
        """Return the ratio to an independent figure; its widths are `widening` times as long.

        `log_error` is half of the interval of a further independent error of the logarithm.
        """
        (below, above), (other_below, other_above) = self.log_widths, other.log_widths
        return Interval.around(
            self.value / other.value,
            widening * math.hypot(below, other_above, log_error),
            widening * math.hypot(above, other_below, log_error),
        )


class CallSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Typical seconds of a call, corrected for changes of the machine's speed.

    The median is that of the baseline, over visits the median of each visit's median, divided by
    the speed-up. Where the speed did not change this is close to the median of the arm's own
    visits. A mix of lengths has the mean of its lengths.

    The bounds at 95 % of the baseline are order statistics, or those of the geometric mean by
    Student's t distribution with fewer than six visits; those of an arm also have the error of its
    speed-up. Null with one visit.
    """

    median: float
    low: float | None
    high: float | None
    #: Number of timed calls.
    samples: int


class CallPercentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of the seconds of all timed calls, slow ones included, as they were timed."""

    p50: float
    p90: float
    p95: float
    p99: float


class TimedVisit(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of the calls of one visit, in their order."""

    #: 0 for the process of the race, then the number of the repetition.
    repeat: int
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
    #: Why TTFT and ITL do not add up to the seconds of a call within 10 %; null where they do.
    latency_mismatch: str | None = None


class UndisturbedSpeedup(msgspec.Struct, frozen=True, kw_only=True):
    """Speed-up between the fastest twentieth of the visits of the baseline and of an arm.

    Other work on the machine changes it less than the speed-up over all rounds, so it shows best
    whether an arm has become slower.
    """

    value: float
    #: Standard error of its logarithm.
    log_error: float
    #: Number of processes of each.
    processes: int


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one arm at one shape."""

    shape: Shape
    #: Weight in means over the shapes, relative to the others; 0 for a length that does not count.
    weight: float = 1.0
    seconds: CallSeconds
    throughput: Throughput
    #: Seconds of the baseline over the arm's, paired within rounds.
    speedup: Interval
    tflops: float | None
    #: Number of processes behind the speed-up; with three or more, its interval includes the
    #: variance between processes.
    processes: int = 1
    #: Null for the baseline, and with fewer than six processes.
    undisturbed: UndisturbedSpeedup | None = None
    #: The ratio of the fastest calls over all visits, where it contradicts the paired rounds: the
    #: machine was busy. The speed-up is then this one. Its interval spans both, or is that of this
    #: one where the machine was unfit during most visits.
    fastest_calls: Interval | None = None
    #: Change of its seconds relative to the baseline's during the race, as a share; 0 for none.
    shift: float = 0.0
    #: What its build leaves in the memory of the GPU, such as captured graphs; null without
    #: PyTorch there.
    kept_bytes: int | None = None
    #: Null for tasks other than `generate`.
    generation: GenerationMetrics | None = None
    #: Null where the single calls are not known.
    percentiles: CallPercentiles | None = None
    #: All times behind the figures; null unless they were asked for.
    times: tuple[TimedVisit, ...] | None = None


#: Bottleneck of a call.
Bound = Literal["launch", "memory", "compute", "mixed", "unknown"]


class CallDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels and bottleneck of one call; null for what is not known."""

    shape: Shape
    kernels_per_call: float | None
    graph_launches_per_call: float | None
    device_busy_share: float | None
    #: Shares of the measured peaks: reading the weights once a call, and the arithmetic in the
    #: tested precision.
    memory_share: float | None
    compute_share: float | None
    #: Share of the call time above the roofline: 1 minus the larger of `memory_share` and
    #: `compute_share`; null if one of them is.
    headroom: float | None
    bound: Bound


class VisitCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of visits of an arm: made, discarded, and kept under unfit conditions."""

    made: int
    discarded: int
    unfit: int
    #: Calls that stalled because the stack compiled or captured something in them.
    stalled_calls: int = 0

    @property
    def kept(self) -> int:
        return self.made - self.discarded


class BuildSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the loaded model to the end of the first call, over all shapes.

    A warm build uses the caches of the cold build.
    """

    cold: float
    warm: float | None
    #: Seconds of the cold build for the shape that takes longest; null if only the sum of all
    #: shapes is known.
    worst: float | None = None
    #: Processors of the cold build, and builds that may have run at the same time; null for a build
    #: that ran alone with all processors.
    processors: int | None = None
    builds_at_once: int | None = None


class MemoryBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Peak memory and its source; null, with the reason as source, where it is not known."""

    #: Including builds.
    peak: int | None
    source: str
    #: Peak after the builds; null if not known.
    serving: int | None = None
    #: The least and the greatest peak of the arm's processes; null with one.
    spread: tuple[int, int] | None = None


#: The ways that need no lines of their own: without anything, and with the kept caches.
COLD, CACHE_DIRECTORY = "cold", "cache-directory"


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A start of an arm in a new process, with empty caches and an empty temporary folder."""

    #: A table of `rubric/starts.toml`, and what it says.
    way: str
    title: str = ""
    loads_on: str = ""
    source: str = ""
    #: Seconds from the new process to its first reply; null if that failed or was wrong.
    seconds: float | None = None
    #: Median of the calls that follow.
    call_seconds: float | None = None
    #: What an earlier process has written, and the seconds of a process that only writes it.
    shipped_bytes: int = 0
    write_seconds: float | None = None
    #: Lines that differ from those of the arm.
    lines: int = 0
    #: Why it does not count; null for a correct reply.
    failure: str | None = None


#: The name of settings against graph breaks; those that gain less are not reported.
AGAINST_BREAKS, LEAST_REPORTED_GAIN = "graph-breaks", 1.02


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """The code of an arm with further lines, which `p3-advisor improve` has tried."""

    #: A table of `rubric/improvements.toml`, or `AGAINST_BREAKS`.
    name: str
    title: str
    lines: str
    #: Speed over eager PyTorch in float32; for settings against graph breaks over the code without
    #: them. Null where it failed.
    speedup: Interval | None = None
    doubt: Doubt | None = None
    #: Relative error of its outputs against those of that code; null if not compared.
    error: float | None = None
    #: Number of graph breaks that are left, by place and reason; null in another precision.
    graph_breaks: dict[str, int] | None = None
    failure: str | None = None

    @property
    def is_gain(self) -> bool:
        """Whether to report it: settings only if they are faster, another precision always."""
        low = self.speedup.low if self.speedup and self.failure is None else None
        return low is not None and (self.graph_breaks is None or low > LEAST_REPORTED_GAIN)


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Measurement of one valid arm."""

    arm: str
    workflow: str
    option: str
    cells: tuple[Cell, ...]
    #: Weighted geometric mean over the shapes.
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
    #: Settings of the process that the model changed, and a compiler around it, with what was done.
    adjusted: dict[str, str] = {}
    facts: dict[str, Any] = {}
    #: The lines that a user writes to adopt the workflow.
    integration: str = ""
    visits: VisitCounts = VisitCounts(made=0, discarded=0, unfit=0)
    #: False if the warm-up ended at some shape before the times were steady.
    steady: bool = True
    diagnosis: tuple[CallDiagnosis, ...] = ()
    #: Results at shapes that were not built; empty if none was tried.
    new_shape_results: tuple[NewShapeResult, ...] = ()
    new_shape_behaviour: NewShapeBehaviour | None = None
    #: Whether all of these shapes were tried before the time limit.
    new_shapes_complete: bool = True
    #: The free dimensions that do not take all sizes: other ones are refused.
    size_limits: tuple[SizeLimit, ...] = ()
    #: How fast it starts, by each way that its stack offers; empty if that was not measured.
    starts: tuple[Start, ...] = ()
    #: What further lines would gain; they are not ranked.
    variants: tuple[Variant, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether all outputs that were looked at could be compared, and are exact."""
        return all(each.accuracy_class == "exact" for each in self.correctness)

    @property
    def fastest_start(self) -> Start | None:
        """The way with the shortest start; if two digits are equal, the one with fewer lines.

        A start is timed once, so further digits mean nothing.
        """
        done = [each for each in self.starts if each.failure is None]
        return min(
            done, key=lambda each: (float(f"{each.seconds or 0:.2g}"), each.lines), default=None
        )
