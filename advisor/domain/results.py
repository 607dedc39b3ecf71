"""What a run measured, by arm and over all arms, and the grades and scores of the arms."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from advisor.domain.constraints import FailedConstraint
from advisor.domain.measurement import Cell, Measurement, VisitCounts
from advisor.domain.question import WeightFormat
from advisor.domain.rubric import Basis
from advisor.domain.serving import ServingResults
from advisor.domain.text import format_share
from probes.events import Peaks
from probes.facts import InputSpec
from probes.shape import Shape

#: When something was made, with its time zone.
Instant = Annotated[dt.datetime, msgspec.Meta(tz=True)]
#: The name of a run, and of its files: from another machine it must be nothing else.
RunId = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{8}-[0-9]{6}-[0-9a-f]{4}(?![\s\S])")]
#: A smaller relative difference in speed does not matter.
EQUIVALENCE_MARGIN = 0.02
#: Nothing that was measured can be trusted above this difference between two equal workers, and
#: above this share of the visits that count and were made on a busy machine.
UNFIT_NOISE, MOST_UNFIT = 0.5, 0.5


def is_busy(visits: VisitCounts) -> bool:
    """Return whether other work or heat disturbed most visits."""
    return visits.unfit > MOST_UNFIT * max(visits.kept, 1)


class Efficiency(msgspec.Struct, frozen=True, kw_only=True):
    """Efficiency of one application on one platform."""

    #: The application's fastest workflow on the platform.
    workflow: str
    #: Its speed over that of the platform's fastest workflow.
    application_efficiency: float
    #: Its speed over the speed at the platform's measured peak; null if not known.
    architectural_efficiency: float | None


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """A device on which a run measured the model."""

    name: str
    run: str
    created: Instant
    #: Efficiencies by measured application.
    efficiencies: dict[str, Efficiency]
    #: Applications that cannot run on the platform; an application in neither was not tried.
    refused: tuple[str, ...] = ()


class ApplicationPortability(msgspec.Struct, frozen=True, kw_only=True):
    """Performance portability of one application over the platforms."""

    application: str
    #: Efficiencies by platform; null if it was not tried, 0 if it cannot run.
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
    """Result of the race at one shape."""

    shape: Shape
    best: str
    rounds: int
    #: The round after which each arm that was shown to be slower left the race.
    eliminated: dict[str, int]
    #: Largest share by which the baseline and its duplicate may differ; null without the duplicate.
    noise_floor: float | None
    #: Why the race ended, as a sentence.
    end_reason: str


class SustainedCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The two best arms called without a pause.

    The ratios are the seconds of the second arm over those of the first, in the race (`burst`) and
    without a pause (`sustained`).
    """

    shape: Shape
    arms: tuple[str, str]
    burst_ratio: float
    sustained_ratio: float
    agrees: bool
    #: Energy of a call by arm; null without an energy counter.
    joules_per_call: dict[str, float | None]


class StoppedBuild(msgspec.Struct, frozen=True, kw_only=True):
    """An arm whose build was ended, or left out, for time, so that its speed is not known."""

    arm: str
    #: Whether the build began; one that was expected to take too long is left out.
    started: bool = True
    #: What allows more time.
    fix: str | None


class MeasuredInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What the inputs of a forward pass are like."""

    #: Inputs with the values of the example in every call; the model takes no random ones.
    fixed: int
    #: Whether `input_tokens` is the size of a dimension; null where the kind of the model decides.
    has_length: bool | None
    #: Whether the inputs have a batch dimension. Without one, batch size 1 stands for a call with
    #: the shapes that the examples or the file give, and a sample is such a call. Null for
    #: generated text.
    has_batch: bool | None
    #: Shapes of the tensors that a PyTorch module takes, without the batch; empty for other models
    #: and for generated text.
    shapes: tuple[tuple[int, ...], ...] = ()
    #: These tensors with their names and dtypes; empty where only the shapes are known.
    tensors: tuple[InputSpec, ...] = ()
    #: Inputs whose dimensions have another order in memory, as in the examples.
    reordered: int = 0
    #: The batch size of the user's example inputs; null without them or a batch.
    example_rows: int | None = None


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All measurements of a run so far."""

    baseline: str
    measurements: tuple[Measurement, ...]
    races: tuple[RaceResult, ...]
    #: Largest noise floor of the races; null if none is known.
    noise_floor: float | None
    #: Processes of the baseline's duplicate that have figures at every shape.
    duplicates: int = 0
    visits: VisitCounts = VisitCounts(made=0, discarded=0, unfit=0)
    sustained: SustainedCheck | None = None
    peaks: Peaks | None = None
    #: Number of completed repetitions in fresh processes.
    repeats: int = 0
    stopped_builds: tuple[StoppedBuild, ...] = ()
    #: Null with measurements on one platform only.
    portability: Portability | None = None
    #: What the servers sustained; null for tasks other than `serve`.
    serving: ServingResults | None = None
    #: Null for an answer without a measurement.
    inputs: MeasuredInputs | None = None

    @property
    def by_arm(self) -> dict[str, Measurement]:
        return {each.arm: each for each in self.measurements}

    @property
    def is_busy(self) -> bool:
        return is_busy(self.visits)

    @property
    def is_noisy(self) -> bool:
        return (self.noise_floor or 0.0) > UNFIT_NOISE

    @property
    def is_unfit(self) -> bool:
        """Whether nothing that was measured can be trusted."""
        return self.is_busy or self.is_noisy

    @property
    def unfitness(self) -> list[str]:
        """Why nothing that was measured can be trusted; errors say it, too."""
        reasons = {self.describe_unfit(): self.is_busy, self.describe_noise(): self.is_noisy}
        return [reason for reason, is_so in reasons.items() if is_so]

    def describe_unfit(self) -> str:
        visits = self.visits
        return f"the machine was busy or throttled during {visits.unfit} of {visits.kept} visits"

    def describe_noise(self) -> str:
        noise = self.noise_floor or 0.0
        shown = format_share(noise, 1) if noise <= 1 else "over 100 %"
        return f"equal processes may differ by {shown}"

    @property
    def cells(self) -> list[tuple[str, Cell]]:
        """The cells of all arms, each with its arm."""
        return [(each.arm, cell) for each in self.measurements for cell in each.cells]

    def untimed(self, shapes: Iterable[Shape]) -> tuple[Shape, ...]:
        """Return the shapes at which no arm was timed; empty for servers."""
        raced = {race.shape for race in self.races}
        return tuple(each for each in shapes if raced and each not in raced)

    def process_differences(self, shape: Shape) -> int:
        """Return how many differences between equal processes there are at a shape.

        Each duplicate differs from the baseline, and an arm's processes from the one before.
        """
        return self.duplicates + sum(
            cell.processes - 1
            for arm, cell in self.cells
            if arm != self.baseline and cell.shape == shape
        )

    @property
    def fewest_process_differences(self) -> int:
        shapes = {cell.shape for arm, cell in self.cells if arm != self.baseline}
        return min(map(self.process_differences, shapes), default=0)


Evidence = Literal["measured", "imported", "inferred", "declared"]


class TierGap(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that keeps a criterion from the next letter."""

    tier: int
    fact: str
    value: float | str | bool | int | None
    threshold: str


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """One criterion of one arm: a grade and its letter, and the fact that limits them."""

    #: The letter as a number: 3 is A, 2 is B, 1 is C.
    tier: int
    #: C is centred on 1, B on 2, A on 3.
    grade: float
    #: The fact with the smallest grade.
    fact: str
    value: float | str | bool | int | None
    rule: str
    evidence: Evidence
    basis: Basis
    source: str
    to_next: tuple[TierGap, ...]
    why: str


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """What a user has to change or install to adopt an arm, as the catalogue declares it."""

    #: Lines that eager PyTorch does not need.
    lines_changed: int
    export_step: bool
    own_environment: bool
    #: Whether it is an engine that fills GPU memory with its KV cache in advance.
    preallocates_cache: bool = False


class ScoredArm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm with its grades and its score; the score is linear in the priorities."""

    arm: str
    workflow: str
    #: What texts call the arm.
    title: str
    ratings: dict[str, Rating]
    score: float
    #: Points that the choice adds to the score, for speed or for needing no change.
    bonus: float = 0.0
    rank: int
    #: Whether it is less exact than an arm of its workflow, and no gain over that arm is shown; it
    #: is listed but not recommended.
    unproven: bool = False
    #: Constraints it fails; an arm with any is listed but not recommended.
    failures: tuple[FailedConstraint, ...] = ()
    speedup: float
    adoption: Adoption
    #: Format of its quantised weights; null for a native arm.
    weight_format: WeightFormat | None = None
    #: Devices on which p3-advisor has run the workflow.
    verified: tuple[str, ...] = ()

    @property
    def failed_constraints(self) -> tuple[str, ...]:
        return tuple(failure.text for failure in self.failures)
