"""The lines of an answer: whether the run finished, how certain it is, and what to do next."""

from __future__ import annotations

import math

from advisor.ask.catalogue_files import read_shipped
from advisor.domain import text
from advisor.domain.accuracy import why_unchecked, worst_check
from advisor.domain.answer import AdvisedAnswer, Answer, is_out_of_time
from advisor.domain.constraints import DEFAULT_PRIORITIES
from advisor.domain.measurement import AGAINST_BREAKS
from advisor.domain.model import OnnxModel
from advisor.domain.plan import EAGER
from advisor.recipes.server import REQUEST, serving_lines
from advisor.recipes.snippet import IMPORT_TORCH, KEEPS_MEMORY, call_as_given, lines_for, shorten
from advisor.report.advice_lines import describe_steps, trust_reasons
from advisor.report.advised_arm import describe_changed_states, keeps_memory
from advisor.report.cost import cost_line
from advisor.report.formatting import PLACE
from advisor.report.headline import certainty_line, first_line, write_headline
from advisor.report.setup_facts import describe_shapes
from probes.facts import TRAINING_MODE

#: Stands next to figures of a machine that was not fit to measure on.
UNFIT_NOTICE = (
    "The machine was busy or unsteady: on a quiet one most speed-ups are within these ranges, and "
    "single figures may be far off."
)
#: The notice instead where all ranges are so wide that tables leave them out.
UNKNOWN_NOTICE = (
    "The machine was busy or unsteady, so almost nothing is known of the speed-ups and scores."
)


def unfit_notice(answer: Answer) -> list[str]:
    """Say what the speed-ups of an unfit machine are worth, unless only the baseline has one."""
    others = [one.speedup for one in answer.ranking if one.arm != answer.results.baseline]
    if not others or not (answer.has_unfit_problem or answer.results.is_unfit):
        return []
    return [UNKNOWN_NOTICE if all(map(text.is_unknown, others)) else UNFIT_NOTICE]


def caveats(answer: Answer) -> list[str]:
    """Return what a recipe has to state on its run: that it has no answer, or unusable figures."""
    no_answer = [] if answer.recommendation else [f"{first_line(answer).rstrip('.')}."]
    return [*no_answer, *unfit_notice(answer)]


def stop_notice(answer: Answer) -> list[str]:
    if answer.finished:
        return []
    if answer.in_progress:
        so_far = "this is its answer so far" if answer.recommendation else "it has no answer yet"
        return [f"The run is still being measured, and {so_far}: {_missing(answer)} so far."]
    stopped = f"The run did not finish: {_missing(answer)}"
    if not answer.is_stored_here:
        return [f"{stopped}."]
    command = f"p3-advisor resume {answer.run_id}"
    if answer.resumable is False:
        again = "It fails again with the same model and environment"
        return [f"{stopped}. {again}; {command} resumes it after a change of either."]
    return [f"{stopped}; {command} resumes it."]


#: Arms of a run that did not finish; further ones are counted.
MOST_MISSING = 3


def _missing(answer: Answer) -> str:
    if arms := [each.title for each in answer.unmeasured if each.is_cut_off]:
        return f"{text.name_some(arms, MOST_MISSING)} not measured"
    if shapes := answer.unmeasured_shapes:
        return f"{describe_shapes(answer, shapes)} not measured"
    if not answer.results.repeats:
        return "no arm was repeated in a fresh process"
    return "the last of its repetitions and checks are missing"


def short_answer_lines(
    answer: Answer, *, has_details: bool = True, has_reasons: bool = True, has_cause: bool = True
) -> list[str]:
    """Return what to use, how certain that is, what it costs, and how far to trust it."""
    decided = AdvisedAnswer.of(answer)
    if decided is None:
        return [*answer_lines(answer), *_graph_breaks(answer)]
    advice, priorities = decided.advice, answer.question.priorities
    is_compared = advice.decision.word is not None
    left_out = {"answer", "certainty", *(("change",) if is_compared or not has_cause else ())}
    certainty = certainty_line(decided, has_reasons=has_reasons)
    further = [line.text for line in write_headline(answer) if line.part not in left_out]
    if priorities != DEFAULT_PRIORITIES and "change" in left_out:
        further.append(f"Your weights: {priorities.describe()}.")
    origin = [f"Imported: {answer.provenance}"] if answer.provenance else []
    cost = f"Cost: {cost_line(answer, decided.advised, has_details=has_details)}. "
    reasons = [each for each in trust_reasons(answer) if each not in certainty]
    trust = [f"Trust {advice.trust}", *(each.partition(":")[0] for each in reasons[:1])]
    if left := len(reasons[1:]):
        trust[-1] += f", and {text.write_count(left, 'other reason')}"
    return [
        first_line(answer),
        *stop_notice(answer),
        certainty,
        *further,
        *_graph_breaks(answer),
        *origin,
        f"{cost}{': '.join(trust if has_cause else trust[:1])}.",
    ]


def _graph_breaks(answer: Answer) -> list[str]:
    advised = answer.advised
    for ranked in [*([advised] if advised else []), *answer.ranking]:
        found = ranked.measured.facts.get("graph_breaks")
        # A file from another machine could have anything here.
        if found and isinstance(found, dict):
            reason = text.shorten_text(next(iter(found)))
            left = len(found) - 1
            more = f"; {text.write_count(left, 'more break')}" if left else ""
            # A limit that is reached has no place.
            at = " at" if PLACE.match(reason) else ":"
            first = f"The graph of {ranked.scored.title} breaks{at} {reason}{more}"
            is_tried = any(each.name == AGAINST_BREAKS for each in ranked.measured.variants)
            # Those that `improve` knows now, whichever version measured the run.
            causes = map(read_shipped().improvements.find_cause, found)
            is_mendable = any(each.lines for each in causes if each)
            may_mend = is_mendable and not is_tried and answer.question.task == "forward"
            return [f"{first}{'; p3-advisor improve tries what mends it' if may_mend else ''}."]
    return []


def code_lines(answer: Answer, most: float = math.inf, part: int = 0) -> list[str]:
    """Return the lines that adopt the advised arm; none for eager PyTorch, which needs none.

    Code with more than `most` lines is cut to `part` lines, and a server without room to its start.
    """
    advised = answer.advised
    if advised is None or advised.arm == EAGER:
        return []
    if answer.question.serves:
        served = serving_lines(answer, advised.arm)
        return served if most else served[: served.index(REQUEST)]
    known = "" if isinstance(answer.question.model, OnnxModel) else IMPORT_TORCH
    size = answer.code_shape(advised).batch_size
    lines = lines_for(answer.question, advised.measured.integration, size)
    if lines and TRAINING_MODE in advised.measured.adjusted:
        lines = f"model.eval()  # it was returned in training mode\n{lines}"
    if lines and keeps_memory(answer):
        lines = f"{KEEPS_MEMORY}\n{lines}"
    if answer.results.inputs is not None:
        lines = call_as_given(answer.question, lines, answer.results.inputs.tensors)
    return shorten(lines, most, part, known)


def answer_lines(answer: Answer) -> list[str]:
    advice, lines = answer.recommendation, [first_line(answer), *stop_notice(answer)]
    origin = [f"Imported: {answer.provenance}"] if answer.provenance else []
    if advice is None:
        goes_on = answer.resumable and not answer.scores  # `stop_notice` has the command
        next_step = [f"Next: {answer.problem.next_step}"] if answer.problem and not goes_on else []
        worst = [worst_check(each.measured.correctness) for each in answer.ranking]
        unchecked = [each for each in worst if each and each.accuracy_class == "unchecked"]
        why = [f"Not all outputs were checked: {why_unchecked(each)}." for each in unchecked[:1]]
        why += describe_changed_states(answer.ranking)
        return [*lines, *origin, *why, *next_step, *unfit_notice(answer), *how_to_remeasure(answer)]
    lead = "no runner-up"
    if advice.runner_up and advice.margin is not None:
        points = round(advice.margin, 2) + 0.0  # without the sign of a negative zero
        lead = f"lead {points:+.2f} over {answer.titles.get(advice.runner_up, advice.runner_up)}"
    floor = answer.results.noise_floor
    noise = "not known" if floor is None else text.format_share(floor, decimals=1)
    trust = f"Trust: {advice.trust} (A best, D lowest)"
    evidence = f"{trust}. Noise floor: {noise}. Score: {lead}."
    lines += [line.text for line in write_headline(answer)[1:]]
    cost = [f"Cost: {cost_line(answer, answer.advised)}."] if answer.advised else []
    return [*lines, *cost, *origin, evidence, *unfit_notice(answer), *how_to_remeasure(answer)]


#: Number of further measurements after which another one will hardly settle the decision.
MOST_TIMES_AGAIN = 2


def how_to_remeasure(answer: Answer) -> list[str]:
    """Return how to go on from a finished run; nothing if its answer is clear.

    Another `resume` is not named where it fails, or has changed nothing.
    """
    found = answer.recommendation.decision if answer.recommendation else None
    is_open = found is not None and found.word == "OPEN"
    may_be_clear = found is not None and found.needed_repetitions
    is_here = answer.finished and answer.is_stored_here
    # More processes alone do not make up for arms that were not measured.
    missing = found.outstanding if found else any(map(is_out_of_time, answer.unmeasured))
    if not is_here or missing or answer.question.serves:
        return []
    may_settle = answer.times_remeasured < MOST_TIMES_AGAIN and answer.resumable is not False
    if not (may_settle and (is_open or may_be_clear or unfit_notice(answer))):
        return []
    command = f"p3-advisor resume {answer.run_id} --wait-for-quiet 5min"
    return [
        f"{command} measures the leaders again, from its builds, which the next run may remove."
    ]


def next_steps(answer: Answer) -> list[str]:
    """Return what to do next, the most urgent first."""
    problem = [answer.problem.next_step] if answer.problem else []
    return [*problem, *how_to_remeasure(answer), *describe_steps(answer)]
