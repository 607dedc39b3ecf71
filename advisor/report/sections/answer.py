"""The lines of an answer: the instruction, whether the run finished, and how certain it is."""

from __future__ import annotations

from advisor.domain.model import short_name
from advisor.domain.recommendation import Flip, Recommendation
from advisor.domain.run import resume_command
from advisor.errors import MachineUnfitError
from advisor.recommendation.headline_facts import join_names
from advisor.report.documents.document import PUBLISHED, RunDocument
from advisor.report.documents.machine_fitness import was_machine_unfit
from advisor.report.sections.cost import cost_line
from advisor.system.number_format import format_bound, format_share

#: Beginning of the error that the machine was not fit to measure on.
NO_ANSWER = "No answer: "
#: Beginning of an answer from published figures.
FROM_FIGURES = "Not measured. By published figures: "
#: Stands next to figures that were measured all the same.
UNFIT_NOTICE = (
    "The figures of this run were measured while the machine was busy or unsteady: do not use them."
)
#: The same with a decision, for which the differences between equal workers count as noise.
UNSTEADY_NOTICE = (
    "The machine was busy or unsteady. The decision allows for that; "
    "do not rely on the speed of a single arm."
)


def headline(document: RunDocument) -> str:
    """Return the instruction, or why there is none."""
    advice = document.recommendation
    if advice is None:
        problem = document.problem.what if document.problem else "nothing was decided"
        return problem if problem.startswith(NO_ANSWER) else f"No recommendation: {problem}"
    if advice.headline:
        return advice.headline[0]
    model, device = short_name(document.question.model), document.device_name
    titles = document.titles
    advised = titles.get(advice.arm, advice.arm)
    if document.run_id == PUBLISHED:
        return f"{FROM_FIGURES}use {advised} for {model} on {device}"
    if advice.ties:
        others = join_names([titles.get(arm, arm) for arm in advice.ties])
        return f"Tie for {model} on {device}: use {advised}, or as well {others}"
    return f"Use {advised} for {model} on {device}"


def has_unfit_problem(document: RunDocument) -> bool:
    """Return whether there is no answer because the machine was not fit to measure on."""
    return document.problem is not None and document.problem.name == MachineUnfitError.name


def unfit_notice(document: RunDocument) -> list[str]:
    """Return a line where figures must not be used, with or without an answer."""
    if not (has_unfit_problem(document) or was_machine_unfit(document)):
        return []
    return [UNFIT_NOTICE if document.recommendation is None else UNSTEADY_NOTICE]


def caveats(document: RunDocument) -> list[str]:
    """Return what a recipe has to state on its run: that it has no answer, or unusable figures."""
    no_answer = [] if document.recommendation else [f"{headline(document).rstrip('.')}."]
    return [*no_answer, *unfit_notice(document)]


def stop_notice(document: RunDocument) -> list[str]:
    """Return a line for a run that did not finish, with the command that resumes a stored one."""
    if document.finished:
        return []
    if document.imported or document.provenance or document.rerun_command:
        return ["The run did not finish."]
    command = resume_command(document.run_id)
    if document.resumable is False:
        again = "It fails again with the same model and environment"
        return [f"The run did not finish. {again}; {command} resumes it after a change of either."]
    return [f"The run did not finish; {command} resumes it."]


def confidence(document: RunDocument) -> list[str]:
    """Return the rest of the headline, and the trust with the noise floor and the lead."""
    advice, race = document.recommendation, document.race
    origin = [f"Imported: {document.provenance.summary}"] if document.provenance else []
    if advice is None:
        next_step = [f"Next: {document.problem.next_step}"] if document.problem else []
        return [*origin, *next_step, *unfit_notice(document)]
    lead = (
        f"lead {advice.margin:+.2f} over {document.titles.get(advice.runner_up, advice.runner_up)}"
        if advice.runner_up and advice.margin is not None
        else "no runner-up"
    )
    if document.run_id == PUBLISHED:
        return [f"Trust: {_describe_trust(advice)} Score: {lead}.", *flip_lines(document)]
    floor = race.noise_floor if race else None
    noise = "not known" if floor is None else format_share(floor, decimals=1)
    evidence = f"Trust: {_describe_trust(advice)} Noise floor: {noise}. Score: {lead}."
    if advice.headline:
        lines = [*advice.headline[1:], *_cost(document, advice), *origin, evidence]
    else:
        lines = [*origin, f"Speeds: {advice.verdict}. {evidence}", *flip_lines(document)]
    return [*lines, *unfit_notice(document)]


def _describe_trust(advice: Recommendation) -> str:
    """Return the grade of the evidence with the first reason why it is not higher."""
    reason = f": {advice.trust_reasons[0]}" if advice.trust_reasons else ""
    return f"{advice.trust} (A best, D lowest){reason}."


def _cost(document: RunDocument, advice: Recommendation) -> list[str]:
    return [
        f"Cost: {cost_line(document, entry)}."
        for entry in document.workflows
        if entry.arm == advice.arm
    ]


def flip_lines(document: RunDocument) -> list[str]:
    """Return a sentence for each weight at which the highest score passes to another arm."""
    advice, priorities = document.recommendation, document.question.priorities
    if advice is None:
        return []
    titles = document.titles
    return [
        _flip_line(
            flip,
            titles.get(flip.to, flip.to),
            getattr(priorities, flip.criterion),
            is_answer=flip.to == advice.arm,
        )
        for flip in advice.flips
    ]


def _flip_line(flip: Flip, title: str, present: float, *, is_answer: bool) -> str:
    """Return the sentence of a flip; an answer may score a little less than its equals."""
    change = (
        f"{title} alone has the highest score" if is_answer else f"The answer changes to {title}"
    )
    return (
        f"{change} if {flip.criterion} weighs "
        f"{format_bound(flip.weight, present, flip.when)} (now {present:g} %)."
    )
