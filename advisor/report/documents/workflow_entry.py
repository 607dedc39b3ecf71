"""Define one arm of a run's document: its status, figures, scores and errors."""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.domain.accuracy import AccuracyClass, CheckVerdict, TrainedLoss
from advisor.domain.check_events import Checked
from advisor.domain.interval import Interval
from advisor.domain.measurement import BuildSeconds, CallDiagnosis, Cell, MemoryBytes, VisitCounts
from advisor.domain.outcome import Failure
from advisor.domain.question import Numerics, WeightFormat
from advisor.domain.rubric import Basis
from advisor.domain.scores import Evidence, Rating, TierGap
from advisor.domain.worker_events import NewShapeResult
from advisor.domain.workflow import Workflow

Status = Literal[
    "completed",
    "unsupported",
    "not-installed",
    "build-failed",
    "incorrect",
    "nondeterministic",
    "not-engaged",
    "out-of-memory",
    "disk-full",
    "timed-out",
    "crashed",
    "skipped",
    "excluded",
    "not-covered",
]


class ScoreEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The grade and letter of one arm on one criterion, with the fact that limits them."""

    tier: int
    grade: float | None = None
    fact: str
    value: float | str | bool | int | None
    rule: str
    evidence: Evidence
    basis: Basis
    source: str
    to_next: tuple[TierGap, ...] | None
    why: str

    @property
    def graded(self) -> float:
        """The grade; the letter's number in documents of early versions."""
        return float(self.tier) if self.grade is None else self.grade

    @classmethod
    def of(cls, rating: Rating, measured_as: Evidence = "measured") -> ScoreEntry:
        """Return the entry of a rating; `measured_as` replaces the evidence `measured`."""
        changes = {
            "to_next": rating.to_next or None,
            "evidence": measured_as if rating.evidence == "measured" else rating.evidence,
        }
        return msgspec.convert(
            {**msgspec.structs.asdict(rating), **changes}, cls, from_attributes=True
        )


class Correctness(msgspec.Struct, frozen=True, kw_only=True):
    """The reference of the outputs, and the error against it by batch size."""

    verdict: CheckVerdict
    #: The class of the worst batch size.
    accuracy_class: AccuracyClass = "exact"
    reference: str
    by_batch_size: tuple[Checked, ...]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The bottleneck at the largest batch size, and the counts behind it for every batch size."""

    summary: str = msgspec.field(name="words")
    by_batch_size: tuple[CallDiagnosis, ...]


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """What a user has to change or install to adopt an arm, as the catalogue declares it."""

    #: Lines that eager PyTorch does not need.
    lines_changed: int
    export_step: bool
    own_environment: bool

    @classmethod
    def of(cls, workflow: Workflow) -> Adoption:
        """Return the facts of a workflow with the declared facts of one arm."""
        declared = workflow.declared
        return cls(
            lines_changed=int(declared.lines_changed.value),
            export_step=bool(declared.export_step.value),
            own_environment=workflow.environment.kind != "shared",
        )


class WorkflowEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One arm, or a workflow that was not measured."""

    id: str
    options: str | None
    arm: str
    #: What texts call the arm; empty in documents of earlier versions.
    title: str = ""
    status: Status
    reason: str | None = None
    fix: str | None = None
    evidence: Evidence = "declared"
    #: Whether it computes in the question's dtype or with quantised weights, and their format.
    numerics: Numerics = "native"
    weights: WeightFormat | None = None
    verified: tuple[str, ...] = ()
    #: Null in documents of earlier versions and for workflows without figures.
    adoption: Adoption | None = None
    engaged_share: float | None = None
    engagement: str | None = None
    cells: tuple[Cell, ...] = ()
    speedup: Interval | None = None
    build_seconds: BuildSeconds | None = None
    memory_bytes: MemoryBytes | None = None
    #: Bytes of all weights as the arm stores them.
    weight_bytes: int | None = None
    correctness: Correctness | None = None
    trained_loss: TrainedLoss | None = None
    diagnosis: Diagnosis | None = None
    #: The results of batch sizes that were not built; null if none was tried.
    flexibility: tuple[NewShapeResult, ...] | None = None
    visits: VisitCounts | None = None
    #: Whether the duration of calls was stable before timing began.
    steady: bool | None = None
    versions: dict[str, str] = {}
    settings: dict[str, str] = {}
    scores: dict[str, ScoreEntry] | None = None
    failed_constraints: tuple[str, ...] = msgspec.field(name="fails", default=())
    score: float | None = None
    rank: int | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether speed-ups are relative to the arm: its own is 1 without uncertainty."""
        return self.speedup == Interval(value=1.0, low=1.0, high=1.0)


def status_of(failure: Failure) -> Status:
    """Return the document's status for a failure."""
    tag = str(failure.__struct_config__.tag)
    return (
        "build-failed" if tag in {"model-refused", "model-failed"} else msgspec.convert(tag, Status)
    )
