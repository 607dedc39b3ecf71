"""What was measured, summarised: the numbers that scores and reports start from."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from advisor.domain.outcome import Checked

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


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one batch size."""

    batch_size: int
    seconds: Seconds
    throughput: Throughput
    #: Seconds of the baseline over the arm's, paired within rounds.
    speedup: Interval
    tflops: float | None


class BuildSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the loaded model to the end of the first call, over all batch sizes; warm is with the caches of the cold build."""

    cold: float
    warm: float | None


class MemoryBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Peak memory and who saw it; null with the reason as the source where nobody could."""

    peak: int | None
    source: str


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


class RaceResult(msgspec.Struct, frozen=True, kw_only=True):
    """How the race at one batch size ended."""

    batch_size: int
    verdict: VerdictKind
    best: str
    tied: tuple[str, ...]
    unresolved: tuple[str, ...]
    rounds: int
    eliminated: dict[str, int]
    #: Largest difference, as a share, that two equal arms may still have here; null without the baseline's duplicate.
    noise_floor: float | None
    closed: str


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run has measured so far."""

    baseline: str
    measurements: tuple[Measurement, ...]
    races: tuple[RaceResult, ...]
    #: Largest noise floor of the races.
    noise_floor: float | None
    #: Paired log differences, baseline minus arm, by arm and batch size, for whoever compares two arms.
    log_speedups: dict[str, dict[int, tuple[float, ...]]]
