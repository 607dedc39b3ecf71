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
from advisor.domain.decision import BatchAdvice, DecisionWord, Flip, ScoredArm
from advisor.domain.measurement import Interval
from advisor.domain.question import Priorities, WeightFormat
from advisor.domain.rubric import LETTERS
from advisor.domain.worker_events import Checked
from advisor.domain.workflow import Workflow
from advisor.recommendation.certainty import Certainty
from advisor.recommendation.flips import grades_of, overtaking_weight
from advisor.system.number_format import format_bound, format_number, format_weight

#: A measured arm that is faster than the advised one by less than this is not named as faster.
SAME_SPEED = 1.02
#: Larger percentages are shown as "over 99 %".
MAX_SHOWN_PERCENT = 99.0
#: Error of a share in percent by rounding alone.
ROUNDING = 1e-6
#: Why outputs were not compared.
UNCHECKED = {
    "constant-output": "they are the same constant for every input",
    "random-model": "the model is random",
    "": "the reason is not known",
}
BASELINE = "eager PyTorch"
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
    #: The outputs of the advised arm by batch size, and the best arm whose outputs are exact.
    checks: Sequence[Checked] = ()
    best_exact: str | None = None
    #: The format of the advised arm's quantised weights, and the best arm without such weights.
    weights: WeightFormat | None = None
    best_native: str | None = None
    has_random_weights: bool = False
    #: About a server under load; empty for other tasks.
    load_lines: tuple[str, ...] = ()


def write_headline(facts: HeadlineFacts) -> tuple[str, ...]:
    """Return the lines."""
    lines = [_instruction(facts), _certainty(facts), _change(facts), *facts.load_lines]
    return (*lines, *_quantised_weights(facts), *_accuracy(facts), *_batch_sizes(facts))


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
        "CLEAR": f"CLEAR: best with {share}.",
        "EITHER": f"EITHER: equally good with {share}.",
        "OPEN": f"OPEN: best with only {share}. {_what_settles(found)}",
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
        return "Only repetitions in fresh processes can settle it (--budget standard)."
    seconds = found.needed_seconds
    amount = f"{seconds / 60:.0f} more minutes" if seconds >= 120 else f"{seconds:.0f} more seconds"  # noqa: PLR2004
    return f"About {amount} of measuring would settle it."


def _speed(facts: HeadlineFacts) -> str:
    baseline = facts.titles.get(facts.baseline, facts.baseline)
    if facts.advised.arm == facts.baseline:
        return f"It is the baseline, {baseline}."
    speedup = facts.speedup
    if facts.load_lines:
        baseline = f"the request rate of {baseline}"
    if speedup.low is None or speedup.high is None:
        return f"{speedup.value:.2f}x {baseline} (interval not known)."
    bounds = f"{speedup.low:.2f} to {speedup.high:.2f}"
    if not facts.has_process_differences:
        return (
            f"{speedup.value:.2f}x {baseline} ({bounds} in one process each; no two equal workers "
            "were compared, so another process may differ by more)."
        )
    return f"{speedup.value:.2f}x {baseline} ({bounds})."


def _faster(facts: HeadlineFacts) -> str:
    regret = facts.certainty.speed_regret
    if regret.arm is None or regret.value < SAME_SPEED:
        return "Nothing measured is faster."
    faster = facts.arms[regret.arm]
    return f"Faster: {faster.arm}, {regret.value:.2f}x this one; {_why_not(facts, faster)}."


def _why_not(facts: HeadlineFacts, faster: ScoredArm) -> str:
    if faster.fails:
        return f"a constraint excludes it ({'; '.join(faster.fails)})"
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
    flips = [flip for flip in facts.flips if facts.arms[flip.to].workflow not in equal]
    if not flips:
        return "No weighting of the three Ps changes the answer."
    nearest = min(
        flips, key=lambda flip: abs(flip.weight - getattr(facts.priorities, flip.criterion))
    )
    now = getattr(facts.priorities, nearest.criterion)
    bound = format_bound(nearest.weight, now, nearest.when)
    return (
        f"It would be {facts.titles[nearest.to]} if {nearest.criterion} weighed {bound} "
        f"(now {now:g} %)."
    )


def _quantised_weights(facts: HeadlineFacts) -> list[str]:
    """Return the format of the advised arm's weights and the best native arm, if it has one."""
    if facts.weights is None:
        return []
    native = facts.arms.get(facts.best_native) if facts.best_native else None
    instead = (
        f"The best native one is {facts.titles[native.arm]} ({native.speedup:.2f}x)."
        if native is not None
        else "No native one was measured."
    )
    random = (
        " The model has random weights: what trained weights lose has to be measured with them."
        if facts.has_random_weights
        else ""
    )
    return [f"Its weights are quantised to {facts.weights}. {instead}{random}"]


def _accuracy(facts: HeadlineFacts) -> list[str]:
    """Return what the advised arm costs in accuracy, if anything, and the best exact arm."""
    worst = worst_check(facts.checks)
    if worst is None or worst.accuracy_class == "exact":
        return []
    if worst.accuracy_class == "unchecked":
        fault = worst.accuracy.fault if worst.accuracy else ""
        return [f"Its outputs could not be checked: {UNCHECKED[fault]}."]
    exact = facts.arms.get(facts.best_exact) if facts.best_exact else None
    instead = (
        f"The best exact one is {facts.titles[exact.arm]} ({exact.speedup:.2f}x)."
        if exact is not None
        else "No exact one was measured."
    )
    return [f"Its outputs are close, not exact: {_cost(worst)}. {instead}"]


def _cost(checked: Checked) -> str:
    found = checked.accuracy
    if found is None or found.error is None:
        return "their error is not known"
    kind = "relative error" if found.kl_mean is None else "divergence in nats a token"
    ratio = format_number(found.ratio_to_eager, digits=2)
    times = f", {ratio} times that of {BASELINE}" if found.ratio_to_eager else ""
    return f"{kind} {found.error:.1e}{times}"


def _batch_sizes(facts: HeadlineFacts) -> list[str]:
    lines = []
    if len({advice.arm for advice in facts.by_batch_size}) > 1:
        lines.append("By batch size: " + "; ".join(_runs_of_sizes(facts)) + ".")
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
    """Return `1, 4: title` for neighbouring batch sizes with the same best arm."""
    groups: list[tuple[str, list[int]]] = []
    for advice in facts.by_batch_size:
        if groups and groups[-1][0] == advice.arm:
            groups[-1][1].append(advice.batch_size)
        else:
            groups.append((advice.arm, [advice.batch_size]))
    return [f"{', '.join(map(str, sizes))}: {facts.titles[arm]}" for arm, sizes in groups]
