"""Define and compose the JSON document of a sweep; its keys are a public interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from advisor.domain.constraints import Constraint
from advisor.domain.interval import Interval
from advisor.domain.priorities import Priorities
from advisor.domain.question import Dtype, Task
from advisor.domain.recommendation import DecisionWord, Recommendation, Trust
from advisor.domain.sweep import Lengths, MixedLengths, SweepRecord
from advisor.errors import UserError
from advisor.pipeline.decision import Decision
from advisor.pipeline.sweeps.decision import decide_mix
from advisor.report.documents import measured_document
from advisor.report.documents.document import Problem, RunDocument
from advisor.report.documents.machine_fitness import was_machine_unfit
from advisor.report.documents.workflow_entry import WorkflowEntry
from advisor.report.sweeps.missing_arms import MissingArm, find_left_out, find_missing
from advisor.version import __version__

SWEEP_SCHEMA: Final = "p3-advisor/sweep/1"


class SweepCell(msgspec.Struct, frozen=True, kw_only=True):
    """The best arm by score at one batch size and length, with its speed-up over the baseline."""

    batch_size: int
    arm: str
    speedup: Interval
    #: Speed-up there of the arm that is advised for the mix; null where it was not measured.
    mix_speedup: Interval | None


class LengthEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One length of the sweep and the decision there."""

    lengths: Lengths
    #: Of the mix; all shares sum to 1.
    share: float
    #: Null before the run is started, and after it is deleted.
    run_id: str | None
    finished: bool
    #: Workflows that the run's plan was limited to, and the lengths whose equal answers limit it.
    limited_to: tuple[str, ...] = ()
    between: tuple[Lengths, ...] = ()
    decision_word: DecisionWord | None = msgspec.field(name="decision", default=None)
    certainty: float | None = None
    trust: Trust | None = None
    #: The arm advised for all batch sizes at this length.
    arm: str | None = None
    speedup: Interval | None = None
    cells: tuple[SweepCell, ...] = ()
    problem: Problem | None = None
    #: Whether the figures were measured while the machine was busy or unsteady.
    machine_unfit: bool = False


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Speed-up of an arm at one length, the geometric mean over the batch sizes."""

    lengths: Lengths
    speedup: Interval


class ArmCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Speed-ups of an arm over the lengths, the shortest first."""

    arm: str
    points: tuple[CurvePoint, ...]


class SweepDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep: the decision at each length, and the one for their mix."""

    schema: Literal["p3-advisor/sweep/1"]
    sweep_id: str
    created: str
    advisor_version: str
    #: Whether every length has a finished run.
    finished: bool
    model: str
    task: Task | None
    device_name: str
    dtype: Dtype | None
    batch_sizes: tuple[int, ...]
    priorities: Priorities | None
    constraints: tuple[Constraint, ...]
    lengths: tuple[LengthEntry, ...]
    #: For the mix; null, with the problem, where there is none.
    recommendation: Recommendation | None
    problem: Problem | None
    #: The arms of the mix by rank, with speed-ups over the mix and the worst of other figures.
    workflows: tuple[WorkflowEntry, ...]
    #: Arms of some lengths that the mix does not count, because others of its lengths lack them.
    left_out: tuple[MissingArm, ...]
    #: Arms that failed at a length, or were measured at other lengths only.
    missing: tuple[MissingArm, ...] = ()
    curves: tuple[ArmCurve, ...]


def decide_and_compose(record: SweepRecord, decisions: Mapping[Lengths, Decision]) -> SweepDocument:
    """Return the document of a sweep with the decision for its mix, or why there is none."""
    try:
        mix = decide_mix(record, decisions)
    except UserError as problem:
        return compose(record, decisions, None, problem)
    return compose(record, decisions, mix, mix.problem)


def compose(
    record: SweepRecord,
    decisions: Mapping[Lengths, Decision],
    mix: Decision | None,
    problem: UserError | None,
) -> SweepDocument:
    """Return the document of a sweep; `problem` is why `mix` is missing or has no advice."""
    documents = {
        lengths: measured_document.compose(decisions[lengths]) for lengths in sorted(decisions)
    }
    advice = mix.recommendation if mix else None
    first = next(iter(documents.values()), None)
    question = first.question if first else None
    return SweepDocument(
        schema=SWEEP_SCHEMA,
        sweep_id=record.sweep_id,
        created=record.created,
        advisor_version=__version__,
        finished=all(each.lengths in documents for each in record.mix),
        model=question.model.name if question else str(record.answers.get("model", "")),
        task=question.task if question else None,
        device_name=first.device_name if first else "",
        dtype=question.dtype if question else None,
        batch_sizes=question.batch_sizes if question else (),
        priorities=question.priorities if question else None,
        constraints=question.constraints if question else (),
        lengths=tuple(
            _length_entry(each, record, documents.get(each.lengths), advice) for each in record.mix
        ),
        recommendation=advice,
        problem=Problem.of(problem),
        workflows=_mixed_entries(mix),
        left_out=find_left_out(record, documents) if mix else (),
        missing=find_missing(record, documents),
        curves=_curves(documents),
    )


def _mixed_entries(mix: Decision | None) -> tuple[WorkflowEntry, ...]:
    entries = measured_document.compose(mix).workflows if mix else ()
    return tuple(entry for entry in entries if entry.rank is not None)


def _length_entry(
    mixed: MixedLengths,
    record: SweepRecord,
    document: RunDocument | None,
    mix_advice: Recommendation | None,
) -> LengthEntry:
    run = record.run_at(mixed.lengths)
    entry = LengthEntry(
        lengths=mixed.lengths,
        share=mixed.share,
        run_id=run.run_id if run else None,
        finished=document is not None,
        limited_to=run.limited_to if run else (),
        between=run.between if run else (),
    )
    if document is None:
        return entry
    entry = msgspec.structs.replace(
        entry, problem=document.problem, machine_unfit=was_machine_unfit(document)
    )
    advice = document.recommendation
    if advice is None:
        return entry
    return msgspec.structs.replace(
        entry,
        decision_word=advice.decision_word,
        certainty=advice.certainty,
        trust=advice.trust,
        arm=advice.arm,
        speedup=_entry_of(document, advice.arm).speedup,
        cells=_cells(document, advice, mix_advice),
    )


def _cells(
    document: RunDocument, advice: Recommendation, mix_advice: Recommendation | None
) -> tuple[SweepCell, ...]:
    """Return the best arm at each batch size; with a single size it is the advised one."""
    speedups = {
        (entry.arm, cell.batch_size): cell.speedup
        for entry in document.workflows
        for cell in entry.cells
    }
    best = {each.batch_size: each.arm for each in advice.advice_by_batch_size}
    mix_arm = mix_advice.arm if mix_advice else ""
    return tuple(
        SweepCell(
            batch_size=size,
            arm=arm,
            speedup=speedups[arm, size],
            mix_speedup=speedups.get((mix_arm, size)),
        )
        for size in document.question.batch_sizes
        if (arm := best.get(size, advice.arm)) and (arm, size) in speedups
    )


def _entry_of(document: RunDocument, arm: str) -> WorkflowEntry:
    return next(entry for entry in document.workflows if entry.arm == arm)


def _curves(documents: Mapping[Lengths, RunDocument]) -> tuple[ArmCurve, ...]:
    points: dict[str, list[CurvePoint]] = {}
    for lengths, document in documents.items():
        for entry in document.workflows:
            if entry.status == "completed" and entry.speedup is not None:
                point = CurvePoint(lengths=lengths, speedup=entry.speedup)
                points.setdefault(entry.arm, []).append(point)
    return tuple(ArmCurve(arm=arm, points=tuple(found)) for arm, found in points.items())
