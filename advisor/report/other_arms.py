"""Sentences about other arms: which are faster or as good, would be advised, or are not ranked."""

from __future__ import annotations

import math

from advisor.decide import rivals
from advisor.decide.sensitivity import SAME_SCORE, grades_of
from advisor.domain.answer import AdvisedAnswer, Answer, Status, UnmeasuredArm
from advisor.domain.model import OnnxModel
from advisor.domain.plan import ArmName
from advisor.domain.recommendation import Flip, ShapeAdvice
from advisor.domain.results import ScoredArm
from advisor.domain.text import (
    ROUNDING,
    format_share,
    format_weights,
    join_names,
    write_count,
    write_speedup,
)
from advisor.report.cost import wrapper_lines
from advisor.report.formatting import Section
from advisor.report.setup_facts import describe_shapes, own_shapes

#: Larger shares of draws are shown as "over 99 %", because other draws could differ.
MAX_SHOWN_PERCENT = 99


def describe_certainty(share: float) -> str:
    """Write a share of draws, rounded down: it never reads like a limit that it misses."""
    percent = share * 100
    if percent > MAX_SHOWN_PERCENT:
        return f"certainty over {MAX_SHOWN_PERCENT} %"
    return f"certainty {math.floor(percent + ROUNDING):d} %"


def describe_flips(answer: Answer) -> list[tuple[Flip, str]]:
    """Return the flips, the nearest first, with the weights at which each holds.

    Such as `portability weighs 0 %`. Those between which no weight can be written are left out.
    """
    advice, priorities = answer.recommendation, answer.question.priorities
    if advice is None:
        return []
    nows = [getattr(priorities, flip.criterion) for flip in advice.flips]
    nearest = sorted(zip(advice.flips, nows, strict=True), key=lambda at: abs(at[0].weight - at[1]))
    weights = [(flip, format_weights(*advice.bounds_of(flip), now)) for flip, now in nearest]
    return [(flip, f"{flip.criterion} weighs {each}") for flip, each in weights if each]


def flip_lines(answer: Answer) -> list[str]:
    """Return a sentence about each change of a weight that changes the answer, nearest first."""
    advice, titles = answer.recommendation, answer.titles
    changes = "changes to" if advice and advice.decision.fit else "may change to"
    return [
        f"The answer {changes} {titles.get(flip.to, flip.to)} if {weights} of the three Ps "
        f"(now {getattr(answer.question.priorities, flip.criterion):g} %)."
        for flip, weights in describe_flips(answer)
    ]


def describe_faster(decided: AdvisedAnswer) -> str:
    """Name the fastest arm if it is another one and, beside the baseline, the best other one."""
    answer, own = decided.answer, decided.advised.arm
    faster, sentences = rivals.find_faster_arm(decided), []
    if faster is not None:
        scored = faster.scored
        wrapper = wrapper_lines(answer, answer.results.by_arm[scored.arm])
        lines = scored.adoption.lines_changed + wrapper
        # The baseline needs no change, so the lines are a part of the price.
        change = f" for {write_count(lines, 'line')} of code" if decided.is_baseline else ""
        is_as_good = scored in rivals.arms_as_good(decided, own)
        figures = _figures(decided, scored, own) if is_as_good else describe_gain(answer, scored)
        gain = f"({figures}){change}{_less_exact(faster)}"
        perhaps = "Perhaps faster" if faster.is_doubtful else "Faster"
        sentences.append(f"{perhaps}: {scored.title} {gain}; {_why_not(decided, faster)}.")
    others = (each for each in answer.scores if each.workflow != decided.advised.workflow)
    best = next((each for each in others if not each.failures), None)
    is_named = faster is not None or best is None or best.arm in decided.decision.as_good
    if decided.is_baseline and best is not None and not is_named:
        sentences.append(f"Next workflow by score: {best.title} ({describe_gain(answer, best)}).")
    return " ".join(sentences)


def describe_gain(answer: Answer, scored: ScoredArm) -> str:
    speedup = answer.results.by_arm[scored.arm].speedup
    return write_speedup(speedup, unfit=answer.results.is_unfit, in_words=True)


def describe_equals(
    decided: AdvisedAnswer, shown: str, told: str = "", *, has_figures: bool = True
) -> str:
    """Name the arms that are about as good as a shown one, except the one that was `told`."""
    named: dict[str, list[str]] = {}
    for scored in rivals.arms_as_good(decided, shown):
        how = "about" if rivals.is_mostly_as_good(decided.decision, scored.arm) else "perhaps"
        if scored.arm != told:
            figures = f" ({_figures(decided, scored, shown)})" if has_figures else ""
            named.setdefault(how, []).append(f"{scored.title}{figures}")
    return "; ".join(f"{how} as good: {join_names(each, 'or')}" for how, each in named.items())


def describe_small_gain(decided: AdvisedAnswer) -> str:
    """Say that the advised arm gains little, and whether the baseline is as good; else empty."""
    if not decided.decision.gains_little:
        return ""
    if not rivals.is_baseline_as_good(decided):
        return f"it may be no faster than {decided.answer.baseline_title}"
    figures = _how_good(decided, decided.arms[decided.answer.results.baseline], decided.advised.arm)
    return f"keep {decided.answer.baseline_title}, which is about as good ({figures})"


def _figures(decided: AdvisedAnswer, scored: ScoredArm, shown: str) -> str:
    return f"{describe_gain(decided.answer, scored)}, {_how_good(decided, scored, shown)}"


def _how_good(decided: AdvisedAnswer, scored: ScoredArm, shown: str) -> str:
    """Return points and certainty; other arms of the advised workflow have no certainty."""
    share = decided.decision.contenders.get(scored.arm)
    points = describe_points(decided.arms[shown], scored)
    return points if share is None else f"{points}, {describe_certainty(share)}"


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


def _why_not(decided: AdvisedAnswer, faster: rivals.FasterArm) -> str:
    scored = faster.scored
    match faster.why_not:
        case "constraint":
            return f"a constraint excludes it ({'; '.join(scored.failed_constraints)})"
        case "unproven":
            return "this gain is not shown"
        case "as-good":
            return "it scores as well"
        case "score":
            ours, theirs = grades_of(decided.advised.scored), grades_of(scored)
            losses = [name.replace("_", " ") for name in ours if theirs[name] < ours[name]]
            loses = f"loses on {join_names(losses)}, and " if losses else ""
            return f"it {loses}{_when_it_leads(decided, scored)}"


def _when_it_leads(decided: AdvisedAnswer, faster: ScoredArm) -> str:
    """Return above which weight of performance an arm with a lower score is advised.

    Without one, that of another arm of its workflow, which may be as fast and lose less.
    """
    if faster.score >= decided.advised.scored.score:
        return f"has {describe_points(decided.advised.scored, faster)}"
    found = [
        (flip.to, weights)
        for flip, weights in describe_flips(decided.answer)
        if (flip.criterion, flip.when) == ("performance", "more")
        if decided.arms[flip.to].workflow == faster.workflow
    ]
    if not found:
        return "is advised at no weight of performance"
    arm, weights = min(found, key=lambda each: each[0] != faster.arm)
    instead = "" if arm == faster.arm else f"{decided.arms[arm].title} "
    return f"{instead}{'is' if decided.decision.fit else 'may be'} advised if {weights}"


def describe_requests(decided: AdvisedAnswer) -> list[str]:
    sizes: dict[str, list[str]] = {}
    requests, titles = decided.answer.question.requests, decided.answer.titles
    for shape, arm in decided.advice.first_to_serve.items():
        if arm != decided.advised.arm:
            sizes.setdefault(arm, []).append(shape)
    if not sizes:
        return []
    shapes = {str(each): each for each in decided.answer.question.shapes}
    first = "; ".join(
        f"{titles.get(arm, arm)} at {describe_shapes(decided.answer, [shapes[at] for at in found])}"
        for arm, found in sizes.items()
    )
    return [f"First to serve {requests:,} requests, builds included: {first}."]


def describe_batch_sizes(decided: AdvisedAnswer) -> list[str]:
    """Return where another arm is better, and which batch sizes the inputs and the file have."""
    lines = [
        *_describe_batch(decided.answer),
        *_describe_leads(decided),
        *_describe_fastest(decided),
    ]
    return [" ".join(lines)] if lines else []


def _describe_batch(answer: Answer) -> list[str]:
    inputs, model = answer.results.inputs, answer.question.model
    if own := own_shapes(answer):
        # The figures carry the batch size 1, which must not be taken for one row.
        line = "The inputs have no common first dimension: batch size 1 stands for a call with"
        return [f"{line} {own}, and a sample is such a call."]
    sizes, rows = answer.question.batch_sizes, inputs.example_rows if inputs else None
    if rows is not None and rows not in sizes:
        option = f"--batch-sizes {rows}"
        return [f"Batch size {rows}, that of the example inputs, was not measured ({option})."]
    if isinstance(model, OnnxModel) and sizes == (1,) and model.batch_size is None and rows is None:
        drawn = "" if model.inputs else " with inputs that were drawn"
        return [f"The file was called{drawn} at batch size 1 (--batch-sizes, --inputs)."]
    return []


def _describe_leads(decided: AdvisedAnswer) -> list[str]:
    """Return at which shapes another arm is better.

    It is empty on an unfit machine, whose single figures mean nothing.
    """
    ahead: dict[str, list[ShapeAdvice]] = {}
    for each in () if decided.answer.results.is_unfit else rivals.shapes_led_by_others(decided):
        ahead.setdefault(each.arm, []).append(each)
    lines = []
    for arm, led in ahead.items():
        at = describe_shapes(decided.answer, [each.shape for each in led])
        # The highest score is not always the highest speed, so both speed-ups are given.
        gains = [f"{each.speedup:.2f}x against {each.advised_speedup:.2f}x" for each in led]
        lines.append(f"For {at} alone, {decided.answer.titles[arm]} leads ({join_names(gains)}).")
    return lines


def _describe_fastest(decided: AdvisedAnswer) -> list[str]:
    """Return at which shapes an arm is faster that neither leads there nor is named as faster."""
    faster, led = rivals.find_faster_arm(decided), rivals.shapes_led_by_others(decided)
    named = faster.scored.arm if faster else None
    lines = []
    for each in () if decided.answer.results.is_unfit else decided.advice.advice_by_shape:
        if each.fastest and each.fastest_ratio and each.fastest != named and each not in led:
            at = describe_shapes(decided.answer, [each.shape])
            ratio = write_speedup(each.fastest_ratio, unfit=False, interval=True, in_words=True)
            title = decided.arms[each.fastest].title
            lines.append(f"Faster at {at}: {title}, {ratio} as fast as the advised arm.")
    return lines


PARTLY_USED = "Used for less than half of the work, the rest ran as without it"
#: Share of the work below which an arm is listed; tables and `explain` have the share of each.
HALF = 0.5
UNRANKED_TITLE = "Not ranked, or excluded by a constraint (!)"
#: Statuses of workflows that were not tried, below those that failed, the more useful to know
#: first.
NOT_TRIED: tuple[Status, ...] = (
    "skipped",
    "not-installed",
    "not-reached",
    "excluded",
    "unsupported",
)


def unranked(answer: Answer) -> Section:
    failing: dict[str, list[str]] = {}
    for scored in answer.scores:
        if scored.failures:
            failing.setdefault("; ".join(scored.failed_constraints), []).append(scored.arm)
    lines = [f"{', '.join(arms)}: {fails}" for fails, arms in failing.items()]
    listed = [missing for missing in answer.unmeasured if not is_unnamed(missing, answer)]
    lines += _reasons([missing for missing in listed if missing.status != "not-covered"])
    without_probe = [missing.arm for missing in listed if missing.status == "not-covered"]
    if without_probe:
        lines.append(
            f"not covered by p3-advisor: {', '.join(without_probe)}; "
            "p3-advisor workflows gives the reasons"
        )
    return Section("unmeasured", UNRANKED_TITLE, lines)


def is_unnamed(missing: UnmeasuredArm, answer: Answer) -> bool:
    """Return whether the user named workflows, and not this one, which was not tried."""
    named = {ArmName.parse(name).workflow for name in answer.question.workflows}
    not_tried = missing.status in NOT_TRIED or missing.status == "not-covered"
    return bool(named) and ArmName.parse(missing.arm).workflow not in named and not_tried


def _reasons(entries: list[UnmeasuredArm]) -> list[str]:
    groups: dict[tuple[Status, str, str], list[str]] = {}
    ranks = {status: rank for rank, status in enumerate(NOT_TRIED, 1)}
    for missing in sorted(entries, key=lambda each: ranks.get(each.status, 0)):
        # The next steps of the answer name the command that installs a workflow.
        fix = "" if missing.status == "not-installed" else missing.fix or ""
        groups.setdefault((missing.status, missing.reason, fix), []).append(missing.arm)
    lines = []
    for (status, reason, fix), arms in groups.items():
        lines.append(f"{', '.join(arms)}: {status}, {reason}")
        if fix:
            lines.append(f"  next: {fix}")
    return lines


def partly_used(answer: Answer) -> Section:
    lines = [
        f"{scored.arm}: {format_share(measured.engaged_share)}"
        f"{f' ({measured.engagement})' if measured.engagement else ''}"
        for scored, measured in answer.ranking
        if measured.cells and measured.engaged_share < HALF
    ]
    return Section("partly", PARTLY_USED, lines)
