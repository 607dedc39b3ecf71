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
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import Constraint
from advisor.domain.event_folding import fold
from advisor.domain.machine import Cpu, Gpu, describe_device
from advisor.domain.model import has_random_weights, short_name
from advisor.domain.priorities import Priorities
from advisor.domain.question import Question
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import EQUIVALENCE_MARGIN, Results
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent, end_cause
from advisor.domain.run_state import RunState
from advisor.domain.scores import ScoredArm
from advisor.errors import BudgetSpentError, ExportFileError, RunFileError, UserError
from advisor.measure import trained_loss
from advisor.measure.serving import add_servers
from advisor.measure.summary import summarise
from advisor.pipeline.stored import other_platforms, replay
from advisor.pipeline.stored.arms import plan_of
from advisor.pipeline.stored.baseline_failure import can_go_on, find_failure
from advisor.pipeline.stored.survey_findings import collect_findings
from advisor.question.constraints import check_constraints
from advisor.recommendation.decision_context import DecisionContext
from advisor.recommendation.recommend import recommend
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
    changes = {"priorities": priorities, "constraints": constraints}
    question = msgspec.structs.replace(
        header.question, **{name: value for name, value in changes.items() if value is not None}
    )
    catalogue = header.catalogue
    if rubric:
        catalogue = msgspec.structs.replace(catalogue, rubric=read_rubric(rubric))
    header = msgspec.structs.replace(header, question=question, catalogue=catalogue)
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
        margin=EQUIVALENCE_MARGIN,
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
    question = msgspec.structs.replace(
        decision.header.question, priorities=priorities, constraints=constraints
    )
    header = msgspec.structs.replace(decision.header, question=question)
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
    """Score the rated arms with the weights of the question, and recommend one if possible.

    `scope` follows model and device in the headline.
    """
    scored = scoring.weigh_arms(rated.overall, header.question)
    try:
        causes = {end_cause(closed) for closed in state.closed.values()}
        if not scored and "out-of-time" in causes:
            raise BudgetSpentError(
                "the measuring time ended before any arm was measured",
                "allow more with --budget",
            )
        failure = None if scored else find_failure(state)
        if failure is not None:
            raise failure
        context = _context_of(header, rated, scope)
        excluded = plan_of(state).excluded
        advice = recommend(
            results, scored, header.question, excluded, context, while_running=while_running
        )
    except UserError as problem:
        return Decision(header, state, results, rated, scored, None, problem)
    return Decision(header, state, results, rated, scored, advice, None)


def _context_of(header: Header, rated: scoring.RatedArms, scope: str) -> DecisionContext:
    """Return the context of the run; `scope` follows model and device in its subject."""
    question, machine = header.question, header.machine
    context = decision_context(
        rated, question, header.catalogue, machine.cpu, machine.find_gpu(question.gpu)
    )
    return dataclasses.replace(context, subject=context.subject + scope)


def decision_context(
    rated: scoring.RatedArms, question: Question, catalogue: Catalogue, cpu: Cpu, gpu: Gpu | None
) -> DecisionContext:
    """Return what the catalogue and the device add to the scores; `gpu` is None on a CPU."""
    count = question.devices_per_model
    return DecisionContext(
        rubric=catalogue.rubric,
        by_batch_size=scoring.weigh_by_batch_size(rated, question),
        guidelines=catalogue.guidelines,
        tree=catalogue.tree,
        workflows=catalogue.workflows,
        budgets=tuple(catalogue.presets.budgets.values()),
        device_bytes=gpu.memory_bytes * count if gpu else None,
        subject=f"{short_name(question.model)} on {describe_device(cpu, gpu, count)}",
    )
