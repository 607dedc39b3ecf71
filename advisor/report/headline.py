"""The short answer: what to use, how certain that is, and what would change it.

Full outputs show these lines as they are, short ones some of them. Further lines follow where the
advised arm is not exact, where the best arm differs by shape, or where the advised arm is slower
than the baseline at one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from advisor.decide.rivals import arms_timed_once, find_faster_arm, is_baseline_as_good, late_arms
from advisor.decide.trust import is_unfit
from advisor.decide.unmeasured import crossed_bounds
from advisor.domain import text
from advisor.domain.answer import AdvisedAnswer, Answer, UnmeasuredArm
from advisor.domain.errors import ConstraintUndecidedError, MachineUnfitError
from advisor.domain.model import OnnxModel, short_name
from advisor.domain.plan import PLAIN_COMPILE
from advisor.domain.recommendation import ChosenFor
from advisor.domain.results import ScoredArm
from advisor.report import further_lines, other_arms
from probes.outcome import OTHER_WORKFLOWS

#: What a line of the headline is about.
HeadlinePart = Literal[
    "answer",
    "certainty",
    "change",
    "start",
    "variant",
    "requests",
    "load",
    "constraint",
    "quantised",
    "accuracy",
    "batch-sizes",
]


class HeadlineLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the answer."""

    part: HeadlinePart
    text: str


class AnswerDocument(Answer, frozen=True, kw_only=True):
    """The JSON document of a run: the answer, and what it says in words."""

    #: The answer in a few lines of text, of which short outputs show some.
    headline: tuple[HeadlineLine, ...]

    @classmethod
    def of(cls, answer: Answer) -> AnswerDocument:
        return cls(**msgspec.structs.asdict(answer), headline=write_headline(answer))


#: Which of two arms with close scores is advised.
CHOSEN_FOR: dict[ChosenFor, str] = {
    "speed": "the faster one",
    "exactness": "the exact one",
    "no-change": "the one that needs no change of the code",
}
NO_FLIP = "No other weight of one of the three Ps changes the answer."
#: Problems of figures that do not decide.
UNDECIDED = {MachineUnfitError.name, ConstraintUndecidedError.name}
#: Arms that are outstanding, further ones are counted, and workflows that failed.
MOST_NAMED = 3
#: The same for arms that might be better: their line is long.
MOST_OUTSTANDING = 2


def write_headline(answer: Answer) -> tuple[HeadlineLine, ...]:
    facts = AdvisedAnswer.of(answer)
    parts: list[tuple[HeadlinePart, Iterable[str]]] = [("answer", [first_line(answer)])]
    if facts is not None:
        is_alone = _is_alone(facts)
        parts += [
            ("certainty", [_certainty(facts) if facts.decision.word else _why_alone(facts)]),
            ("change", [_how_to_compare(facts) if is_alone else _change(answer)]),
            ("start", further_lines.describe_start(facts)),
            ("variant", further_lines.describe_variants(facts)),
            ("requests", other_arms.describe_requests(facts)),
            ("load", further_lines.describe_goodput(facts)),
            ("constraint", further_lines.describe_constraints(facts)),
            ("quantised", further_lines.describe_quantised(facts)),
            ("accuracy", further_lines.describe_accuracy(facts)),
            ("accuracy", further_lines.describe_precision(facts)),
            ("accuracy", further_lines.describe_reference(facts)),
            ("accuracy", further_lines.describe_adjustments(facts)),
            ("accuracy", further_lines.describe_changed_states(facts)),
            ("batch-sizes", other_arms.describe_batch_sizes(facts)),
        ]
    return tuple(HeadlineLine(part=part, text=line) for part, lines in parts for line in lines)


def first_line(answer: Answer) -> str:
    """Return the instruction, or why there is none."""
    facts, problem = AdvisedAnswer.of(answer), answer.problem
    if facts is not None:
        return _instruction(facts)
    missing = "No answer" if problem and problem.name in UNDECIDED else "No recommendation"
    return f"{missing}: {problem.what if problem else 'nothing was decided'}"


def _instruction(facts: AdvisedAnswer) -> str:
    if _is_alone(facts):
        only = f"only {facts.scored.title} has a result"
        return f"Nothing was compared for {_subject(facts.answer)}: {only}."
    meanwhile = " for now" if facts.decision.word == "OPEN" else ""
    use = f"Use {facts.scored.title} for {_subject(facts.answer)}{meanwhile}"
    gain = other_arms.describe_small_gain(facts)
    return f"{use}{', or ' if is_baseline_as_good(facts) else '; ' if gain else ''}{gain}."


def _subject(answer: Answer) -> str:
    """Return what the headline is about: `demo on AMD EPYC, 2 cores`."""
    question, cores = answer.question, answer.machine.cpu.usable_processors
    in_use = "" if question.gpu else f", {text.write_count(cores, 'core')}"
    return f"{short_name(question.model)} on {answer.device_name or 'CPU'}{in_use}"


def _is_alone(facts: AdvisedAnswer) -> bool:
    return len(facts.answer.scores) == 1


def _certainty(facts: AdvisedAnswer) -> str:
    found, as_good = facts.decision.word, other_arms.describe_equals(facts, facts.scored.arm)
    # A clear answer may have equals, and its word must not hide them.
    is_first = found == "CLEAR" and bool(as_good)
    compared = {each.workflow for each in facts.answer.scores}
    asked = f" among the {len(compared)} workflows measured"
    word = f"{found}{asked if facts.answer.question.workflows and len(compared) > 1 else ''}"
    sentences = [
        f"{word}: nothing is better by much; {as_good}."
        if is_first
        else f"{word}{_why_not_clear(facts)}.",
        _speed(facts),
        _chosen_for(facts),
        f"{as_good[:1].upper()}{as_good[1:]}." if as_good and not is_first else "",
        _options_as_good(facts),
        _wrong_choice(facts),
        other_arms.describe_faster(facts),
        _not_reached(facts),
        _settings_alone(facts),
    ]
    return " ".join(filter(None, sentences))


def _not_reached(facts: AdvisedAnswer) -> str:
    titles = [facts.answer.titles[arm] for arm in late_arms(facts).values()][:MOST_NAMED]
    return f"Not measured for lack of time: {text.join_names(titles)}." if titles else ""


def _settings_alone(facts: AdvisedAnswer) -> str:
    """Return a sentence if all arms of an ONNX file use one workflow; PyTorch cannot run it."""
    workflows = {each.workflow for each in facts.answer.scores}
    if len(workflows) > 1 or not isinstance(facts.answer.question.model, OnnxModel):
        return ""
    return "All arms run the file with one workflow: only its settings and its feeding differ."


def _why_alone(facts: AdvisedAnswer) -> str:
    """Return why the advised arm is compared with nothing: what the other workflows failed at."""
    if not _is_alone(facts):
        others = (each for each in facts.answer.scores if each.failures)
        may_meet = any(crossed_bounds(each, facts.answer.measurements[each.arm]) for each in others)
        certain = " for certain" if may_meet else ""
        only = f"No other measured workflow meets the constraints{certain}."
        return " ".join(filter(None, [only, _speed(facts), _not_reached(facts)]))
    failed = {
        each.workflow: f"{facts.answer.titles.get(each.workflow, each.title)} ({each.status})"
        for each in reversed(_planned_arms(facts))
    }
    if failed:
        return f"Without a result: {text.join_names(list(failed.values())[:MOST_NAMED])}."
    if facts.answer.question.workflows:
        return "No other workflow was asked for."
    return "No other workflow of the model can be measured here."


def _planned_arms(facts: AdvisedAnswer) -> list[UnmeasuredArm]:
    """Return the arms that were planned and have no result, the default of each workflow first."""
    planned = [each for each in facts.answer.unmeasured if each.option is not None]
    return sorted(planned, key=lambda each: each.option != "default")


def _how_to_compare(facts: AdvisedAnswer) -> str:
    """Return the next step of an arm without a result, after its reason, or another one."""
    unmeasured, planned = facts.answer.unmeasured, _planned_arms(facts)
    workflows = {each.workflow for each in planned}
    tried = f", or {OTHER_WORKFLOWS}" if PLAIN_COMPILE in workflows else ""
    for each in planned:
        if each.fix:
            step = each.fix.removesuffix(tried)
            return f"{each.title}: {text.shorten_text(each.reason)}. To compare it: {step}."
    missing = [each.fix for each in unmeasured if each.status == "not-installed" and each.fix]
    wider = "ask without --workflows, which compares it with all that this machine has"
    steps = [*([wider] if facts.answer.question.workflows else []), *missing]
    return f"To compare it: {steps[0] if steps else 'p3-advisor workflows lists the others'}."


def _why_not_clear(facts: AdvisedAnswer) -> str:
    """Return what is missing for `CLEAR`."""
    found = facts.decision
    if found.word == "CLEAR":
        return ""
    reasons = []
    if not found.certain:
        certainty = other_arms.describe_certainty(facts.answer.results, found.certainty)
        reasons.append(f"best, or as good, with {certainty}")
    if not found.fit and facts.is_baseline:
        # The reason follows the speed of another arm.
        reasons.append(other_arms.describe_unfitness(facts.answer.results))
    if not found.replicated:
        reasons.append(_timed_once(facts))
    if not found.checked:
        reasons.append("its outputs could not all be checked")
    if found.outstanding:
        titles = [facts.answer.titles[arm] for arm in found.outstanding[:MOST_OUTSTANDING]]
        left = len(found.outstanding) - len(titles)
        more = [text.write_count(left, "other")] if left else []
        names = text.join_names([*titles, *more])
        reasons.append(f"no measurement of {names}, which might be better")
    if len(reasons) == 1 and not found.replicated:
        return f": {reasons[0]}, and a second may differ"
    return ": " + "; ".join(reasons) if reasons else ""


def _timed_once(facts: AdvisedAnswer) -> str:
    single = arms_timed_once(facts)
    if len(single) > 1:
        return f"{len(single)} arms that may lead were timed in one process"
    title = facts.answer.titles[single[0]] if single else "the next best arm"
    return f"{title} was timed in one process"


def _chosen_for(facts: AdvisedAnswer) -> str:
    """Return why an arm is advised that has not the highest score."""
    advised, own = CHOSEN_FOR.get(facts.decision.chosen_for), facts.scored
    if advised is None:
        return ""
    first = _first(facts)
    highest, lower = text.format_apart(first.score, own.score)
    compared = f"{own.title} scores {lower}, {first.title} {highest}"
    if first.unproven:
        return f"{compared}: the latter is less exact, and no gain from that is shown."
    return f"{compared}: of such close scores {advised} is advised."


def _first(facts: AdvisedAnswer) -> ScoredArm:
    return next((each for each in facts.answer.scores if not each.failures), facts.scored)


def _options_as_good(facts: AdvisedAnswer) -> str:
    """Name the arms of the advised workflow that are about as good and not named elsewhere."""
    faster = find_faster_arm(facts)
    named = {_first(facts).arm, faster.scored.arm if faster else ""}
    options = [
        f"{scored.title} ({other_arms.describe_gain(facts, scored)}, "
        f"{other_arms.describe_points(facts.scored, scored)})"
        for scored in (facts.arms[each] for each in facts.decision.options_as_good)
        if scored.arm not in named
    ]
    return f"About as good with other options: {text.join_names(options, 'or')}." if options else ""


def _wrong_choice(facts: AdvisedAnswer) -> str:
    lost, points = facts.decision.lost_speed, facts.decision.lost_score
    is_slight = facts.decision.word == "CLEAR" or points < other_arms.NOTHING
    if facts.decision.outstanding or (is_slight if lost is None else lost < other_arms.NOTHING):
        return ""
    if lost is None:
        size = f"{points:.2f} points of the score"
    else:
        size = (
            f"{text.format_share(lost)} of speed"
            if lost <= 1
            else f"a factor of {1 + lost:.1f} in speed"
        )
    return f"At these weights another arm may be better by up to {size}."


def _speed(facts: AdvisedAnswer) -> str:
    baseline = facts.answer.baseline_title
    if facts.is_baseline:
        return ""
    speedup = facts.measured.speedup
    measured = "the request rate of" if further_lines.describe_goodput(facts) else "as fast as"
    than = f"{measured} {baseline}"
    unfit = is_unfit(facts.answer.results)
    shown = text.write_speedup(speedup, unfit=unfit, in_words=True).capitalize()
    if speedup.low is None or speedup.high is None:
        return f"{shown} {than} (interval not known)."
    if speedup.is_range(unfit=unfit):
        why = f": {other_arms.describe_unfitness(facts.answer.results)}" if unfit else ""
        return f"{shown} {than}{why}."
    is_doubtful = facts.decision.word != "CLEAR" and speedup.low < 1 < speedup.value
    doubt = "; it may be slower" if is_doubtful else ""
    interval = f"({speedup.low:.2f} to {speedup.high:.2f})"
    return f"{shown} {than} {interval}{_by_shape(facts)}{doubt}."


def _by_shape(facts: AdvisedAnswer) -> str:
    """Return the largest and the smallest speed-up where the mean over the shapes hides them."""
    mean, cells = facts.measured.speedup, facts.measured.cells
    if mean.low is None or mean.high is None or len(cells) < 2:  # noqa: PLR2004 - nothing differs
        return ""
    most, least = (each(cells, key=lambda cell: cell.speedup.value) for each in (max, min))
    if mean.low <= least.speedup.value and most.speedup.value <= mean.high:
        return ""
    return ": " + ", ".join(
        f"{cell.speedup.value:.2f}x at {cell.shape.description}" for cell in (most, least)
    )


def _change(answer: Answer) -> str:
    nearest = next(iter(other_arms.flip_lines(answer, nearest_first=True)), NO_FLIP)
    return f"Your weights: {answer.question.priorities.describe()}. {nearest}"
