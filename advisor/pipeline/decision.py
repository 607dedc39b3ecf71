"""Stored happenings -> results, scores and a decision: the stages after the measuring, in their order. Pure but for reading the run."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

import msgspec

from advisor import catalogue, measure, recommend, score
from advisor.domain.decision import Recommendation, ScoredArm
from advisor.domain.measurement import Results
from advisor.domain.question import Constraint, Priorities
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import RunState, fold
from advisor.errors import BudgetSpentError, ExportFileError, UserError
from advisor.pipeline import other_platforms, racing, replay
from advisor.pipeline import survey as surveying
from advisor.pipeline.arms import plan_of
from advisor.score import architecture_survey, performance_portability
from advisor.store import Run


@dataclasses.dataclass(frozen=True)
class Decision:
    """What follows from a run's state; without a recommendation `problem` says why there is none."""

    header: Header
    state: RunState
    results: Results
    scored: tuple[ScoredArm, ...]
    recommendation: Recommendation | None
    problem: UserError | None


def decide(
    run: Run,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
    platforms: Sequence[Run] = (),
) -> Decision:
    """Score and decide from what is stored; the same run gives the same answer.

    Other priorities, constraints, rubric and runs on other platforms take the place of the run's
    own.
    """
    header, state = run.header(), run.state()
    if platforms:
        state = msgspec.structs.replace(state, platforms=other_platforms.named(platforms, header))
    changes = {"priorities": priorities, "constraints": constraints}
    asked = msgspec.structs.replace(
        header.question, **{name: value for name, value in changes.items() if value is not None}
    )
    known = (
        msgspec.structs.replace(header.catalogue, rubric=catalogue.read_rubric(rubric))
        if rubric
        else header.catalogue
    )
    return judge(msgspec.structs.replace(header, question=asked, catalogue=known), state)


def judge(header: Header, state: RunState) -> Decision:
    """Summarise, score and decide, as far as the run has come."""
    races = replay.results_by_batch_size(state, header.question)
    results = measure.summarise(state, races, dtype=header.question.dtype, margin=recommend.EPSILON)
    surveys = architecture_survey.summarise(
        surveying.findings_of(state, header.question), header.catalogue.panel
    )
    platforms = (other_platforms.describe(header, state, results), *state.platforms)
    carried = (
        performance_portability.compare(platforms, header.catalogue.workflows)
        if results.measurements
        else None
    )
    return _advise(
        header, state, msgspec.structs.replace(results, surveys=surveys, portability=carried)
    )


def examine(header: Header, events: Iterable[LoggedEvent], name: str) -> Decision:
    """Decide on a run that was read from elsewhere; raise `ExportFileError` when its figures are such that nobody can."""
    try:
        return judge(header, fold(events))
    except (ArithmeticError, LookupError, ValueError) as problem:
        raise ExportFileError(
            f"the figures in {name} are none that a run can have: {problem}",
            "ask the sender what it is",
        ) from problem


def reconsider(
    decision: Decision, priorities: Priorities, constraints: tuple[Constraint, ...]
) -> Decision:
    """Decide again from the same results with other priorities and constraints: quick enough to be done while a weight is moved."""
    asked = msgspec.structs.replace(
        decision.header.question, priorities=priorities, constraints=constraints
    )
    return _advise(
        msgspec.structs.replace(decision.header, question=asked), decision.state, decision.results
    )


def advise(
    header: Header, state: RunState, results: Results, scored: tuple[ScoredArm, ...]
) -> Recommendation:
    """Recommend one of the scored arms with all that the catalogue and the machine add; raise `NothingViableError` for none."""
    known, asked = header.catalogue, header.question
    gpu = header.machine.find_gpu(asked.gpu)
    return recommend.recommend(
        results,
        scored,
        asked,
        plan_of(state).excluded,
        known.guidelines,
        tree=known.tree,
        workflows=known.workflows,
        device_bytes=gpu.memory_bytes if gpu else None,
    )


def _advise(header: Header, state: RunState, results: Results) -> Decision:
    scored = score.score(results, header.question, header.catalogue)
    try:
        if not scored and racing.OUT_OF_TIME in state.closed.values():
            raise BudgetSpentError(
                "the measuring time was spent before there was anything to decide on",
                "allow more with --budget",
            )
        advice = advise(header, state, results, scored)
    except UserError as problem:
        return Decision(header, state, results, scored, None, problem)
    return Decision(header, state, results, scored, advice, None)
