"""Compute results, scores and a recommendation from stored events.

Reads the run and has no other effect.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

import msgspec

from advisor.catalogue.criteria import read_rubric
from advisor.catalogue.rubric_files import read_shipped_accuracy, read_shipped_rubric
from advisor.domain.constraints import Constraint
from advisor.domain.event_folding import fold
from advisor.domain.model import has_random_weights
from advisor.domain.priorities import Priorities
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import Results
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent, end_cause
from advisor.domain.run_state import RunState
from advisor.domain.scores import ScoredArm
from advisor.errors import BudgetSpentError, ExportFileError, RunFileError, UserError
from advisor.measure import trained_loss
from advisor.measure.serving import add_servers
from advisor.measure.summary import summarise
from advisor.pipeline.advice import advise, with_preferences
from advisor.pipeline.stored import other_platforms, replay
from advisor.pipeline.stored.arms import plan_of
from advisor.pipeline.stored.baseline_failure import can_go_on, find_failure
from advisor.pipeline.stored.survey_findings import collect_findings
from advisor.question.constraints import check_constraints
from advisor.score import architecture_survey, performance_portability, scoring
from advisor.store.runs import Run


@dataclasses.dataclass(frozen=True)
class Decision:
    """The results, grades, scores and recommendation of a run.

    `problem` is the reason when there is no recommendation.
    """

    header: Header
    state: RunState
    results: Results
    rated: scoring.RatedArms
    scored: tuple[ScoredArm, ...]
    recommendation: Recommendation | None
    problem: UserError | None
    #: Whether a process still measured the run when its events were read.
    in_progress: bool = False

    @property
    def is_resumable(self) -> bool:
        """Whether the rest of the run can be executed as the run is."""
        state = self.state
        return state.plan is not None and not state.finished and can_go_on(state)


def decide(
    run: Run,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
    platforms: Sequence[Run] = (),
) -> Decision:
    """Score the arms of a stored run and recommend one; the same events give the same decision.

    Priorities, constraints, a rubric and runs on other platforms replace those of the run. Raise
    `RunFileError` if the stored events contradict each other or the header, and `PriorityError`
    for constraints on figures that the run's task does not measure.
    """
    is_active, header, state = run.is_active(), run.header(), run.state()
    check_constraints(constraints or (), header.question.task)
    if platforms:
        others = other_platforms.load_platforms(platforms, header)
        state = msgspec.structs.replace(state, platforms=others)
    header = with_preferences(header, priorities, constraints)
    if rubric:
        catalogue = msgspec.structs.replace(header.catalogue, rubric=read_rubric(rubric))
        header = msgspec.structs.replace(header, catalogue=catalogue)
    try:
        decision = evaluate(header, state)
    except (ArithmeticError, LookupError, ValueError) as problem:
        raise RunFileError(
            f"the events in {run.directory} contradict each other: {problem!r}",
            "if p3-advisor wrote them, report it with the directory; else delete the run",
        ) from problem
    return dataclasses.replace(decision, in_progress=is_active and not state.finished)


def evaluate(header: Header, state: RunState, *, while_running: bool = False) -> Decision:
    """Summarise and score a run as far as it has come, and recommend an arm.

    With `while_running` equal workers may differ so far; see `recommend`.
    """
    header = with_shipped_rules(header)
    races = replay.results_by_batch_size(state, header.question)
    results = summarise(
        state,
        races,
        dtype=header.question.dtype,
        noise=header.catalogue.presets.noise,
    )
    surveys = architecture_survey.summarise_surveys(
        collect_findings(state, header.question), header.catalogue.panel
    )
    platforms = (other_platforms.platform_of(header, state, results), *state.platforms)
    portability = (
        performance_portability.compare_platforms(platforms, header.catalogue.workflows)
        if results.measurements
        else None
    )
    results = msgspec.structs.replace(results, surveys=surveys, portability=portability)
    results = add_servers(results, state, header.question, header.catalogue.presets.noise)
    results = with_losses(results, state, header)
    rated = scoring.rate_arms(results, header.catalogue)
    return weigh_and_recommend(header, state, results, rated, while_running=while_running)


def with_losses(results: Results, state: RunState, header: Header) -> Results:
    """Return the results with what each arm loses of a trained model, if the question asks."""
    question, rules = header.question, header.catalogue.accuracy
    if rules is None or rules.losses is None or not (question.quantised or question.metric):
        return results
    return trained_loss.add_losses(
        results,
        state,
        rules.losses,
        has_random_weights=has_random_weights(question.model),
        seed=question.seed,
    )


def with_shipped_rules(header: Header) -> Header:
    """Return the header; the shipped rules replace those that an early version did not have.

    These are the grades of the rubric and the rules of accuracy.
    """
    catalogue = header.catalogue
    if not catalogue.rubric.has_grades:
        catalogue = msgspec.structs.replace(catalogue, rubric=read_shipped_rubric())
    if catalogue.accuracy is None:
        catalogue = msgspec.structs.replace(catalogue, accuracy=read_shipped_accuracy())
    return msgspec.structs.replace(header, catalogue=catalogue)


def evaluate_imported(header: Header, events: Iterable[LoggedEvent], name: str) -> Decision:
    """Decide on a run read from the export file `name`.

    Raise `ExportFileError` if its figures contradict each other.
    """
    try:
        return evaluate(header, fold(events))
    except (ArithmeticError, LookupError, ValueError) as problem:
        raise ExportFileError(
            f"the figures in {name} contradict each other: {problem}",
            "ask the sender for another export of the run",
        ) from problem


def rescore(
    decision: Decision, priorities: Priorities, constraints: tuple[Constraint, ...]
) -> Decision:
    """Decide again from the same results and grades with other priorities and constraints.

    Fast enough to run while a weight is being dragged on a screen.
    """
    header = with_preferences(decision.header, priorities, constraints)
    rescored = weigh_and_recommend(header, decision.state, decision.results, decision.rated)
    return dataclasses.replace(rescored, in_progress=decision.in_progress)


def weigh_and_recommend(
    header: Header,
    state: RunState,
    results: Results,
    rated: scoring.RatedArms,
    *,
    scope: str = "",
    while_running: bool = False,
) -> Decision:
    """Decide from the results and grades of a run; see `advise`.

    Without a measured arm the problem is what ended the run early, if that is known.
    """
    advice = advise(
        header,
        results,
        rated,
        plan_of(state).excluded,
        scope=scope,
        while_running=while_running,
    )
    problem = advice.problem
    if not advice.scored:
        problem = _early_end(state) or problem
    return Decision(header, state, results, rated, advice.scored, advice.recommendation, problem)


def _early_end(state: RunState) -> UserError | None:
    """Return the reason why a run measured no arm; None if it is not known."""
    if "out-of-time" in {end_cause(closed) for closed in state.closed.values()}:
        return BudgetSpentError(
            "the measuring time ended before any arm was measured",
            "allow more with --budget",
        )
    return find_failure(state)
