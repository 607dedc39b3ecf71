"""Lines of the headline that only some answers have: weights, accuracy, batch sizes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.decide.advised_answer import AdvisedAnswer, join_names
from advisor.domain.accuracy import why_unchecked, worst_check
from advisor.domain.model import has_random_weights, name_own_shapes
from advisor.domain.recommendation import ShapeAdvice
from advisor.domain.results import EQUIVALENCE_MARGIN
from advisor.system.number_format import format_number, format_share
from probes.wire.checks import Checked

#: Smaller relative errors are written with an exponent.
LEAST_PERCENT = 1e-3
EAGER_TITLE = "eager PyTorch"


def describe_requests(facts: AdvisedAnswer) -> list[str]:
    """Return where another arm serves the stated number of requests first, builds included."""
    sizes: dict[str, list[str]] = {}
    requests = facts.answer.question.requests
    for entry in facts.advice.horizons:
        if entry.requests == requests and entry.arm != facts.scored.arm:
            sizes.setdefault(entry.arm, []).append(str(entry.shape))
    if not sizes:
        return []
    first = "; ".join(
        f"{facts.titles.get(arm, arm)} at {_shape_name(facts)}{'s' if len(found) > 1 else ''} "
        f"{join_names(found)}"
        for arm, found in sizes.items()
    )
    return [f"First to serve {requests:,} requests, builds included: {first}."]


def describe_adjustments(facts: AdvisedAnswer) -> list[str]:
    """Return what the model changes in its process, and what was done about it."""
    results = facts.answer.results
    adjusted = {
        name: done
        for entry in results.measurements
        if entry.arm == results.baseline
        for name, done in entry.adjusted.items()
    }
    told = "; ".join(f"{name} {done}" for name, done in adjusted.items())
    return [f"For equal arms: {told}."] if told else []


def describe_weights(facts: AdvisedAnswer) -> list[str]:
    """Return the format of the advised arm's weights and the best native arm, if it has one."""
    if facts.scored.weights is None:
        return []
    native = _alternative(facts, facts.advice.best_native)
    instead = (
        f"Best without quantised weights: {native}."
        if native
        else "No arm without quantised weights was measured."
    )
    random = (
        " The model has random weights: what trained weights lose has to be measured with them."
        if has_random_weights(facts.answer.question.model)
        else ""
    )
    return [f"Its weights are quantised to {facts.scored.weights}. {instead}{random}"]


def _alternative(facts: AdvisedAnswer, arm: str | None) -> str:
    """Return the title of an arm with its speed-up; empty for none."""
    return f"{facts.titles[arm]} ({facts.arms[arm].speedup:.2f}x)" if arm else ""


def describe_accuracy(facts: AdvisedAnswer) -> list[str]:
    """Return what the advised arm costs in accuracy, if anything, and the best exact arm."""
    worst = worst_check(facts.measured.correctness)
    if worst is None or worst.accuracy_class == "exact":
        return []
    if worst.accuracy_class == "unchecked":
        exact = _alternative(facts, facts.advice.best_exact)
        instead = f" Best with outputs that were all checked: {exact}." if exact else ""
        return [f"Not all of its outputs were checked: {why_unchecked(worst)}.{instead}"]
    if facts.scored.weights is not None:
        return [f"Its outputs differ from the reference: {_cost(worst, is_quantised=True)}."]
    exact = _alternative(facts, facts.advice.best_exact)
    instead = f"Best with exact outputs: {exact}." if exact else "No exact arm was measured."
    return [f"Its outputs are close, not exact: {_cost(worst)}. {instead}"]


def _cost(checked: Checked, *, is_quantised: bool = False) -> str:
    found = checked.accuracy
    if found.error is None:
        return "their error is not known"
    if found.kl_mean is None and found.error >= LEAST_PERCENT:
        size = f"relative error {format_share(found.error, 1)}"
    elif found.kl_mean is None:
        size = f"relative error {found.error:.1e}"
    else:
        size = f"divergence of {found.error:.1e} nats a token"
    if is_quantised:
        return size
    ratio = format_number(found.ratio_to_eager, digits=2)
    times = f", {ratio} times that of {EAGER_TITLE}" if found.ratio_to_eager else ""
    return f"{size}{times}"


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
    lines = []
    has_answer = facts.certainty.decision_word != "OPEN"
    if has_answer and len({advice.arm for advice in facts.advice.advice_by_shape}) > 1:
        lines.append(
            f"Highest score by {_shape_name(facts)}: " + "; ".join(_runs_of_sizes(facts)) + "."
        )
    slower = [
        f"{advice.shape} ({advice.advised_speedup:.2f}x)"
        for advice in facts.advice.advice_by_shape
        if advice.advised_speedup * (1 + EQUIVALENCE_MARGIN) < 1
    ]
    if slower:
        baseline = facts.baseline_title
        plural = "s" if len(slower) > 1 else ""
        lines.append(
            f"{facts.titles[facts.scored.arm]} is slower than {baseline} "
            f"at {_shape_name(facts)}{plural} {', '.join(slower)}."
        )
    return [" ".join(lines)] if lines else []


def _shape_name(facts: AdvisedAnswer) -> str:
    """Return what differs between the shapes of the run."""
    return "batch size" if len(facts.answer.question.lengths) == 1 else "shape"


def _runs_of_sizes(facts: AdvisedAnswer) -> list[str]:
    """Return `1, 4: title, 1.20x, 1.30x` for neighbouring batch sizes with the same best arm."""
    groups: list[list[ShapeAdvice]] = []
    for advice in facts.advice.advice_by_shape:
        if groups and groups[-1][-1].arm == advice.arm:
            groups[-1].append(advice)
        else:
            groups.append([advice])
    return [_run_of_sizes(facts, group) for group in groups]


def _run_of_sizes(facts: AdvisedAnswer, group: Sequence[ShapeAdvice]) -> str:
    sizes = ", ".join(str(advice.shape) for advice in group)
    speedups = ", ".join(f"{advice.speedup:.2f}x" for advice in group)
    # The highest score is not always the highest speed, so the advised arm's is given as well.
    is_other = group[0].arm != facts.scored.arm
    own = ", ".join(f"{advice.advised_speedup:.2f}x" for advice in group)
    advised = f" (this answer {own})" if is_other else ""
    return f"{sizes}: {facts.titles[group[0].arm]}, {speedups}{advised}"
