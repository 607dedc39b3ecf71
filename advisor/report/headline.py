"""The short answer: what to use, how certain that is, and what would change it.

Full outputs show these lines as they are, short ones some of them. Further lines follow where the
advised arm is not exact, or where the best arm differs by shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from advisor.decide.rivals import arms_as_good, find_faster_arm, is_baseline_as_good
from advisor.domain import text
from advisor.domain.answer import AdvisedAnswer, Answer, UnmeasuredArm, is_out_of_time
from advisor.domain.errors import BudgetSpentError, RunIsActiveError
from advisor.domain.model import OnnxModel, short_name
from advisor.domain.plan import PLAIN_COMPILE, ArmName
from advisor.domain.recommendation import ChosenFor, Decision
from advisor.domain.results import EQUIVALENCE_MARGIN
from advisor.report import advised_arm, other_arms
from advisor.report.advice_lines import describe_steps, trust_reasons

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

    #: The answer in a few lines of text; short outputs show some of them.
    headline: tuple[HeadlineLine, ...]
    #: Why the trust is not higher.
    trust_reasons: tuple[str, ...] = ()
    #: What to keep, and what makes the answer better founded.
    next_steps: tuple[str, ...] = ()

    @classmethod
    def of(cls, answer: Answer) -> AnswerDocument:
        return cls(
            **msgspec.structs.asdict(answer),
            headline=write_headline(answer),
            trust_reasons=tuple(trust_reasons(answer)),
            next_steps=tuple(describe_steps(answer)),
        )


#: The reason why one of two arms with close scores is advised.
CHOSEN_FOR: dict[ChosenFor, str] = {
    "speed": "the faster one",
    "exactness": "the exact one",
    "no-change": "the one that needs no change of the code",
}
NO_FLIP = "No other weight of one of the three Ps changes the answer."
#: Workflows without a result, and arms that might be better, whose line is long.
MOST_FAILED, MOST_OUTSTANDING = 3, 2
#: Less than this share of speed, or than these points of score, counts as nothing.
NOTHING = 0.005


def write_headline(answer: Answer) -> tuple[HeadlineLine, ...]:
    decided = AdvisedAnswer.of(answer)
    parts: list[tuple[HeadlinePart, Iterable[str]]] = [("answer", [first_line(answer)])]
    if decided is not None:
        is_alone = _is_alone(answer)
        parts += [
            ("certainty", [certainty_line(decided)]),
            ("change", [_how_to_compare(answer) if is_alone else _change(answer)]),
            ("start", advised_arm.describe_start(decided)),
            ("variant", advised_arm.describe_variants(answer)),
            ("requests", other_arms.describe_requests(decided)),
            ("load", advised_arm.describe_goodput(decided)),
            ("constraint", advised_arm.describe_constraints(decided)),
            ("quantised", advised_arm.describe_quantised(decided)),
            ("accuracy", advised_arm.describe_accuracy(decided)),
            ("accuracy", advised_arm.describe_precision(decided)),
            ("accuracy", advised_arm.describe_reference(answer)),
            ("accuracy", advised_arm.describe_adjustments(answer)),
            ("accuracy", advised_arm.describe_changed_states([decided.advised])),
            ("batch-sizes", other_arms.describe_batch_sizes(decided)),
        ]
    return tuple(HeadlineLine(part=part, text=line) for part, lines in parts for line in lines)


def first_line(answer: Answer) -> str:
    """Return the instruction, or why there is none."""
    decided, problem = AdvisedAnswer.of(answer), answer.problem
    if decided is not None:
        return _instruction(decided)
    is_undecided = problem is not None and (
        problem.exit_code == BudgetSpentError.exit_code or problem.name == RunIsActiveError.name
    )
    missing = "No answer" if is_undecided else "No recommendation"
    return f"{missing}: {problem.what if problem else 'nothing was decided'}"


def _instruction(decided: AdvisedAnswer) -> str:
    if _is_alone(decided.answer):
        only = f"only {decided.advised.scored.title} has a result"
        return f"Nothing was compared for {_subject(decided.answer)}: {only}."
    meanwhile = " for now" if decided.decision.word == "OPEN" else ""
    use = f"Use {decided.advised.scored.title} for {_subject(decided.answer)}{meanwhile}"
    gain = other_arms.describe_small_gain(decided)
    return f"{use}{', or ' if is_baseline_as_good(decided) else '; ' if gain else ''}{gain}."


def _subject(answer: Answer) -> str:
    """Return what the headline is about: `demo on AMD EPYC, 2 cores`."""
    question, cores = answer.question, answer.machine.cpu.usable_processors
    in_use = "" if question.gpu else f", {text.write_count(cores, 'core')}"
    return f"{short_name(question.model)} on {answer.device_name or 'CPU'}{in_use}"


def _is_alone(answer: Answer) -> bool:
    return len(answer.scores) == 1


def certainty_line(decided: AdvisedAnswer, *, has_reasons: bool = True) -> str:
    """Return the word with its reasons, the speed-up, and the arms that are as good or faster.

    Without reasons only the first of them is named, and no figure of the arms that are as good.
    """
    word = decided.decision.word
    if word is None:
        return _why_alone(decided)
    faster = find_faster_arm(decided)
    told, shown = faster.scored.arm if faster else "", decided.advised.arm
    as_good = other_arms.describe_equals(decided, shown, told, has_figures=has_reasons)
    compared = {each.workflow for each in decided.answer.scores}
    is_asked = decided.answer.question.is_limited and len(compared) > 1
    among = f" among the {len(compared)} workflows measured" if is_asked else ""
    why = _why_not_clear(decided)
    if word == "CLEAR" and arms_as_good(decided, shown):
        why = ["no other arm is much better"]
    if why[1:] and not has_reasons:
        why = [why[0], text.write_count(len(why) - 1, "other reason")]
    reasons = f": {'; '.join(why)}" if why else ""
    sentences = [
        f"{word}{among}{reasons}.",
        _speed(decided),
        _chosen_for(decided),
        f"{as_good[:1].upper()}{as_good[1:]}." if as_good else "",
        other_arms.describe_faster(decided),
    ]
    if has_reasons:
        sentences += [
            _wrong_choice(decided.decision),
            _late_workflows(decided),
            _settings_alone(decided.answer),
        ]
    return " ".join(filter(None, sentences))


def _late_workflows(decided: AdvisedAnswer) -> str:
    """Name the workflows for which the time was too short, also those that could not lead."""
    told = {ArmName.parse(arm).workflow for arm in decided.decision.outstanding}
    told |= {each.workflow for each in decided.answer.scores}
    titles = {
        each.workflow: each.title
        for each in reversed(decided.answer.unmeasured)
        if is_out_of_time(each) and each.workflow not in told
    }
    late = text.name_some([*titles.values()], MOST_FAILED) if titles else ""
    return late and f"Not measured for lack of time: {late}."


def _settings_alone(answer: Answer) -> str:
    """Return a sentence if all arms of an ONNX file use one workflow; PyTorch cannot run it."""
    workflows = {each.workflow for each in answer.scores}
    if len(workflows) > 1 or not isinstance(answer.question.model, OnnxModel):
        return ""
    return "All arms run the file with one workflow: only its settings and its feeding differ."


def _why_alone(decided: AdvisedAnswer) -> str:
    """Return why the advised arm is compared with nothing: what the other workflows failed at."""
    if not _is_alone(decided.answer):
        only = "No other measured workflow is known to meet the constraints."
        failing = [each for each in decided.answer.scores if each.failures]
        first = [f"{each.title}: {each.failures[0].text}." for each in failing[:1]]
        return " ".join(filter(None, [only, *first, _speed(decided), _late_workflows(decided)]))
    failed = {
        each.workflow: f"{decided.answer.titles.get(each.workflow, each.title)} ({each.status})"
        for each in reversed(_planned_arms(decided.answer))
    }
    if failed:
        return f"Without a result: {text.name_some([*failed.values()], MOST_FAILED)}."
    if decided.answer.question.is_limited:
        return "No other workflow was asked for."
    return "No other workflow of the model can be measured here."


def _planned_arms(answer: Answer) -> list[UnmeasuredArm]:
    """Return the arms that were planned and have no result, the default of each workflow first."""
    missing = [each for each in answer.unmeasured if each.was_planned]
    return sorted(missing, key=lambda each: each.option != "default")


def find_mendable_arm(answer: Answer) -> UnmeasuredArm | None:
    """Return the arm without a result whose reason and next step follow a single result."""
    if not _is_alone(answer):
        return None
    return next((each for each in _planned_arms(answer) if each.fix), None)


def _how_to_compare(answer: Answer) -> str:
    """Return the next step of an arm without a result, after its reason, or another one."""
    excluded = {each.arm: each for each in answer.excluded}
    compiled, other = excluded.get(PLAIN_COMPILE), ""
    if compiled is not None and compiled.status == "excluded" and not compiled.fix:
        other = f", or leave out --workflows: {compiled.title} needs no export"
    if failed := find_mendable_arm(answer):
        reason = text.shorten_text(failed.reason)
        return f"{failed.title}: {reason}. To compare it: {failed.fix}{other}."
    missing = [
        each.fix for each in excluded.values() if each.status == "not-installed" and each.fix
    ]
    wider = "ask without --workflows, which compares it with all that this machine has"
    steps = [*([wider] if answer.question.workflows else []), *missing]
    return f"To compare it: {steps[0] if steps else 'p3-advisor workflows lists the others'}."


def _why_not_clear(decided: AdvisedAnswer) -> list[str]:
    found, reasons = decided.decision, list[str]()
    if found.word == "CLEAR":
        return reasons
    if not found.certain:
        certainty = other_arms.describe_certainty(found.certainty)
        reasons.append(f"best, or about as good, with {certainty}")
    if not found.fit and decided.is_baseline:
        # The reason follows the speed of another arm.
        reasons.append(" and ".join(decided.answer.results.unfitness))
    if found.timed_once:
        reasons.append(_timed_once(decided))
    if not found.checked:
        reasons.append("its outputs could not all be checked")
    if found.outstanding:
        late = [decided.answer.titles.get(arm, arm) for arm in found.outstanding]
        names = text.name_some(late, MOST_OUTSTANDING)
        was = "were" if late[1:] else "was"
        reasons.append(f"{names} {was} not measured and may be better")
    return reasons


def _timed_once(decided: AdvisedAnswer) -> str:
    """Name the arms that were timed in one process, and whether a second one may be enough."""
    found, titles = decided.decision, {**decided.answer.titles, decided.advised.arm: "this arm"}
    ordered = sorted(found.timed_once, key=lambda arm: arm != decided.advised.arm)
    names = [titles.get(arm, arm) for arm in ordered]
    were = "were" if names[1:] else "was"
    line = f"{text.name_some(names, MOST_OUTSTANDING)} {were} timed in one"
    is_last = found.certain and found.fit and found.checked and not found.outstanding
    may_settle = is_last and found.needed_repetitions == 1
    return f"{line} process only{', and a second one may make it CLEAR' if may_settle else ''}"


def _chosen_for(decided: AdvisedAnswer) -> str:
    """Return why an arm is advised that has not the highest score."""
    advised, own = CHOSEN_FOR.get(decided.decision.chosen_for), decided.advised.scored
    if advised is None:
        return ""
    first = next((each for each in decided.answer.scores if not each.failures), own)
    highest, lower = text.format_apart(first.score, own.score)
    if first.unproven:
        gain = f"its gain over {own.title} is within the noise, and it is less exact"
        return f"{first.title} scores higher but is not advised: {gain}."
    compared = f"{own.title} scores {lower}, {first.title} {highest}"
    return f"{compared}: of such close scores {advised} is advised."


def _wrong_choice(decision: Decision) -> str:
    lost, points = decision.lost_speed, decision.lost_score
    is_slight = decision.word == "CLEAR" or points < NOTHING
    if decision.outstanding or (is_slight if lost is None else lost < NOTHING):
        return ""
    size = f"{points:.2f} points of the score"
    if lost is not None:
        size = f"{text.format_share(lost)} of speed"
    return f"If another arm is better after all, that costs up to {size}."


def _speed(decided: AdvisedAnswer) -> str:
    """Return the speed-up, and where the advised arm is slower than the baseline."""
    if decided.is_baseline:
        return ""
    baseline, unfit = decided.answer.baseline_title, decided.answer.results.is_unfit
    shown = text.write_speedup(decided.advised.speedup, unfit=unfit, interval=True, in_words=True)
    measured = "the request rate of" if advised_arm.describe_goodput(decided) else "as fast as"
    speed = f"{shown.capitalize()} {measured} {baseline}"
    if unfit:
        return f"{speed}: {' and '.join(decided.answer.results.unfitness)}."
    return f"{speed}{_by_shape(decided)}"


def _by_shape(decided: AdvisedAnswer) -> str:
    """Return the extremes, where the mean over the shapes hides them, and where it is slower."""
    mean, cells = decided.advised.speedup, decided.advised.cells
    if len(cells) < 2:  # noqa: PLR2004 - nothing differs
        return "."
    slower = [cell for cell in cells if cell.speedup.value * (1 + EQUIVALENCE_MARGIN) < 1]
    most, least = (each(cells, key=lambda cell: cell.speedup.value) for each in (max, min))
    is_hidden = not mean.is_range() and (
        least.speedup.value < (mean.low or 0.0) or most.speedup.value > (mean.high or math.inf)
    )
    shown = ", ".join(
        f"{cell.speedup.value:.2f}x at {cell.shape.description}"
        for cell in (most, least)
        if is_hidden and cell not in slower
    )
    lines = [f": {shown}." if shown else "."]
    if slower:
        at = ", ".join(f"{cell.shape.description}: {cell.speedup.value:.2f}x" for cell in slower)
        lines.append(f"Slower than {decided.answer.baseline_title} at {at}.")
    return " ".join(lines)


def _change(answer: Answer) -> str:
    nearest = next(iter(other_arms.flip_lines(answer)), NO_FLIP)
    return f"Your weights: {answer.question.priorities.describe()}. {nearest}"
