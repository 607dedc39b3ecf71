"""Sentences about other arms: which are faster or as good, and what would change the answer."""

from __future__ import annotations

import math

from advisor.decide import rivals
from advisor.decide.sensitivity import SAME_SCORE, grades_of
from advisor.decide.trust import STEADY_NOISE, is_busy, is_unfit
from advisor.domain.answer import AdvisedAnswer, Answer
from advisor.domain.model import OnnxModel, name_own_shapes
from advisor.domain.recommendation import Flip
from advisor.domain.results import Results, ScoredArm
from advisor.domain.text import (
    format_share,
    format_share_of_draws,
    format_weights,
    join_names,
    write_count,
    write_speedup,
)

#: Less than this share of speed, or than these points of score, counts as nothing.
NOTHING = 0.005


def describe_unfitness(results: Results) -> str:
    noise = results.noise_floor or 0.0
    differed = f", equal processes differed by up to {format_share(noise)}"
    if is_busy(results):
        return f"the machine was busy{differed if noise > STEADY_NOISE else ''}"
    return f"the machine was unsteady{differed}"


def describe_certainty(results: Results, share: float) -> str:
    by = " by these measurements" if is_unfit(results) else ""
    return f"certainty {format_share_of_draws(share)}{by}"


def describe_flips(answer: Answer) -> list[tuple[Flip, str]]:
    """Return the flips with the weights at which each holds, such as `portability weighs 0 %`.

    Those between which no weight can be written are left out.
    """
    advice, priorities = answer.recommendation, answer.question.priorities
    if advice is None:
        return []
    weights = [
        (flip, format_weights(*advice.bounds_of(flip), getattr(priorities, flip.criterion)))
        for flip in advice.flips
    ]
    return [(flip, f"{flip.criterion} weighs {each}") for flip, each in weights if each]


def flip_lines(answer: Answer, *, nearest_first: bool = False) -> list[str]:
    """Return a sentence about each change of a weight that changes the answer."""
    advice, titles = answer.recommendation, answer.titles
    changes = "changes to" if advice and advice.decision.fit else "may change to"
    lines: list[tuple[float, str]] = []
    for flip, weights in describe_flips(answer):
        now = getattr(answer.question.priorities, flip.criterion)
        change = f"The answer {changes} {titles.get(flip.to, flip.to)} if {weights}"
        lines.append((abs(flip.weight - now), f"{change} of the three Ps (now {now:g} %)."))
    return [line for _, line in (sorted(lines) if nearest_first else lines)]


def flip_in_certainty(answer: Answer) -> Flip | None:
    """Return the change of a weight that the line of the certainty names, if any."""
    facts = AdvisedAnswer.of(answer)
    faster = rivals.find_faster_arm(facts) if facts else None
    is_named = facts and faster and faster.why_not == "score"
    return _flip_to(facts, faster.scored) if facts and faster and is_named else None


def describe_faster(facts: AdvisedAnswer) -> str:
    """Name the fastest arm if it is another one and, beside the baseline, the best other one."""
    faster, sentences = rivals.find_faster_arm(facts), []
    if faster is not None:
        scored, lines = faster.scored, faster.scored.adoption.lines_changed
        # The baseline needs no change, so the lines are a part of the price.
        change = f" for {write_count(lines, 'line')} of code" if facts.is_baseline else ""
        gain = f"({describe_gain(facts, scored)}){change}{_less_exact(faster)}"
        perhaps = "Perhaps faster" if faster.is_doubtful else "Faster"
        sentences.append(f"{perhaps}: {scored.title} {gain}; {_why_not(facts, faster)}.")
    elif not facts.is_baseline:
        over = " over all shapes" if len(facts.measured.cells) > 1 else ""
        sentences.append(f"Nothing measured is clearly faster{over}.")
    others = (each for each in facts.answer.scores if each.workflow != facts.scored.workflow)
    best = next((each for each in others if not each.failures), None)
    is_named = faster is not None or best is None or best.arm in facts.decision.as_good
    if facts.is_baseline and best is not None and not is_named:
        sentences.append(f"Next workflow by score: {best.title} ({describe_gain(facts, best)}).")
    return " ".join(sentences)


def describe_gain(facts: AdvisedAnswer, scored: ScoredArm) -> str:
    speedup = facts.answer.measurements[scored.arm].speedup
    return write_speedup(speedup, unfit=is_unfit(facts.answer.results), in_words=True)


def describe_equals(facts: AdvisedAnswer, shown: str) -> str:
    """Name the arms that are about as good as a shown one, with speed-ups, points and shares."""
    named: dict[str, list[str]] = {}
    for scored in rivals.arms_as_good(facts, shown):
        how = "about as good" if rivals.is_mostly_as_good(facts, scored.arm) else "perhaps as good"
        figures = f"{describe_gain(facts, scored)}, {_how_good(facts, scored, shown)}"
        named.setdefault(how, []).append(f"{scored.title} ({figures})")
    return "; ".join(f"{how}: {join_names(each, 'or')}" for how, each in named.items())


def describe_small_gain(facts: AdvisedAnswer) -> str:
    """Return how little the advised arm gains, and that the baseline is as good; empty for more."""
    if not facts.decision.gains_little:
        return ""
    baseline, speedup = facts.answer.results.baseline, facts.measured.speedup
    least, most = (speedup.low or 0.0) - 1, (speedup.high or math.inf) - 1
    is_as_good, gain = rivals.is_baseline_as_good(facts), "the gain may be small"
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


def _how_good(facts: AdvisedAnswer, scored: ScoredArm, shown: str) -> str:
    certainty = describe_certainty(facts.answer.results, facts.decision.contenders[scored.arm])
    return f"{describe_points(facts.arms[shown], scored)}, {certainty}"


def describe_points(shown: ScoredArm, scored: ScoredArm) -> str:
    """Return how an arm's score differs from that of a shown one, by the figures of a table."""
    lead = round(scored.score, 2) - round(shown.score, 2)
    if abs(lead) < SAME_SCORE:
        return "the same score"
    return f"{abs(lead):.2f} points {'more' if lead > 0 else 'less'}"


def _less_exact(faster: rivals.FasterArm) -> str:
    error = faster.larger_error
    if error is None:
        return ""
    price = " but in a lower precision" if faster.is_lower_precision else " but less exact"
    return f"{price} (error {error:.1e})" if math.isfinite(error) else price


def _why_not(facts: AdvisedAnswer, faster: rivals.FasterArm) -> str:
    scored = faster.scored
    match faster.why_not:
        case "constraint":
            return f"a constraint excludes it ({'; '.join(scored.failed_constraints)})"
        case "unproven":
            return "this gain is not shown"
        case "as-good":
            return "it scores as well"
        case "score":
            ours, theirs = grades_of(facts.scored), grades_of(scored)
            losses = [name.replace("_", " ") for name in ours if theirs[name] < ours[name]]
            on = f"it loses on {join_names(losses)}" if losses else "it scores the same"
            return f"{on}, and {_when_it_leads(facts, scored)}"


def _when_it_leads(facts: AdvisedAnswer, faster: ScoredArm) -> str:
    if faster.score >= facts.scored.score:
        return f"has {describe_points(facts.scored, faster)}"
    flip = _flip_to(facts, faster)
    if flip is None:
        return "is advised at no weight of performance"
    weights = dict(describe_flips(facts.answer))
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
        for flip, _ in describe_flips(facts.answer)
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
    inputs, model = facts.answer.results.inputs, facts.answer.question.model
    if inputs is not None and inputs.has_batch is False:
        # The figures carry the batch size 1, which must not be taken for one row.
        line = (
            "The inputs have no common first dimension: batch size 1 stands for a call with "
            f"{name_own_shapes(model)}, and a sample is such a call."
        )
        return [line]
    sizes, rows = facts.answer.question.batch_sizes, inputs.example_rows if inputs else None
    lines = []
    if rows is not None and rows not in sizes:
        option = f"--batch-sizes {rows}"
        lines = [f"Batch size {rows}, that of the example inputs, was not measured ({option})."]
    if isinstance(model, OnnxModel) and sizes == (1,) and model.batch_size is None and rows is None:
        drawn = "" if model.inputs else " with inputs that were drawn"
        lines = [f"The file was called{drawn} at batch size 1 (--batch-sizes, --inputs)."]
    if is_unfit(facts.answer.results):
        return lines  # single figures say nothing
    ahead: dict[str, list[str]] = {}
    for each in rivals.shapes_led_by_others(facts):
        # The highest score is not always the highest speed, so both speed-ups are given.
        gain = f"{each.shape} ({each.speedup:.2f}x against {each.advised_speedup:.2f}x)"
        ahead.setdefault(each.arm, []).append(gain)
    lines += [
        f"For {_shape_noun(facts, len(at))} {join_names(at)} alone, {facts.answer.titles[arm]}"
        " has the higher score."
        for arm, at in ahead.items()
    ]
    if slower := [f"{at.shape} ({at.advised_speedup:.2f}x)" for at in rivals.slower_shapes(facts)]:
        lines.append(
            f"{facts.scored.title} is slower than {facts.answer.baseline_title} "
            f"at {_shape_noun(facts, len(slower))} {', '.join(slower)}."
        )
    return [" ".join(lines)] if lines else []


def _shape_noun(facts: AdvisedAnswer, count: int) -> str:
    noun = "batch size" if len(facts.answer.question.lengths) == 1 else "shape"
    return noun if count == 1 else f"{noun}s"
