"""Store a new sweep, and draft the run of its next length."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from advisor.context import Context
from advisor.domain.answer import Answer
from advisor.domain.machine import Machine
from advisor.domain.sweep import (
    ID_PREFIX,
    RECORD_SCHEMA,
    Lengths,
    MixedLengths,
    SweepRecord,
    SweepRun,
)
from advisor.errors import GpuNotAttachedError, SweepError, UnknownGpuError
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import DraftRun, create, propose
from advisor.pipeline.sweeps import planning
from advisor.pipeline.sweeps.planning import SweepStep
from advisor.question.answers import Answers
from advisor.question.sweep import check_answers, check_question
from advisor.store.runs import Run
from advisor.store.store import Store


def new_record(answers: Answers, mix: Sequence[MixedLengths], context: Context) -> SweepRecord:
    """Return the record of a new sweep, not stored yet; raise `SweepError`."""
    check_answers(answers)
    created = context.now()
    return SweepRecord(
        schema=RECORD_SCHEMA,
        sweep_id=ID_PREFIX + context.new_id(created),
        created=created.isoformat(timespec="seconds"),
        answers=msgspec.to_builtins(answers),
        mix=tuple(mix),
    )


def start_sweep(answers: Answers, mix: Sequence[MixedLengths], context: Context) -> Run:
    """Store a new sweep with the run of its first length; return the run."""
    record = new_record(answers, mix, context)
    first = planning.next_step([each.lengths for each in mix], {}) or SweepStep(mix[0].lengths)
    return start_run(record, first, {}, context)[0]


def next_step(record: SweepRecord, answers: Mapping[Lengths, Answer]) -> SweepStep | None:
    """Return the next step of a sweep; None when every length has an answer."""
    findings = {
        lengths: planning.finding_of(answer.recommendation) for lengths, answer in answers.items()
    }
    return planning.next_step([each.lengths for each in record.mix], findings)


class NextRun(NamedTuple):
    """The run of a sweep that is executed next."""

    run: Run
    lengths: Lengths
    #: The sweep with this run.
    record: SweepRecord
    #: Null for a run that was started before.
    step: SweepStep | None


def runs_left(
    record: SweepRecord, answers: dict[Lengths, Answer], context: Context
) -> Iterator[NextRun]:
    """Yield the runs to execute, one after the other, until every length has an answer.

    A run is decided, and added to `answers`, when the next one is asked for.
    """
    while (found := next_run(record, answers, context)) is not None:
        record = found.record
        yield found
        answers[found.lengths] = decide(found.run)


def next_run(
    record: SweepRecord, answers: Mapping[Lengths, Answer], context: Context
) -> NextRun | None:
    """Return the run to execute, stored with the sweep; None when every length has an answer."""
    started = find_unfinished(record, answers, context.store)
    if started is not None:
        return NextRun(context.store.find(started.run_id), started.lengths, record, None)
    step = next_step(record, answers)
    if step is None:
        return None
    run, record = start_run(record, step, answers, context)
    return NextRun(run, step.lengths, record, step)


def find_unfinished(
    record: SweepRecord, answers: Mapping[Lengths, Answer], store: Store
) -> SweepRun | None:
    """Return a stored run of the sweep that was started and has no decision yet."""
    return next(
        (run for run in record.runs if run.lengths not in answers and store.has_run(run.run_id)),
        None,
    )


def start_run(
    record: SweepRecord, step: SweepStep, answers: Mapping[Lengths, Answer], context: Context
) -> tuple[Run, SweepRecord]:
    """Store the run of a step and the record with it; return both."""
    run = create(_draft(record, step, answers, context), context)
    record = record.with_run(
        SweepRun(
            lengths=step.lengths,
            run_id=run.directory.name,
            limited_to=step.limited_to,
            between=step.between,
        )
    )
    context.store.sweeps.save(record)
    return run, record


def _draft(
    record: SweepRecord, step: SweepStep, answers: Mapping[Lengths, Answer], context: Context
) -> DraftRun:
    """Return the draft of a step with its part of the budget."""
    draft = _propose(_options_of(record, step, answers), record.mix, context)
    spent = sum(
        planning.spent_seconds(context.store.find(answer.run_id).events(), answer.question.budget)
        for answer in answers.values()
    )
    left = len(record.mix) - len(answers)
    budget = planning.share_budget(draft.question.budget, spent, left)
    question = msgspec.structs.replace(draft.question, budget=budget)
    return dataclasses.replace(draft, question=question)


def propose_sweep(
    answers: Answers,
    mix: Sequence[MixedLengths],
    context: Context,
    detected: Machine | None = None,
) -> DraftRun:
    """Return the draft of the shortest length, with the measuring time of all; raise `SweepError`.

    `detected` is the machine with its interpreter if the caller has detected it already.
    """
    check_answers(answers)
    shortest = msgspec.structs.asdict(mix[0].lengths)
    return _propose(msgspec.structs.replace(answers, **shortest), mix, context, detected)


def _propose(
    answers: Answers,
    mix: Sequence[MixedLengths],
    context: Context,
    detected: Machine | None = None,
) -> DraftRun:
    """Return the draft of a run of a sweep."""
    try:
        draft = propose(answers, context, detected)
    except (GpuNotAttachedError, UnknownGpuError) as absent:
        raise SweepError(
            f"a sweep measures on a device that is attached: {absent.what}",
            "ask with one length for an answer from stored runs or published figures",
        ) from absent
    check_question(draft.question, mix)
    return draft


def _options_of(record: SweepRecord, step: SweepStep, answers: Mapping[Lengths, Answer]) -> Answers:
    """Return the options of the run of a step."""
    options = msgspec.convert(record.answers, Answers)
    asked = [part.strip() for part in options.workflows.split(",") if part.strip()]
    measured = next(iter(answers.values()), None)
    return msgspec.structs.replace(
        options,
        input_tokens=step.lengths.input_tokens,
        output_tokens=step.lengths.output_tokens,
        workflows=",".join(planning.limit_workflows(asked, step.limited_to)),
        # A limit must not change the task, which depends on the named workflows.
        task=measured.question.task if measured else options.task,
    )
