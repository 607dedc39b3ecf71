"""Compute the answer of a run from its events, or again from its results."""

from __future__ import annotations

import msgspec

from advisor.decide import performance_portability, scoring, trained_loss, unmeasured
from advisor.decide.race import results_by_shape
from advisor.decide.recommend import recommend
from advisor.decide.serving import add_servers
from advisor.decide.summary import collect_results
from advisor.domain import errors
from advisor.domain.answer import Answer, Problem, is_out_of_time
from advisor.domain.arm_figures import START
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import Constraint, Priorities, check_constraints
from advisor.domain.question import Question
from advisor.domain.results import Platform, Results
from advisor.domain.run_state import Header, RunState

#: How an arm ends whose outputs were wrong or varied.
WRONG = {"incorrect", "nondeterministic"}


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
    `while_running` equal workers may differ so far; see `recommend`.
    """
    results = _results_of_run(header, state)
    question = header.question
    if not (state.starts or state.finished):  # starts come last
        others = tuple(each for each in question.constraints if each.quantity != START)
        question = msgspec.structs.replace(question, constraints=others)
    early_end = None if results.measurements else _early_end(state, question)
    undecided = Answer(
        run_id=header.run_id,
        created=header.created,
        advisor_version=header.advisor_version,
        rubric=header.catalogue.rubric.name,
        finished=state.finished,
        resumable=None if state.finished else state.can_go_on,
        times_remeasured=state.times_remeasured,
        foreign=header.foreign,
        question=question,
        machine=header.machine,
        quiet_check=state.quiet_check,
        results=results,
        scores=(),
        unmeasured=unmeasured.list_unmeasured(header, state, results, early_end),
        recommendation=None,
        problem=Problem.of(early_end),
        provenance=provenance,
    )
    answer = _with_advice(undecided, header.catalogue, while_running=while_running)
    return msgspec.structs.replace(answer, question=header.question)


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
    again = msgspec.structs.replace(
        answer, question=question, rubric=known.rubric.name, recommendation=None, problem=None
    )
    return _with_advice(again, known)


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


def _with_advice(answer: Answer, catalogue: Catalogue, *, while_running: bool = False) -> Answer:
    """Return the answer with scores, best first, and the advice or a problem if it has none."""
    question, results, evidence = answer.question, answer.results, answer.evidence
    rules = catalogue.accuracy.with_tolerance(question.accuracy)
    scored = msgspec.structs.replace(
        answer,
        tolerance=rules.close["tolerance"] if answer.tolerance is None else answer.tolerance,
        scores=scoring.score_arms(results, question, catalogue, evidence),
    )
    if answer.problem is not None:
        return scored
    by_shape = scoring.score_by_shape(results, question, catalogue, evidence)
    outstanding = _outstanding(scored, catalogue)
    try:
        advice = recommend(
            scored, catalogue, by_shape, outstanding=outstanding, while_running=while_running
        )
    except errors.UserError as error:
        return msgspec.structs.replace(scored, problem=Problem.of(error))
    return msgspec.structs.replace(scored, recommendation=advice)


def _outstanding(answer: Answer, catalogue: Catalogue) -> dict[str, float]:
    """Return the score that each arm may have that timed out, was not reached or could not lead.

    The highest score is first.

    Where an arm of its workflow was measured, only one for which no time was left counts; where
    none was, and one returned wrong or varying outputs, none counts.
    """
    results = answer.results
    known = {each.workflow for each in results.measurements}
    wrong = {each.workflow for each in answer.unmeasured if each.status in WRONG} - known
    too_slow = {served.arm for served in results.serving.arms} if results.serving else set()
    found = {}
    for each in answer.unmeasured:
        is_open = each.is_cut_off or each.skip_cause == "cannot-lead"
        is_possible = is_out_of_time(each) or (each.workflow not in known and is_open)
        if each.arm in too_slow or each.workflow in wrong or not is_possible:
            continue
        if potential := scoring.potential_of(each, answer, catalogue):
            found[each.arm] = potential.score_with_bonus
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _early_end(state: RunState, question: Question) -> errors.UserError | None:
    """Return the reason why a run measured no arm; None if it is not known."""
    if "out-of-time" in {closed.cause for closed in state.closed.values()}:
        return errors.BudgetSpentError(
            "the measuring time ended before any arm was measured",
            unmeasured.more_time(state, question),
        )
    return state.early_error
