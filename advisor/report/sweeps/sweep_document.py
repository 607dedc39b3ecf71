"""Define and compose the JSON document of a sweep; its keys are a public interface."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from advisor.domain.answer import Answer, AnswerSummary, Problem, RankedArm
from advisor.domain.constraints import Constraint
from advisor.domain.interval import Interval
from advisor.domain.priorities import Priorities
from advisor.domain.question import Dtype, Task
from advisor.domain.recommendation import Recommendation
from advisor.domain.sweep import Lengths, MixedLengths, SweepRecord
from advisor.errors import UserError
from advisor.pipeline.sweeps.decision import catalogue_of, decide_mix
from advisor.recommendation.trust import is_unfit
from advisor.report.sweeps.missing_arms import MissingArm, find_left_out, find_missing
from advisor.store.store import Store
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
    #: For all batch sizes at this length; empty before it is decided.
    answer: AnswerSummary = AnswerSummary()
    cells: tuple[SweepCell, ...] = ()
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
    #: For the mix, with speed-ups over the mix and the worst of other figures; null before every
    #: length that counts is measured.
    mix_answer: Answer | None
    #: Why there is no recommendation for the mix.
    problem: Problem | None
    #: Arms of some lengths that the mix does not count, because others of its lengths lack them.
    left_out: tuple[MissingArm, ...]
    #: Arms that failed at a length, or were measured at other lengths only.
    missing: tuple[MissingArm, ...] = ()
    curves: tuple[ArmCurve, ...]

    @property
    def recommendation(self) -> Recommendation | None:
        """The advice for the mix."""
        return self.mix_answer.recommendation if self.mix_answer else None

    @property
    def ranked(self) -> tuple[RankedArm, ...]:
        """The arms of the mix, best first."""
        return self.mix_answer.ranked if self.mix_answer else ()


def decide_and_compose(
    record: SweepRecord,
    answers: Mapping[Lengths, Answer],
    store: Store,
    rubric: pathlib.Path | None = None,
) -> SweepDocument:
    """Return the document of a sweep with the answer for its mix, or why there is none."""
    try:
        mix = decide_mix(record, answers, catalogue_of(answers, store, rubric))
    except UserError as problem:
        return compose(record, answers, None, Problem.of(problem))
    return compose(record, answers, mix, mix.problem)


def compose(
    record: SweepRecord,
    answers: Mapping[Lengths, Answer],
    mix: Answer | None,
    problem: Problem | None,
) -> SweepDocument:
    """Return the document of a sweep; `problem` is why `mix` is missing or has no advice."""
    ordered = {lengths: answers[lengths] for lengths in sorted(answers)}
    advice = mix.recommendation if mix else None
    first = next(iter(ordered.values()), None)
    question = first.question if first else None
    return SweepDocument(
        schema=SWEEP_SCHEMA,
        sweep_id=record.sweep_id,
        created=record.created,
        advisor_version=__version__,
        finished=all(each.lengths in ordered for each in record.mix),
        model=question.model.name if question else str(record.answers.get("model", "")),
        task=question.task if question else None,
        device_name=first.device_name if first else "",
        dtype=question.dtype if question else None,
        batch_sizes=question.batch_sizes if question else (),
        priorities=question.priorities if question else None,
        constraints=question.constraints if question else (),
        lengths=tuple(
            _length_entry(each, record, ordered.get(each.lengths), advice) for each in record.mix
        ),
        mix_answer=mix and msgspec.structs.replace(mix, unmeasured=()),
        problem=problem,
        left_out=find_left_out(record, ordered) if mix else (),
        missing=find_missing(record, ordered),
        curves=_curves(ordered),
    )


def _length_entry(
    mixed: MixedLengths,
    record: SweepRecord,
    answer: Answer | None,
    mix_advice: Recommendation | None,
) -> LengthEntry:
    run = record.run_at(mixed.lengths)
    entry = LengthEntry(
        lengths=mixed.lengths,
        share=mixed.share,
        run_id=run.run_id if run else None,
        finished=answer is not None,
        limited_to=run.limited_to if run else (),
        between=run.between if run else (),
    )
    if answer is None:
        return entry
    advice = answer.recommendation
    return msgspec.structs.replace(
        entry,
        answer=AnswerSummary.of(answer),
        machine_unfit=is_unfit(answer.results),
        cells=_cells(answer, advice, mix_advice) if advice else (),
    )


def _cells(
    answer: Answer, advice: Recommendation, mix_advice: Recommendation | None
) -> tuple[SweepCell, ...]:
    """Return the best arm at each batch size; with a single size it is the advised one."""
    speedups = {
        (entry.arm, cell.batch_size): cell.speedup
        for entry in answer.results.measurements
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
        for size in answer.question.batch_sizes
        if (arm := best.get(size, advice.arm)) and (arm, size) in speedups
    )


def _curves(answers: Mapping[Lengths, Answer]) -> tuple[ArmCurve, ...]:
    points: dict[str, list[CurvePoint]] = {}
    for lengths, answer in answers.items():
        for entry in answer.results.measurements:
            point = CurvePoint(lengths=lengths, speedup=entry.speedup)
            points.setdefault(entry.arm, []).append(point)
    return tuple(ArmCurve(arm=arm, points=tuple(found)) for arm, found in points.items())
