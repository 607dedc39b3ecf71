"""The answer in three lines: what to use, how certain that is, and what would change it. Pure.

Every output shows these lines as they are. Further lines follow where the advised arm is not exact,
where the best arm differs by batch size, or where the advised arm is slower than the baseline at
one of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from advisor.domain.accuracy import worst_check
from advisor.domain.decision import BatchAdvice, DecisionWord, Flip, HeadlinePart, ScoredArm
from advisor.domain.measurement import Interval
from advisor.domain.question import Priorities, WeightFormat
from advisor.domain.rubric import LETTERS
from advisor.domain.worker_events import Checked
from advisor.domain.workflow import Workflow
from advisor.recommendation.certainty import Certainty
from advisor.recommendation.flips import SAME_SCORE, grades_of, overtaking_weight
from advisor.system.number_format import format_bound, format_number, format_weight

#: A measured arm that is faster than the advised one by less than this is not named as faster.
SAME_SPEED = 1.02
#: Further arms that are as good are not named.
MOST_ALTERNATIVES = 3
#: Larger percentages are shown as "over 99 %".
MAX_SHOWN_PERCENT = 99.0
#: Smaller relative errors are written with an exponent.
LEAST_PERCENT = 1e-3
#: Error of a share in percent by rounding alone.
ROUNDING = 1e-6
#: Why outputs were not compared.
UNCHECKED = {
    "constant-output": "they are the same constant for every input",
    "random-model": "the model is random",
    "": "the reason is not known",
}
EAGER_TITLE = "eager PyTorch"
#: Names of criteria in a sentence, where they differ from the identifiers.
CRITERION_NAMES = {
    "input_flexibility": "input flexibility",
    "architecture_support": "architecture support",
}


@dataclasses.dataclass(frozen=True)
class HeadlineFacts:
    """What the lines are written from."""

    advised: ScoredArm
    speedup: Interval
    #: Whether the interval of the speed-up has what differs between processes.
    has_process_differences: bool
    baseline: str
    certainty: Certainty
    indifference: float
    arms: Mapping[str, ScoredArm]
    titles: Mapping[str, str]
    flips: Sequence[Flip]
    priorities: Priorities
    by_batch_size: Sequence[BatchAdvice]
    subject: str
    #: The outputs of the advised arm by batch size, and the best arms whose outputs are exact.
    checks: Sequence[Checked] = ()
    best_exact: Sequence[str] = ()
    #: The format of the advised arm's quantised weights, and the best arms without such weights.
    weights: WeightFormat | None = None
    best_native: Sequence[str] = ()
    has_random_weights: bool = False
    #: About a server under load; empty for other tasks.
    load_lines: tuple[str, ...] = ()


def write_headline(facts: HeadlineFacts) -> list[tuple[HeadlinePart, str]]:
    """Return the lines, each with what it is about."""
    lines: list[tuple[HeadlinePart, str]] = [
        ("answer", _instruction(facts)),
        ("certainty", _certainty(facts)),
        ("change", _change(facts)),
    ]
    further: tuple[tuple[HeadlinePart, Sequence[str]], ...] = (
        ("load", facts.load_lines),
        ("weights", _quantised_weights(facts)),
        ("accuracy", _accuracy(facts)),
        ("batch-sizes", _batch_sizes(facts)),
    )
    return lines + [(part, line) for part, found in further for line in found]


def arm_titles(arms: Sequence[ScoredArm], workflows: Sequence[Workflow]) -> dict[str, str]:
    """Return what to call each arm: its workflow's title, and its option in parentheses."""
    titles = {workflow.id: workflow.title for workflow in workflows}
    named = {}
    for arm in arms:
        option = arm.arm.removeprefix(arm.workflow).lstrip("/").replace("-", " ")
        title = titles.get(arm.workflow, arm.workflow)
        named[arm.arm] = f"{title} ({option})" if option else title
    return named


def _instruction(facts: HeadlineFacts) -> str:
    title = facts.titles[facts.advised.arm]
    others = [
        facts.titles[_best_of(facts, workflow)] for workflow in facts.certainty.contenders[1:]
    ]
    if facts.certainty.decision == "CLEAR" or not others:
        return f"Use {title} for {facts.subject}."
    names = join_names([title, *others], "or")
    if facts.certainty.decision == "EITHER":
        return (
            f"Use {names} for {facts.subject}: "
            "they are equally good, the first is the simplest to adopt."
        )
    return f"Not settled for {facts.subject}: {names}. The first leads so far."


def _best_of(facts: HeadlineFacts, workflow: str) -> str:
    own = [arm for arm in facts.arms.values() if arm.workflow == workflow and not arm.fails]
    return min(own, key=lambda arm: arm.rank).arm


def _certainty(facts: HeadlineFacts) -> str:
    found = facts.certainty
    share = f"{format_share_of_draws(found.certainty)} certainty"
    sentences: dict[DecisionWord, str] = {
        "CLEAR": f"CLEAR: highest score with {share}.",
        "EITHER": f"EITHER: equally good with {share}.",
        "OPEN": f"OPEN: highest score with only {share}. {_what_settles(found)}",
    }
    return f"{sentences[found.decision]} {_speed(facts)} {_faster(facts)}"


def format_share_of_draws(share: float) -> str:
    """Return a share in percent, rounded down: it never reads like a limit that it misses.

    It is never shown as 100 %, because other draws could differ.
    """
    percent = share * 100
    return "over 99 %" if percent > MAX_SHOWN_PERCENT else f"{math.floor(percent + ROUNDING):d} %"


def _what_settles(found: Certainty) -> str:
    if found.needed_seconds is None:
        return "More repetitions in fresh processes may settle it: --budget standard."
    seconds = found.needed_seconds
    amount = f"{seconds / 60:.0f} more minutes" if seconds >= 120 else f"{seconds:.0f} more seconds"  # noqa: PLR2004
    return f"About {amount} of measuring would settle it."


def _speed(facts: HeadlineFacts) -> str:
    baseline = facts.titles.get(facts.baseline, facts.baseline)
    if facts.advised.arm == facts.baseline:
        return f"It is the baseline, {baseline}."
    speedup = facts.speedup
    if facts.load_lines:
        return f"{speedup.value:.2f}x the request rate of {baseline}{_bounds(speedup)}."
    if speedup.low is None or speedup.high is None:
        return f"{speedup.value:.2f}x as fast as {baseline} (interval not known)."
    bounds = f"{speedup.low:.2f} to {speedup.high:.2f}"
    if not facts.has_process_differences:
        return (
            f"{speedup.value:.2f}x as fast as {baseline} ({bounds} in one process each; no two "
            "equal workers were compared, so another process may differ by more)."
        )
    return f"{speedup.value:.2f}x as fast as {baseline} ({bounds})."


def _bounds(speedup: Interval) -> str:
    if speedup.low is None or speedup.high is None:
        return " (interval not known)"
    return f" ({speedup.low:.2f} to {speedup.high:.2f})"


def _faster(facts: HeadlineFacts) -> str:
    regret = facts.certainty.speed_regret
    if regret.arm is None or regret.value < SAME_SPEED:
        return "Nothing measured is faster."
    faster = facts.arms[regret.arm]
    name = facts.titles[faster.arm]
    return f"Faster: {name}, {regret.value:.2f}x as fast as this one; {_why_not(facts, faster)}."


def _why_not(facts: HeadlineFacts, faster: ScoredArm) -> str:
    if faster.fails:
        return f"a constraint excludes it ({'; '.join(faster.fails)})"
    is_sibling = faster.workflow == facts.advised.workflow
    if is_sibling and faster.score >= facts.advised.score - SAME_SCORE:
        return "it scores as well, and its outputs are less exact"
    ours, theirs = grades_of(facts.advised), grades_of(faster)
    losses = [
        f"{CRITERION_NAMES.get(name, name)} ({LETTERS[faster.ratings[name].tier]})"
        for name in ours
        if theirs[name] < ours[name]
    ]
    on = f"it loses on {join_names(losses)}" if losses else "it scores the same"
    weight = overtaking_weight(faster, facts.advised, facts.priorities)
    if weight is None:
        return f"{on}, at every weight of performance"
    now = facts.priorities.performance
    if weight <= now:
        return f"{on}, and leads by no more than {facts.indifference:g} points"
    shown = format_weight(weight, now) or f"{now:g}"
    return f"{on}, and leads if performance weighs more than {shown} %"


def join_names(names: Sequence[str], conjunction: str = "and") -> str:
    """Return the names as a list, with semicolons where a name has a comma."""
    *others, last = names
    if not others:
        return last
    if len(others) > 1 and any("," in name for name in names):
        return f"{'; '.join(others)}; {conjunction} {last}"
    return f"{', '.join(others)} {conjunction} {last}"


def _change(facts: HeadlineFacts) -> str:
    found = facts.certainty
    # The lead may pass between equally good workflows without changing the answer.
    equal = found.contenders if found.decision == "EITHER" else ()
    flips = [
        flip
        for flip in facts.flips
        if flip.to != facts.advised.arm and facts.arms[flip.to].workflow not in equal
    ]
    if not flips:
        return "No weighting of the three Ps changes the answer."
    nearest = min(
        flips, key=lambda flip: abs(flip.weight - getattr(facts.priorities, flip.criterion))
    )
    now = getattr(facts.priorities, nearest.criterion)
    bound = format_bound(nearest.weight, now, nearest.when)
    return (
        f"The answer changes to {facts.titles[nearest.to]} if {nearest.criterion} weighs {bound} "
        f"(now {now:g} %)."
    )


def _quantised_weights(facts: HeadlineFacts) -> list[str]:
    """Return the format of the advised arm's weights and the best native arm, if it has one."""
    if facts.weights is None:
        return []
    native = _join_alternatives(facts, facts.best_native)
    instead = (
        f"Best without quantised weights: {native}."
        if native
        else "No arm without quantised weights was measured."
    )
    random = (
        " The model has random weights: what trained weights lose has to be measured with them."
        if facts.has_random_weights
        else ""
    )
    return [f"Its weights are quantised to {facts.weights}. {instead}{random}"]


def _join_alternatives(facts: HeadlineFacts, arms: Sequence[str]) -> str:
    """Return the titles of equally good arms with their speed-ups."""
    names = [
        f"{facts.titles[arm]} ({facts.arms[arm].speedup:.2f}x)" for arm in arms[:MOST_ALTERNATIVES]
    ]
    return join_names(names, "or") if names else ""


def _accuracy(facts: HeadlineFacts) -> list[str]:
    """Return what the advised arm costs in accuracy, if anything, and the best exact arm."""
    worst = worst_check(facts.checks)
    if worst is None or worst.accuracy_class == "exact":
        return []
    if worst.accuracy_class == "unchecked":
        fault = worst.accuracy.fault if worst.accuracy else ""
        return [f"Its outputs could not be checked: {UNCHECKED[fault]}."]
    if facts.weights is not None:
        return [f"Its outputs differ from the reference: {_cost(worst, is_quantised=True)}."]
    exact = _join_alternatives(facts, facts.best_exact)
    instead = f"Best with exact outputs: {exact}." if exact else "No exact arm was measured."
    return [f"Its outputs are close, not exact: {_cost(worst)}. {instead}"]


def _cost(checked: Checked, *, is_quantised: bool = False) -> str:
    found = checked.accuracy
    if found is None or found.error is None:
        return "their error is not known"
    if found.kl_mean is None and found.error >= LEAST_PERCENT:
        size = f"relative error {found.error:.1%}"
    elif found.kl_mean is None:
        size = f"relative error {found.error:.1e}"
    else:
        size = f"divergence of {found.error:.1e} nats a token"
    if is_quantised:
        return size
    ratio = format_number(found.ratio_to_eager, digits=2)
    times = f", {ratio} times that of {EAGER_TITLE}" if found.ratio_to_eager else ""
    return f"{size}{times}"


def _batch_sizes(facts: HeadlineFacts) -> list[str]:
    lines = []
    has_answer = facts.certainty.decision != "OPEN"
    if has_answer and len({advice.arm for advice in facts.by_batch_size}) > 1:
        lines.append("Highest score by batch size: " + "; ".join(_runs_of_sizes(facts)) + ".")
    slower = [
        f"{advice.batch_size} ({advice.advised_speedup:.2f}x)"
        for advice in facts.by_batch_size
        if advice.advised_speedup < 1 / SAME_SPEED
    ]
    if slower:
        baseline = facts.titles.get(facts.baseline, facts.baseline)
        plural = "s" if len(slower) > 1 else ""
        lines.append(
            f"{facts.titles[facts.advised.arm]} is slower than {baseline} "
            f"at batch size{plural} {', '.join(slower)}."
        )
    return [" ".join(lines)] if lines else []


def _runs_of_sizes(facts: HeadlineFacts) -> list[str]:
    """Return `1, 4: title, 1.20x, 1.30x` for neighbouring batch sizes with the same best arm."""
    groups: list[list[BatchAdvice]] = []
    for advice in facts.by_batch_size:
        if groups and groups[-1][-1].arm == advice.arm:
            groups[-1].append(advice)
        else:
            groups.append([advice])
    return [_run_of_sizes(facts, group) for group in groups]


def _run_of_sizes(facts: HeadlineFacts, group: Sequence[BatchAdvice]) -> str:
    sizes = ", ".join(str(advice.batch_size) for advice in group)
    speedups = ", ".join(f"{advice.speedup:.2f}x" for advice in group)
    # The highest score is not always the highest speed, so the advised arm's is given as well.
    is_other = group[0].arm != facts.advised.arm
    own = ", ".join(f"{advice.advised_speedup:.2f}x" for advice in group)
    advised = f" (this answer {own})" if is_other else ""
    return f"{sizes}: {facts.titles[group[0].arm]}, {speedups}{advised}"
