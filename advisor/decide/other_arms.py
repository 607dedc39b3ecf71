"""What the headline says of other arms: which are faster, or better at some shapes. Pure."""

from __future__ import annotations

import math

from advisor.decide.certainty import MOSTLY
from advisor.decide.diagnosis import find_lower_precision
from advisor.decide.sensitivity import SAME_SCORE, describe_flips, grades_of
from advisor.decide.trust import describe_certainty, is_unfit
from advisor.domain.accuracy import worst_error
from advisor.domain.answer import AdvisedAnswer, Answer
from advisor.domain.measurement import Measurement
from advisor.domain.model import OnnxModel, name_own_shapes
from advisor.domain.recommendation import Flip
from advisor.domain.results import EQUIVALENCE_MARGIN, ScoredArm
from advisor.domain.text import format_share, join_names, write_count, write_speedup

#: Less than this share of speed, or than these points of score, counts as nothing.
NOTHING = 0.005
#: An arm that is this many times as fast as the advised one is named.
CLEARLY_FASTER = 1.1


def flip_in_certainty(answer: Answer) -> Flip | None:
    """Return the change of a weight that the line of the certainty names, if any."""
    facts = AdvisedAnswer.of(answer)
    faster = find_faster_arm(facts) if facts is not None else None
    if facts is None or faster is None or faster.failures or _is_as_good_sibling(facts, faster):
        return None
    return _flip_to(facts, faster)


def describe_faster(facts: AdvisedAnswer) -> str:
    """Name the fastest arm if it is another one and, beside the baseline, the best other one."""
    is_baseline, faster = is_baseline_advised(facts), find_faster_arm(facts)
    sentences = []
    if faster is not None:
        lines = faster.adoption.lines_changed
        # The baseline needs no change, so the lines are a part of the price.
        change = f" for {write_count(lines, 'line')} of code" if is_baseline else ""
        gain = f"({describe_gain(facts, faster)}){change}{_less_exact(facts, faster)}"
        low = facts.answer.measurements[faster.arm].speedup.low
        is_doubtful = faster.unproven or (low is not None and low < 1)
        perhaps = "Perhaps faster" if is_doubtful else "Faster"
        sentences.append(f"{perhaps}: {faster.title} {gain}; {_why_not(facts, faster)}.")
    elif not is_baseline:
        over = " over all shapes" if len(facts.measured.cells) > 1 else ""
        sentences.append(f"Nothing measured is clearly faster{over}.")
    others = (each for each in facts.answer.scores if each.workflow != facts.scored.workflow)
    best = next((each for each in others if not each.failures), None)
    is_named = faster is not None or best is None or best.arm in facts.decision.as_good
    if is_baseline and best is not None and not is_named:
        sentences.append(f"Next workflow by score: {best.title} ({describe_gain(facts, best)}).")
    return " ".join(sentences)


def find_faster_arm(facts: AdvisedAnswer) -> ScoredArm | None:
    """Return the fastest arm, if its lead over the advised one matters."""
    regret = facts.decision.speed_regret
    if regret.arm is None or regret.value < CLEARLY_FASTER:
        return None
    return facts.arms[regret.arm]


def describe_gain(facts: AdvisedAnswer, scored: ScoredArm) -> str:
    speedup = facts.answer.measurements[scored.arm].speedup
    return write_speedup(speedup, unfit=is_unfit(facts.answer.results), in_words=True)


def describe_equals(facts: AdvisedAnswer, shown: str) -> str:
    """Name the arms that are about as good, or may be, with their speed-ups, points and shares.

    The advised arm is one of them if another one is `shown` in its place; the baseline is not if
    the small gain names it.
    """
    shares = facts.decision.contenders
    named: dict[str, list[str]] = {}
    is_told = shown == facts.scored.arm and is_baseline_as_good(facts)
    told = facts.answer.results.baseline if is_told else ""
    equals = (each for each in (facts.scored.arm, *facts.decision.as_good) if each != shown)
    for scored in (facts.arms[each] for each in equals if each != told):
        share = shares[scored.arm]
        how = "about as good" if share >= MOSTLY else "perhaps as good"
        figures = f"{describe_gain(facts, scored)}, {_how_good(facts, scored, shown)}"
        named.setdefault(how, []).append(f"{scored.title} ({figures})")
    return "; ".join(f"{how}: {join_names(each, 'or')}" for how, each in named.items())


def describe_small_gain(facts: AdvisedAnswer) -> str:
    """Return how little the advised arm gains, and that the baseline is as good; empty for more."""
    if not facts.decision.gains_little:
        return ""
    baseline, speedup = facts.answer.results.baseline, facts.measured.speedup
    least, most = (speedup.low or 0.0) - 1, (speedup.high or math.inf) - 1
    is_as_good, gain = is_baseline_as_good(facts), "the gain may be small"
    if most <= 0:
        gain = "there is no gain in speed"
    elif least < NOTHING and not is_as_good:
        gain = "it may gain nothing"
    elif math.isfinite(most) and not speedup.is_range(unfit=is_unfit(facts.answer.results)):
        decimals = 0 if most - least >= 2 * NOTHING else 1  # so that the ends differ
        lowest = f"{format_share(least, decimals).removesuffix(' %')} to"
        limit = lowest if least >= NOTHING else "at most"
        gain = f"the gain is {limit} {format_share(most, decimals)}"
    if not is_as_good:
        return gain
    figures = _how_good(facts, facts.arms[baseline], facts.scored.arm)
    return f"keep {facts.answer.baseline_title}, which is about as good ({figures}): {gain}"


def is_baseline_as_good(facts: AdvisedAnswer) -> bool:
    """Return whether little is gained over the baseline, and it is about as good."""
    share = facts.decision.contenders.get(facts.answer.results.baseline, 0.0)
    return facts.decision.gains_little and share >= MOSTLY


def _how_good(facts: AdvisedAnswer, scored: ScoredArm, shown: str) -> str:
    certainty = describe_certainty(facts.answer.results, facts.decision.contenders[scored.arm])
    return f"{describe_points(facts.arms[shown], scored)}, {certainty}"


def describe_points(shown: ScoredArm, scored: ScoredArm) -> str:
    """Return how an arm's score differs from that of a shown one, by the figures of a table."""
    lead = round(scored.score, 2) - round(shown.score, 2)
    if abs(lead) < SAME_SCORE:
        return "the same score"
    return f"{abs(lead):.2f} points {'more' if lead > 0 else 'less'}"


def is_baseline_advised(facts: AdvisedAnswer) -> bool:
    return facts.scored.arm == facts.answer.results.baseline


def _less_exact(facts: AdvisedAnswer, faster: ScoredArm) -> str:
    error = _largest_error(facts.answer.measurements[faster.arm])
    if error <= _largest_error(facts.measured):
        return ""
    lower = find_lower_precision(facts.answer.results.measurements)
    is_lower = faster.weight_format is None and faster.arm in lower
    price = " but in a lower precision" if is_lower else " but less exact"
    return f"{price} (error {error:.1e})" if math.isfinite(error) else price


def _largest_error(measurement: Measurement) -> float:
    """Return the largest error of an arm's outputs: 0 if exact, infinite if unknown."""
    error = 0.0 if measurement.is_exact else worst_error(measurement.correctness)
    return math.inf if error is None else error


def _why_not(facts: AdvisedAnswer, faster: ScoredArm) -> str:
    if faster.failed_constraints:
        return f"a constraint excludes it ({'; '.join(faster.failed_constraints)})"
    if faster.unproven:
        return "this gain is not shown"
    if _is_as_good_sibling(facts, faster):
        return "it scores as well"
    ours, theirs = grades_of(facts.scored), grades_of(faster)
    losses = [name.replace("_", " ") for name in ours if theirs[name] < ours[name]]
    on = f"it loses on {join_names(losses)}" if losses else "it scores the same"
    return f"{on}, and {_when_it_leads(facts, faster)}"


def _is_as_good_sibling(facts: AdvisedAnswer, scored: ScoredArm) -> bool:
    is_sibling = scored.workflow == facts.scored.workflow
    return is_sibling and scored.score >= facts.scored.score - SAME_SCORE


def _when_it_leads(facts: AdvisedAnswer, faster: ScoredArm) -> str:
    if faster.score >= facts.scored.score:
        return f"has {describe_points(facts.scored, faster)}"
    flip = _flip_to(facts, faster)
    if flip is None:
        return "is advised at no weight of performance"
    weights = dict(describe_flips(facts.advice, facts.answer.question.priorities))
    instead = "" if flip.to == faster.arm else f"{facts.arms[flip.to].title} "
    return f"{instead}{'is' if facts.decision.fit else 'may be'} advised if {weights[flip]}"


def _flip_to(facts: AdvisedAnswer, faster: ScoredArm) -> Flip | None:
    """Return the weight of performance above which an arm with a lower score is advised.

    Without one, return that of another arm of its workflow, which may be as fast and lose less.
    """
    if faster.score >= facts.scored.score:
        return None
    flips = [
        flip
        for flip, _ in describe_flips(facts.advice, facts.answer.question.priorities)
        if (flip.criterion, flip.when) == ("performance", "more")
        if facts.arms[flip.to].workflow == faster.workflow
    ]
    return next((flip for flip in flips if flip.to == faster.arm), next(iter(flips), None))


def describe_requests(facts: AdvisedAnswer) -> list[str]:
    sizes: dict[str, list[str]] = {}
    requests, titles = facts.answer.question.requests, facts.answer.titles
    for shape, arm in facts.advice.first_to_serve.items():
        if arm != facts.scored.arm:
            sizes.setdefault(arm, []).append(shape)
    if not sizes:
        return []
    first = "; ".join(
        f"{titles.get(arm, arm)} at {_shape_noun(facts, len(found))} {join_names(found)}"
        for arm, found in sizes.items()
    )
    return [f"First to serve {requests:,} requests, builds included: {first}."]


def describe_batch_sizes(facts: AdvisedAnswer) -> list[str]:
    """Return where the best arm or the sign of the speed-up differs, or that there is no batch."""
    inputs = facts.answer.results.inputs
    if inputs is not None and inputs.has_batch is False:
        # The figures carry the batch size 1, which must not be taken for one row.
        line = (
            "The inputs have no common first dimension: batch size 1 stands for a call with "
            f"{name_own_shapes(facts.answer.question.model)}, and a sample is such a call."
        )
        return [line]
    sizes, rows = facts.answer.question.batch_sizes, inputs.example_rows if inputs else None
    lines = []
    if rows is not None and rows not in sizes:
        option = f"--batch-sizes {rows}"
        lines = [f"Batch size {rows}, that of the example inputs, was not measured ({option})."]
    model = facts.answer.question.model
    if isinstance(model, OnnxModel) and sizes == (1,) and model.batch_size is None and rows is None:
        drawn = "" if model.inputs else " with inputs that were drawn"
        lines = [f"The file was called{drawn} at batch size 1 (--batch-sizes, --inputs)."]
    if is_unfit(facts.answer.results):
        return lines  # single figures say nothing
    ahead: dict[str, list[str]] = {}
    for advice in facts.advice.advice_by_shape if facts.decision.word != "OPEN" else ():
        # The highest score is not always the highest speed, so both speed-ups are given.
        gain = f"{advice.shape} ({advice.speedup:.2f}x against {advice.advised_speedup:.2f}x)"
        if advice.speedup >= CLEARLY_FASTER * advice.advised_speedup:
            ahead.setdefault(advice.arm, []).append(gain)
    lines += [
        f"For {_shape_noun(facts, len(at))} {join_names(at)} alone, {facts.answer.titles[arm]}"
        " has the higher score."
        for arm, at in ahead.items()
    ]
    slower = [
        f"{advice.shape} ({advice.advised_speedup:.2f}x)"
        for advice in facts.advice.advice_by_shape
        if advice.advised_speedup * (1 + EQUIVALENCE_MARGIN) < 1
    ]
    if slower:
        lines.append(
            f"{facts.scored.title} is slower than {facts.answer.baseline_title} "
            f"at {_shape_noun(facts, len(slower))} {', '.join(slower)}."
        )
    return [" ".join(lines)] if lines else []


def _shape_noun(facts: AdvisedAnswer, count: int) -> str:
    noun = "batch size" if len(facts.answer.question.lengths) == 1 else "shape"
    return noun if count == 1 else f"{noun}s"
