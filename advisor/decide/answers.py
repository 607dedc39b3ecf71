"""Compute the answer of a run from its events, or again from its results."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.decide import performance_portability, scoring, trained_loss, unmeasured
from advisor.decide.certainty import Contest
from advisor.decide.race import results_by_shape
from advisor.decide.recommend import recommend
from advisor.decide.results import collect_results
from advisor.decide.serving import add_servers
from advisor.domain import errors
from advisor.domain.answer import Answer, Problem, UnmeasuredArm
from advisor.domain.arm_figures import START
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import Constraint, Priorities, check_constraints
from advisor.domain.machine import Machine
from advisor.domain.question import Question
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import Evidence, Platform, Results
from advisor.domain.run_state import Header, RunState


def with_preferences(
    question: Question, priorities: Priorities | None, constraints: tuple[Constraint, ...] | None
) -> Question:
    """Replace what is given, also in the command that asks the question again, if it is known."""
    check_constraints(constraints or (), question.task)
    asked = dict(question.asked)
    if priorities is not None:
        question = msgspec.structs.replace(question, priorities=priorities)
        asked = {**asked, "priority": priorities.option}
        asked.pop("preset", None)
    if constraints is not None:
        question = msgspec.structs.replace(question, constraints=constraints)
        asked["require"] = question.required
    return msgspec.structs.replace(question, asked=asked if question.asked else {})


def answer_from_state(
    header: Header, state: RunState, *, provenance: str = "", while_running: bool = False
) -> Answer:
    """Summarise and score a run as far as it has come, and recommend an arm.

    `provenance` is where a question about a GPU that is not attached was measured. With
    `while_running` equal workers may differ so far; see `Contest`.
    """
    results, question, catalogue = _results_of_run(header, state), header.question, header.catalogue
    if not (state.starts or state.finished):  # starts come last
        others = tuple(each for each in question.constraints if each.quantity != START)
        question = msgspec.structs.replace(question, constraints=others)
    early_end = None if results.measurements else _early_end(state, question)
    missing = unmeasured.list_unmeasured(header, state, results, early_end)
    evidence: Evidence = "imported" if header.foreign or provenance else "measured"
    scores = scoring.score_arms(results, question, catalogue, evidence)
    advice, problem = None, Problem.of(early_end)
    if problem is None:
        contest = Contest(results, scores, question, catalogue, while_running=while_running)
        advice, problem = _advise(contest, header.machine, missing, provenance)
    return Answer(
        run_id=header.run_id,
        created=header.created,
        advisor_version=header.advisor_version,
        rubric=catalogue.rubric.name,
        finished=state.finished,
        resumable=None if state.finished else state.can_go_on,
        times_remeasured=state.times_remeasured,
        foreign=header.foreign,
        question=header.question,
        machine=header.machine,
        quiet_check=state.quiet_check,
        results=results,
        tolerance=_tolerance(question, catalogue),
        scores=scores,
        unmeasured=missing,
        recommendation=advice,
        problem=problem,
        provenance=provenance,
    )


def answer_from_stored(
    header: Header,
    state: RunState,
    place: str,
    next_step: str = "if p3-advisor wrote them, report it with the directory; else delete the run",
    provenance: str = "",
) -> Answer:
    """Evaluate what is stored in a place; raise `RunFileError` if its events cannot be true."""
    what = f"the events in {place} contradict each other"
    with errors.reported_as(
        errors.RunFileError, what, next_step, (ArithmeticError, LookupError, ValueError)
    ):
        return answer_from_state(header, state, provenance=provenance)


def _results_of_run(header: Header, state: RunState) -> Results:
    question, catalogue = header.question, header.catalogue
    results = _results_of_arms(header, state)
    platforms = (performance_portability.platform_of(header, state, results), *state.platforms)
    portability = (
        performance_portability.compare_platforms(platforms, catalogue.workflows)
        if results.measurements
        else None
    )
    results = msgspec.structs.replace(results, portability=portability)
    results = add_servers(results, state, question, catalogue.presets.noise)
    if not (question.quantised or question.metric):
        return results
    return trained_loss.add_losses(results, state, question, catalogue.accuracy.losses)


def _results_of_arms(header: Header, state: RunState) -> Results:
    """Return what its arms have measured, without servers, losses and other platforms."""
    question = header.question
    races = results_by_shape(state, question)
    return collect_results(state, races, question, header.catalogue.presets.noise)


def platform_of_run(header: Header, state: RunState) -> Platform:
    return performance_portability.platform_of(header, state, _results_of_arms(header, state))


def answer_from_results(
    answer: Answer,
    catalogue: Catalogue,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
) -> Answer:
    """Return the answer with the scores and the advice that its results give now.

    What is declared about the workflows comes from `catalogue`. Fast enough to run while a weight
    is being dragged on a screen. Raise `OptionValueError` for constraints on figures that the run's
    task does not measure, and `ExportFileError` for an answer without measurements, or of workflows
    that are not known.
    """
    question = with_preferences(answer.question, priorities, constraints)
    if answer.problem is not None and not answer.results.measurements:
        return answer  # nothing can be decided, and the problem says why
    _check_figures(answer, catalogue)
    known = catalogue.for_question(question)
    scores = scoring.score_arms(answer.results, question, known, answer.evidence)
    contest = Contest(answer.results, scores, question, known)
    advice, problem = _advise(contest, answer.machine, answer.unmeasured, answer.provenance)
    return msgspec.structs.replace(
        answer,
        question=question,
        rubric=known.rubric.name,
        tolerance=_tolerance(question, known) if answer.tolerance is None else answer.tolerance,
        scores=scores,
        recommendation=advice,
        problem=problem,
    )


def _check_figures(answer: Answer, catalogue: Catalogue) -> None:
    unknown = {each.workflow for each in answer.results.measurements} - {
        workflow.id for workflow in catalogue.workflows
    }
    if unknown or answer.baseline is None:
        again = answer.rerun_command
        raise errors.ExportFileError(
            f"the answer of run {answer.run_id} has no measurements that can be decided on",
            f"ask again: {again}" if again else "decide on the run itself",
        )


def _tolerance(question: Question, catalogue: Catalogue) -> float:
    return catalogue.accuracy.with_tolerance(question.accuracy).close["tolerance"]


def _advise(
    contest: Contest, machine: Machine, missing: Sequence[UnmeasuredArm], provenance: str
) -> tuple[Recommendation | None, Problem | None]:
    """Return the advice, or the problem if there is none."""
    try:
        return recommend(contest, machine, missing, imported=bool(provenance)), None
    except errors.UserError as error:
        return None, Problem.of(error)


def _early_end(state: RunState, question: Question) -> errors.UserError | None:
    """Return the reason why a run measured no arm; None if it is not known."""
    if "out-of-time" in {closed.cause for closed in state.closed.values()}:
        return errors.BudgetSpentError(
            "the measuring time ended before any arm was measured",
            unmeasured.more_time(state, question),
        )
    return state.early_error
