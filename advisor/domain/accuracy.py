"""How accurate outputs are, and the thresholds of `accuracy.toml` by which they are judged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Protocol, TypeVar

import msgspec

#: Classes of an arm's outputs, from the best to the worst. `unchecked`: the outputs are constant or
#: random, so a comparison shows nothing.
AccuracyClass = Literal["exact", "close", "unchecked", "incorrect"]
CLASSES: tuple[AccuracyClass, ...] = ("exact", "close", "unchecked", "incorrect")
#: The same as the workers report it.
CheckVerdict = Literal["equivalent", "near", "unchecked", "wrong"]
CLASS_OF: dict[CheckVerdict, AccuracyClass] = {
    "equivalent": "exact",
    "near": "close",
    "unchecked": "unchecked",
    "wrong": "incorrect",
}
#: What keeps outputs from being exact or from being checked; empty for exact ones.
Fault = Literal[
    "",
    "error",
    "row-error",
    "typical-error",
    "integers",
    "probabilities",
    "divergence",
    "shape",
    "not-finite",
    "same-output",
    "identity",
    "constant-output",
    "random-model",
]

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Factor = Annotated[float, msgspec.Meta(ge=0)]


class HasClass(Protocol):
    """The check of one batch size."""

    @property
    def accuracy_class(self) -> AccuracyClass:
        """The class of its outputs."""


Check = TypeVar("Check", bound=HasClass)


def worst_check(checks: Iterable[Check]) -> Check | None:
    """Return the check with the worst class; None without one."""
    return max(checks, key=lambda check: CLASSES.index(check.accuracy_class), default=None)


class ByPrecision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A threshold for each tested precision."""

    float64: Factor
    float32: Factor
    float16: Factor
    bfloat16: Factor


class IntegerChance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many integers or booleans may differ by chance where eager PyTorch's hardly do."""

    #: Probability that a right program exceeds it.
    alarm: Share
    #: The prior: integers that differ and that are the same.
    differing: Factor
    same: ByPrecision


class ExactRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Largest errors of exact outputs, relative to eager PyTorch's own."""

    eager_times: Factor
    row_eager_times: Factor
    #: Eager's error counts as 1 + this / n times as large if it is known from n elements. 0 in runs
    #: of early versions.
    few_elements: Factor = 0.0
    integer_eager_times: Factor
    #: Null for no limit, as in runs of early versions.
    typical_eager_times: Factor | None = None
    share_of_rms: ByPrecision
    row_share: ByPrecision
    integer_share: ByPrecision
    #: Null where chance allows nothing, as in runs of early versions.
    integer_chance: IntegerChance | None = None


class CloseRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Largest errors of close outputs."""

    #: Relative error, or divergence of generated text in nats a token; 0 accepts exact ones only.
    tolerance: Factor
    row_times: Factor
    least_top1: Share
    #: Classes count as the same if their values differ by at most so many tolerances; 0 in runs of
    #: early versions.
    tie_times: Factor = 0.0


class RepeatRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often one input is called again."""

    calls: Annotated[int, msgspec.Meta(ge=2)]
    most_calls: Annotated[int, msgspec.Meta(ge=2)]
    seconds: Factor
    least_calls: Annotated[int, msgspec.Meta(ge=2)]
    most_seconds: Factor
    #: Of programs with operators that are known to race; null for the limits of the others.
    racing_calls: Annotated[int, msgspec.Meta(ge=2)] | None = None
    racing_seconds: Factor = 0.0


class EnvelopeRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many perturbations show what rounding alone may change, and for how long."""

    seeds: Annotated[int, msgspec.Meta(ge=0)]
    seconds: Factor


class TextRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of generated text: divergences in nats, shares of equal likeliest tokens."""

    #: One limit for all precisions: 0 for quantised weights, and in runs of early versions.
    exact_divergence: ByPrecision | Factor
    exact_top1: Share
    close_top1: Share
    eager_times: ByPrecision
    gap: ByPrecision


class QuantisedRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the outputs of an arm with quantised weights may differ by before they are broken."""

    tolerance: Factor
    row_times: Factor
    least_top1: Share
    #: Text: by how much the reference may prefer its own token, in nats.
    gap: Factor


#: Class of what an arm loses of a trained model, by its bounds; `worse`: below class C.
LossClass = Literal["A", "B", "C", "worse"]
LimitedClass = Literal["A", "B", "C"]
LIMITED_CLASSES: tuple[LimitedClass, ...] = ("A", "B", "C")


class LossLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one class; null for a figure that does not count."""

    #: Perplexity of the text over that of eager PyTorch.
    perplexity_ratio: Factor
    divergence: Factor | None = None
    same_top: Share | None = None
    #: The user's metric over eager PyTorch's.
    recovery: Share


class LossRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the losses of a trained model are measured and classified."""

    source: Annotated[str, msgspec.Meta(min_length=1)]
    tokens: Annotated[int, msgspec.Meta(ge=1)]
    #: Time limit of one arm.
    seconds: Factor
    draws: Annotated[int, msgspec.Meta(ge=100)]
    classes: dict[LimitedClass, LossLimits]


class BoundedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure and its pessimistic bound at 95 %, bootstrapped over sequences."""

    value: float
    bound: float


class TextLoss(msgspec.Struct, frozen=True, kw_only=True):
    """Losses along a long text, beyond those of eager PyTorch in the tested precision."""

    source: str
    sequences: int
    positions: int
    divergence: BoundedFigure
    same_top: BoundedFigure
    perplexity_ratio: BoundedFigure
    #: Whether the stack did not report every token: those are left out of the perplexity.
    is_incomplete: bool = False


class MetricLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The user's metric of an arm and of the baseline; null, with the problem, without a value."""

    value: float | None
    baseline: float | None
    #: The arm's value over the baseline's.
    recovery: float | None
    problem: str = ""


class TrainedLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm loses of a model; `basis` is what the class is judged by, or why there is none.

    `needs-real-weights`: random weights show nothing about trained ones.
    """

    basis: Literal["metric", "text", "needs-real-weights", "not-measured"]
    loss_class: LossClass | None = None
    text: TextLoss | None = None
    metric: MetricLoss | None = None


class AccuracyRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`accuracy.toml`; its comments explain each threshold."""

    source: Annotated[str, msgspec.Meta(min_length=1)]
    exact: ExactRule
    close: CloseRule
    repeats: RepeatRule
    envelope: EnvelopeRule
    text: TextRule
    #: Null in runs of early versions.
    quantised: QuantisedRule | None = None
    losses: LossRule | None = None

    def with_tolerance(self, tolerance: float | None) -> AccuracyRules:
        """Return the rules with the user's tolerance; unchanged for None."""
        if tolerance is None:
            return self
        close = msgspec.structs.replace(self.close, tolerance=tolerance)
        return msgspec.structs.replace(self, close=close)

    def for_quantised_weights(self) -> AccuracyRules:
        """Return the rules by which an arm with quantised weights is broken or not.

        Its outputs count as close where they are not exact, however `--accuracy` limits native
        arms.
        """
        rule = self.quantised
        if rule is None:
            return self
        close = msgspec.structs.replace(
            self.close,
            tolerance=rule.tolerance,
            row_times=rule.row_times,
            least_top1=rule.least_top1,
        )
        gap = ByPrecision(**dict.fromkeys(ByPrecision.__struct_fields__, rule.gap))
        # Text is exact only if its divergence is of eager's size: with random weights every
        # divergence is small.
        text = msgspec.structs.replace(
            self.text, exact_divergence=0.0, close_top1=rule.least_top1, gap=gap
        )
        return msgspec.structs.replace(self, close=close, text=text)


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Accuracy at one batch size: the worst over input sets and outputs.

    Errors are root mean squares of the difference from the reference, over the reference's. Null
    for what does not apply.
    """

    fault: Fault = ""
    #: Of integers: the share that differs.
    relative_error: float | None = None
    relative_error_eager: float | None = None
    ratio_to_eager: float | None = None
    cosine: float | None = None
    #: Largest error of an element and of a row.
    worst_element: float | None = None
    worst_row: float | None = None
    #: Share of rows, or of positions of a text, with the same likeliest class.
    top1: float | None = None
    top1_eager: float | None = None
    #: Relative error that rounding alone caused in `perturbations` of inputs and weights.
    envelope: float | None = None
    perturbations: int = 0
    #: Text: divergence from the reference in nats a token, and share of equal tokens.
    kl_mean: float | None = None
    equal_tokens: float | None = None
    #: How often one input was called.
    repeats: int = 0

    @property
    def error(self) -> float | None:
        """The figure that `--accuracy` and `accuracy<=` limit."""
        # A mean divergence below zero is rounding.
        return self.relative_error if self.kl_mean is None else max(self.kl_mean, 0.0)
