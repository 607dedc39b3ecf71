"""What was measured, summarised: the numbers that scores and reports start from."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from advisor.domain.worker_events import Checked, NewShapeResult, Peaks

VerdictKind = Literal["PROVEN", "TIE", "SAFE", "INCONCLUSIVE"]


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A value with the ends of its 95 % interval; an end is null where the data do not bound it."""

    value: float
    low: float | None
    high: float | None


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """Typical seconds of a call: the median over visits of each visit's median, with the order statistics that hold it."""

    median: float
    low: float | None
    high: float | None
    #: Timed calls behind it.
    samples: int


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Units processed in a second."""

    value: float
    unit: Literal["tokens/s", "samples/s"]


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """What users of a generated text notice, and how near the device is to its limits; null for what could not be had."""

    #: Until the first token of a whole batch, and between two further ones: from calls for one
    #: token beside calls for all.
    ttft_seconds: float | None
    itl_seconds: float | None
    tokens_per_second_per_user: float | None
    #: Keys and values of the whole batch after the last token.
    cache_bytes: int | None
    #: Of the measured memory bandwidth while decoding, and of the measured arithmetic peak over the
    #: whole call.
    mbu: float | None
    mfu: float | None
    method: str


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one batch size."""

    batch_size: int
    seconds: Seconds
    throughput: Throughput
    #: Seconds of the baseline over the arm's, paired within rounds.
    speedup: Interval
    tflops: float | None
    #: Processes that the speed-up rests on; from three on its interval includes how much they
    #: differ.
    processes: int = 1
    #: By how much, as a share, a fresh process typically differs from another; null with too few to
    #: tell.
    process_variation: float | None = None
    #: By how much, as a share, its seconds against the baseline's changed while they were measured;
    #: 0 where they did not.
    shift: float = 0.0
    #: For the task `generate` only.
    generation: Generation | None = None


Bound = Literal["launch", "memory", "compute", "mixed", "unknown"]


class CallDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What one call consists of and what holds it back; null for what could not be seen here."""

    batch_size: int
    operators_per_call: float | None
    kernels_per_call: float | None
    launches_per_call: float | None
    graph_launches_per_call: float | None
    host_copies_per_call: float | None
    device_busy_share: float | None
    #: Of a call's time, until it returned.
    enqueue_share: float | None
    #: Of the measured peaks: the weights read once a call, and the arithmetic in the tested
    #: precision.
    memory_share: float | None
    compute_share: float | None
    #: Share of the time that even the fastest program on this device could save.
    headroom: float | None
    bound: Bound
    words: str


class Visits(msgspec.Struct, frozen=True, kw_only=True):
    """How often an arm was visited, how many visits were discarded, and how many count although the machine was not fit."""

    made: int
    discarded: int
    unfit: int
    #: Calls within the visits that took so long that something was built or recorded in them.
    stalled_calls: int = 0


class SustainedCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The best two called without a pause: the seconds of the second over those of the first, in turns and sustained."""

    batch_size: int
    arms: tuple[str, str]
    burst_ratio: float
    sustained_ratio: float
    agrees: bool
    #: By arm; null where no counter is.
    joules_per_call: dict[str, float | None]


class BuildSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the loaded model to the end of the first call, over all batch sizes; warm is with the caches of the cold build."""

    cold: float
    warm: float | None
    #: Whether the cold build was seen to begin with empty caches and to find nothing in them; null
    #: where nobody looked.
    proven_cold: bool | None = None


class MemoryBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Peak memory and who saw it; null with the reason as the source where nobody could, or where what was seen cannot be."""

    #: Builds included.
    peak: int | None
    source: str
    #: Peak once everything was built, and what PyTorch's own allocator held at most; null where
    #: nobody saw it.
    serving: int | None = None
    torch_reserved: int | None = None

    @property
    def peak_mebibytes(self) -> int | None:
        """The peak as every table and screen tells it."""
        return None if self.peak is None else round(self.peak / 2**20)


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One arm that completed."""

    arm: str
    workflow: str
    option: str
    cells: tuple[Cell, ...]
    #: Geometric mean over the batch sizes.
    speedup: Interval
    build_seconds: BuildSeconds
    memory_bytes: MemoryBytes
    correctness: tuple[Checked, ...]
    engaged_share: float
    engagement: str
    versions: dict[str, str]
    settings: dict[str, str]
    facts: dict[str, Any] = {}
    visits: Visits = Visits(made=0, discarded=0, unfit=0)
    #: False when the calls had not settled at some batch size before timing began.
    steady: bool = True
    diagnosis: tuple[CallDiagnosis, ...] = ()
    #: What came of batch sizes that were not built; empty when none was tried.
    flexed: tuple[NewShapeResult, ...] = ()
    #: The same in the rubric's words: `served`, `recompiles`, `refused`.
    new_shapes: str | None = None


class SurveyedModel(msgspec.Struct, frozen=True, kw_only=True):
    """What a workflow made of one model."""

    model: str
    family: str
    verdict: Literal["pass", "wrong", "failed", "fell-back", "untried"]
    reason: str | None


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What a workflow made of the panel and of the user's own model."""

    workflow: str
    passed: int
    #: Models that eager PyTorch can run.
    tried: int
    #: The same in the rubric's words: `any`, `most`, `listed`.
    architectures: str
    models: tuple[SurveyedModel, ...]
    #: The earlier run it was made in; null for this one.
    run: str | None


class Efficiency(msgspec.Struct, frozen=True, kw_only=True):
    """How well one application uses one platform."""

    #: The workflow that stands for the application there: its fastest.
    workflow: str
    #: Its speed over that of the fastest workflow there.
    application: float
    #: Its speed over the platform's speed of light; null where that is not known.
    architectural: float | None


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """A device on which the model was measured, and by which run."""

    name: str
    run: str
    #: RFC 3339.
    created: str
    #: By application that was measured there.
    efficiencies: dict[str, Efficiency]
    #: Applications that cannot run there; what is in neither was not tried.
    refused: tuple[str, ...] = ()


class ApplicationPortability(msgspec.Struct, frozen=True, kw_only=True):
    """Performance portability of one application over the platforms."""

    application: str
    #: By platform; null where it was not tried, 0 where it cannot run.
    efficiencies: dict[str, float | None]
    #: Harmonic means of the application and of the architectural efficiencies; null where one is
    #: not known.
    performance_portability: float | None
    architectural_portability: float | None
    #: Share of the lines a user writes that its workflows have in common, mean over the pairs of
    #: platforms; null without all of them.
    code_convergence: float | None


class Portability(msgspec.Struct, frozen=True, kw_only=True):
    """Performance portability over a named set of platforms: the first is this run's."""

    platforms: tuple[Platform, ...]
    applications: tuple[ApplicationPortability, ...]


class RaceResult(msgspec.Struct, frozen=True, kw_only=True):
    """How the race at one batch size ended."""

    batch_size: int
    verdict: VerdictKind
    best: str
    tied: tuple[str, ...]
    unresolved: tuple[str, ...]
    rounds: int
    eliminated: dict[str, int]
    #: Largest difference, as a share, that two equal arms may still have here; null without the
    #: baseline's duplicate.
    noise_floor: float | None
    closed: str


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run has measured so far."""

    baseline: str
    measurements: tuple[Measurement, ...]
    races: tuple[RaceResult, ...]
    #: Largest noise floor of the races.
    noise_floor: float | None
    #: Paired log differences, baseline minus arm, by arm and batch size, for whoever compares two
    #: arms.
    log_speedups: dict[str, dict[int, tuple[float, ...]]]
    visits: Visits = Visits(made=0, discarded=0, unfit=0)
    sustained: SustainedCheck | None = None
    peaks: Peaks | None = None
    #: Repetitions in fresh processes that were completed.
    repeats: int = 0
    surveys: tuple[Survey, ...] = ()
    #: Null with evidence from one platform only.
    portability: Portability | None = None
