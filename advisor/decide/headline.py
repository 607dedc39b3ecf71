"""The answer in three lines: what to use, how certain that is, and what would change it. Pure.

Every output shows these lines as they are. Further lines follow where the advised arm is not exact,
where the best arm differs by batch size, or where the advised arm is slower than the baseline at
one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.decide.certainty import REPETITIONS_TO_TRY
from advisor.decide.faster_arm import (
    describe_faster,
    describe_gain,
    describe_range,
    is_baseline_advised,
)
from advisor.decide.further_lines import (
    AdvisedAnswer,
    describe_accuracy,
    describe_adjustments,
    describe_batch_sizes,
    describe_requests,
    describe_start,
    describe_variants,
    describe_weights,
    join_names,
    write_load_lines,
)
from advisor.decide.speedup_draws import includes_processes
from advisor.decide.trust import STEADY_NOISE, describe_unfitness, is_unfit
from advisor.domain.answer import Answer, HeadlineLine, HeadlinePart
from advisor.domain.measurement import Interval
from advisor.domain.question import Budget
from advisor.domain.recommendation import ChosenFor
from advisor.domain.results import ScoredArm
from advisor.errors import MachineUnfitError
from advisor.text_format import (
    format_bound,
    format_share,
    format_share_of_draws,
)

#: Why an arm is advised that has not the highest score.
CHOSEN_FOR: dict[ChosenFor, str] = {
    "speed": "is slower",
    "exactness": "is less exact",
    "no-change": "needs a change of the code",
}
#: A loss of speed that is less than this share counts as nothing.
NOTHING = 0.005
#: A range from whose middle the truth may be this far away is no figure.
WIDE = 4.0
#: A larger share of the draws speaks for the choice, and says nothing of what was not measured.
ALMOST_ALL = 0.99
#: Arms that are outstanding, further ones are counted, and workflows that failed.
MOST_NAMED = 3


def write_headline(answer: Answer, scope: str = "") -> tuple[HeadlineLine, ...]:
    """Return the lines of an answer; `scope` follows model and device."""
    facts = AdvisedAnswer.of(answer)
    if facts is None:
        return (HeadlineLine(part="answer", text=_without_recommendation(answer)),)
    lines: list[tuple[HeadlinePart, str]] = [
        ("answer", _instruction(facts, scope)),
        ("certainty", _certainty(facts)),
        ("change", _change(facts)),
    ]
    further: tuple[tuple[HeadlinePart, Sequence[str]], ...] = (
        ("start", describe_start(facts)),
        ("variant", describe_variants(facts)),
        ("requests", describe_requests(facts)),
        ("load", write_load_lines(facts)),
        ("weights", describe_weights(facts)),
        ("accuracy", describe_accuracy(facts)),
        ("accuracy", describe_adjustments(facts)),
        ("batch-sizes", describe_batch_sizes(facts)),
    )
    lines += [(part, line) for part, found in further for line in found]
    return tuple(HeadlineLine(part=part, text=text) for part, text in lines)


def write_brief_certainty(answer: Answer) -> str:
    """Return the line of the certainty without the grades of other arms, which a table shows."""
    facts = AdvisedAnswer.of(answer)
    return _certainty(facts, is_brief=True) if facts is not None else ""


def _without_recommendation(answer: Answer) -> str:
    problem = answer.problem
    reason = problem.what if problem else "nothing was decided"
    has_answer = problem is None or problem.name != MachineUnfitError.name
    return f"No recommendation: {reason}" if has_answer else f"No answer: {reason}"


def _instruction(facts: AdvisedAnswer, scope: str) -> str:
    meanwhile = " for now" if facts.decision.word == "OPEN" else ""
    return f"Use {facts.scored.title} for {facts.subject}{scope}{meanwhile}."


def _certainty(facts: AdvisedAnswer, *, is_brief: bool = False) -> str:
    word = facts.decision.word
    if word is None:
        return f"No other workflow {_why_alone(facts)}. {_speed(facts)}"
    sentences = [
        f"{word}{_why_not_clear(facts)}.",
        _speed(facts),
        _chosen_for(facts),
        _as_good(facts),
        _wrong_choice(facts),
        describe_faster(facts, is_brief=is_brief),
        _what_settles(facts) if word == "OPEN" else "",
    ]
    return " ".join(filter(None, sentences))


def _why_alone(facts: AdvisedAnswer) -> str:
    """Name the workflows whose arms failed, with the status of the first."""
    if any(arm.workflow != facts.scored.workflow for arm in facts.answer.scores):
        return "meets the constraints"
    failed = {
        arm.workflow: f"{facts.titles.get(arm.workflow, arm.title)}: {arm.status}"
        for arm in reversed(facts.answer.unmeasured)
        if arm.option is not None and arm.status != "excluded"
    }
    named = ", ".join(list(failed.values())[:MOST_NAMED])
    return f"has a result{f' ({named})' if named else ''}{_left_out(facts)}"


def _left_out(facts: AdvisedAnswer) -> str:
    """Return how many builds `--requests` left out; empty for none."""
    left_out = sum(not build.started for build in facts.answer.results.stopped_builds)
    requests = facts.answer.question.requests
    if not left_out or requests is None:
        return ""
    builds = "build" if left_out == 1 else "builds"
    return f"; --requests {requests} left out {left_out} other {builds}"


def _why_not_clear(facts: AdvisedAnswer) -> str:
    """Return what speaks against a clear answer."""
    found = facts.decision
    if found.word == "CLEAR":
        return ""
    reasons = []
    if found.certainty < ALMOST_ALL:
        share = format_share_of_draws(found.certainty)
        reasons.append(f"the best choice, or as good, in {share} of what the measurements allow")
    if not found.fit and is_baseline_advised(facts):
        # The reason follows the speed of another arm.
        reasons.append(describe_unfitness(facts.answer.results))
    if not found.replicated:
        reasons.append("an arm that may lead was timed in one process")
    if not found.checked:
        reasons.append("its outputs could not all be checked")
    if found.outstanding:
        titles = [facts.titles[arm] for arm in found.outstanding[:MOST_NAMED]]
        left = len(found.outstanding) - len(titles)
        names = join_names([*titles, *([f"{left} more"] if left else [])])
        reasons.append(f"not measured, and might lead: {names}")
    return ": " + "; ".join(reasons) if reasons else ""


def _chosen_for(facts: AdvisedAnswer) -> str:
    """Return why an arm is advised that has not the highest score."""
    reason = CHOSEN_FOR.get(facts.decision.chosen_for)
    if reason is None:
        return ""
    first = next(arm for arm in facts.answer.scores if not arm.failures)
    return f"{first.title} scores {first.score - facts.scored.score:.2f} points more, but {reason}."


def _as_good(facts: AdvisedAnswer) -> str:
    """Name the workflows that are about as good, with their shares and speed-ups."""
    shares = facts.decision.contenders
    arms = [_best_of(facts, workflow) for workflow in facts.decision.as_good]
    named = [
        f"{arm.title} ({describe_gain(facts, arm)}, {format_share_of_draws(shares[arm.workflow])})"
        for arm in arms
    ]
    return f"About as good: {join_names(named, 'or')}." if named else ""


def _best_of(facts: AdvisedAnswer, workflow: str) -> ScoredArm:
    own = (arm for arm in facts.answer.scores if arm.workflow == workflow and not arm.failures)
    return next(own)


def _wrong_choice(facts: AdvisedAnswer) -> str:
    """Return what being wrong costs at these weights."""
    lost = facts.decision.lost_speed
    if lost is None or facts.decision.outstanding:
        return ""
    if lost < NOTHING:
        return "At your weights a wrong choice would cost nothing."
    worth = f"{format_share(lost)} of speed is worth"
    return f"At your weights a wrong choice would cost as much as {worth}."


def _what_settles(facts: AdvisedAnswer) -> str:
    certainty, noise = facts.decision, facts.noise_floor
    needed = certainty.needed_repetitions
    if needed is not None:
        plural = "s" if needed > 1 else ""
        settles = f"About {needed} more repetition{plural} in fresh processes would settle it"
        repeats = facts.answer.results.repeats + needed
        return f"{settles}{_which_budget(facts.advice.next_budget, repeats)}."
    longer = f" --budget {facts.advice.next_budget.name}" if facts.advice.next_budget else ""
    if noise > STEADY_NOISE:
        return (
            f"Equal workers differ by up to {format_share(noise)}: measure again on a quiet "
            f"machine, with --wait-for-quiet 5min{longer}."
        )
    if write_load_lines(facts):
        return f"Another run, with more blocks of load, may settle it{longer and ':' + longer}."
    return f"More than {REPETITIONS_TO_TRY[-1]} further repetitions would be needed to settle it."


def _which_budget(budget: Budget | None, repeats: int) -> str:
    """Return the option with which a run makes the repetitions, or most of them."""
    if budget is None:
        return ""
    if budget.repeats >= repeats:
        return f": --budget {budget.name}"
    return f"; no budget makes as many, --budget {budget.name} makes {budget.repeats}"


def _speed(facts: AdvisedAnswer) -> str:
    baseline = facts.baseline_title
    if is_baseline_advised(facts):
        return f"It is the baseline, {baseline}."
    speedup = facts.measured.speedup
    if write_load_lines(facts):
        return f"{speedup.value:.2f}x the request rate of {baseline}{_bounds(speedup)}."
    if speedup.low is None or speedup.high is None:
        return f"{speedup.value:.2f}x as fast as {baseline} (interval not known)."
    if is_unfit(facts.answer.results):
        why = describe_unfitness(facts.answer.results)
        return f"{describe_range(speedup).capitalize()} as fast as {baseline}: {why}."
    if speedup.high > WIDE * speedup.low:
        return f"{describe_range(speedup).capitalize()} as fast as {baseline}."
    bounds = f"{speedup.low:.2f} to {speedup.high:.2f}"
    if not includes_processes(facts.measured):
        return (
            f"{speedup.value:.2f}x as fast as {baseline} ({bounds} in one process each; no two "
            "equal workers were compared, so another process may differ by more)."
        )
    return f"{speedup.value:.2f}x as fast as {baseline} ({bounds})."


def _bounds(speedup: Interval) -> str:
    if speedup.low is None or speedup.high is None:
        return " (interval not known)"
    return f" ({speedup.low:.2f} to {speedup.high:.2f})"


def _change(facts: AdvisedAnswer) -> str:
    if facts.decision.word is None:
        return "To compare it, measure another workflow: p3-advisor workflows lists them."
    priorities = facts.answer.question.priorities
    shares = priorities.describe()
    flips = [flip for flip in facts.advice.flips if flip.to != facts.scored.arm]
    if not flips:
        return f"Your weights: {shares}. No weighting of the three Ps gives another one the lead."
    nearest = min(flips, key=lambda flip: abs(flip.weight - getattr(priorities, flip.criterion)))
    now = getattr(priorities, nearest.criterion)
    bound = format_bound(nearest.weight, now, nearest.when)
    return (
        f"Your weights: {shares}. {facts.titles[nearest.to]} leads if {nearest.criterion} weighs "
        f"{bound} of the three Ps (now {now:g} %)."
    )
