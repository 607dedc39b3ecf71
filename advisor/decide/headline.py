"""The answer in three lines: what to use, how certain that is, and what would change it. Pure.

Every output shows these lines as they are. Further lines follow where the advised arm is not exact,
where the best arm differs by batch size, or where the advised arm is slower than the baseline at
one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.decide.certainty import REPETITIONS_TO_TRY
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
from advisor.decide.recommend import find_errors
from advisor.decide.sensitivity import SAME_SCORE, grades_of
from advisor.decide.speedup_draws import includes_processes
from advisor.decide.trust import STEADY_NOISE, describe_unfitness, is_unfit
from advisor.domain.answer import Answer, HeadlineLine, HeadlinePart
from advisor.domain.measurement import Interval
from advisor.domain.question import Budget
from advisor.domain.recommendation import ChosenFor, Flip
from advisor.domain.results import EQUIVALENCE_MARGIN, ScoredArm
from advisor.domain.rubric import LETTERS
from advisor.errors import MachineUnfitError
from advisor.text_format import (
    format_bound,
    format_number,
    format_share,
    format_share_of_draws,
    format_weight,
)

#: Why an arm is advised that has not the highest score.
CHOSEN_FOR: dict[ChosenFor, str] = {
    "speed": "is slower",
    "exactness": "is less exact",
    "no-change": "needs a change of the code",
}
#: A loss of speed that is less than this share counts as nothing.
NOTHING = 0.005
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


def flip_in_certainty(answer: Answer) -> Flip | None:
    """Return the change of a weight that the line of the certainty names, if any."""
    facts = AdvisedAnswer.of(answer)
    faster = _faster_arm(facts) if facts is not None else None
    if facts is None or faster is None or faster.failures or _is_as_good_sibling(facts, faster):
        return None
    return _flip_to(facts, faster)


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
        _faster(facts, is_brief=is_brief),
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
    """Return how many builds the options of the user left out; empty for none."""
    left_out = sum(not build.started for build in facts.answer.results.stopped_builds)
    if not left_out:
        return ""
    question, builds = facts.answer.question, "build" if left_out == 1 else "builds"
    limits = (("--requests", question.requests), ("--build-minutes", question.build_minutes))
    options = [f"{option} {value:.15g}" for option, value in limits if value is not None]
    return f"; {' and '.join(options)} left out {left_out} other {builds}"


def _why_not_clear(facts: AdvisedAnswer) -> str:
    """Return what speaks against a clear answer."""
    found = facts.decision
    if found.word == "CLEAR":
        return ""
    share = format_share_of_draws(found.certainty)
    reasons = [f"the best choice, or as good, in {share} of what the measurements allow"]
    if not found.fit and _is_baseline(facts):
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
    return ": " + "; ".join(reasons)


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
        f"{arm.title} ({_gain(facts, arm)}, {format_share_of_draws(shares[arm.workflow])})"
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
    return f"At your weights a wrong choice would cost as much as {format_share(lost)} of speed."


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
    if _is_baseline(facts):
        return f"It is the baseline, {baseline}."
    speedup = facts.measured.speedup
    if write_load_lines(facts):
        return f"{speedup.value:.2f}x the request rate of {baseline}{_bounds(speedup)}."
    if speedup.low is None or speedup.high is None:
        return f"{speedup.value:.2f}x as fast as {baseline} (interval not known)."
    if is_unfit(facts.answer.results):
        why = describe_unfitness(facts.answer.results)
        return f"{_range(speedup).capitalize()} as fast as {baseline}: {why}."
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


def _faster(facts: AdvisedAnswer, *, is_brief: bool) -> str:
    """Name the fastest arm if it is another one and, beside the baseline, the best other one."""
    regret, is_baseline = facts.decision.speed_regret, _is_baseline(facts)
    faster = _faster_arm(facts)
    sentences = []
    if faster is not None:
        gain = (
            f"{_gain(facts, faster)} as fast as {facts.baseline_title}"
            if is_unfit(facts.answer.results)
            else f"{regret.value:.2f}x as fast as this one"
        )
        exactness = _less_exact(facts, faster)
        reason = _why_not(facts, faster, is_brief=is_brief)
        sentences.append(f"Faster: {faster.title}, {gain}{exactness}; {reason}.")
    elif not is_baseline:
        sentences.append("Nothing measured is faster.")
    others = (arm for arm in facts.answer.scores if arm.workflow != facts.scored.workflow)
    best = next((arm for arm in others if not arm.failures), None)
    is_named = best is None or best.arm == regret.arm or best.workflow in facts.decision.as_good
    if is_baseline and best is not None and not is_named and not is_brief:
        sentences.append(f"The best other workflow is {best.title}, {_gain(facts, best)}.")
    return " ".join(sentences)


def _faster_arm(facts: AdvisedAnswer) -> ScoredArm | None:
    """Return the fastest arm, if its lead over the advised one matters."""
    regret = facts.decision.speed_regret
    is_faster = regret.arm is not None and regret.value >= 1 + EQUIVALENCE_MARGIN
    return facts.arms[regret.arm] if is_faster and regret.arm is not None else None


def _gain(facts: AdvisedAnswer, arm: ScoredArm) -> str:
    """Return the speed-up of an arm; its range where the machine was not fit to measure on."""
    if not is_unfit(facts.answer.results) or arm.arm == facts.answer.results.baseline:
        return f"{arm.speedup:.2f}x"
    return _range(facts.answer.measurements[arm.arm].speedup)


def _range(speedup: Interval) -> str:
    low, high = (format_number(bound, digits=2) for bound in (speedup.low, speedup.high))
    return f"between {low}x and {high}x"


def _is_baseline(facts: AdvisedAnswer) -> bool:
    return facts.scored.arm == facts.answer.results.baseline


def _less_exact(facts: AdvisedAnswer, faster: ScoredArm) -> str:
    """Return that outputs are less exact than those of the advised arm; empty if they are not."""
    errors = find_errors(facts.answer.results)
    error = errors.get(faster.arm, 0.0)
    if error <= errors.get(facts.scored.arm, 0.0):
        return ""
    return f" but less exact (error {error:.1e})" if math.isfinite(error) else " but less exact"


def _why_not(facts: AdvisedAnswer, faster: ScoredArm, *, is_brief: bool) -> str:
    if faster.failed_constraints:
        return f"a constraint excludes it ({'; '.join(faster.failed_constraints)})"
    if _is_as_good_sibling(facts, faster):
        return "it scores as well"
    if is_brief:
        return f"it {_when_it_leads(facts, faster)}"
    ours, theirs = grades_of(facts.scored), grades_of(faster)
    losses = [
        f"{name.replace('_', ' ')} ({LETTERS[faster.ratings[name].tier]})"
        for name in ours
        if theirs[name] < ours[name]
    ]
    on = f"it loses on {join_names(losses)}" if losses else "it scores the same"
    return f"{on}, and {_when_it_leads(facts, faster)}"


def _is_as_good_sibling(facts: AdvisedAnswer, arm: ScoredArm) -> bool:
    is_sibling = arm.workflow == facts.scored.workflow
    return is_sibling and arm.score >= facts.scored.score - SAME_SCORE


def _when_it_leads(facts: AdvisedAnswer, faster: ScoredArm) -> str:
    """Return from which weight of performance an arm leads all others, as the flips have it."""
    if faster.score >= facts.scored.score:
        return f"scores only {faster.score - facts.scored.score:.2f} points more"
    flip, now = _flip_to(facts, faster), facts.answer.question.priorities.performance
    if flip is None:
        return "does not lead at any weight of performance"
    shown = format_weight(flip.weight, now) or f"{now:g}"
    return f"leads if performance weighs more than {shown} %"


def _flip_to(facts: AdvisedAnswer, faster: ScoredArm) -> Flip | None:
    """Return the weight of performance above which an arm with a lower score leads all others."""
    if faster.score >= facts.scored.score:
        return None
    # Arms of equal grades lead together.
    theirs = grades_of(faster)
    found = (
        flip
        for flip in facts.advice.flips
        if (flip.criterion, flip.when) == ("performance", "more")
        and grades_of(facts.arms[flip.to]) == theirs
    )
    return next(found, None)


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
