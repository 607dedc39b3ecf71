"""How accurate outputs are, and the thresholds of `accuracy.toml` by which they are judged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

import msgspec

from probes.accuracy import CLASSES, Checked, Uncomparable

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Factor = Annotated[float, msgspec.Meta(ge=0)]


def has_only_top_tokens(checks: Iterable[Checked]) -> bool:
    """Return whether the divergence of a text is that of the likeliest tokens alone.

    It is smaller than that of all tokens, which arms in PyTorch have.
    """
    found = (each.agreement for each in checks if each.agreement is not None)
    return any(each.kl_mean is not None and "likeliest" in each.method for each in found)


def may_be_exact(checks: Iterable[Checked]) -> bool:
    """Return whether no output was found to be less than exact; some may be unchecked."""
    return all(each.accuracy_class in {"exact", "unchecked"} for each in checks)


def worst_check(checks: Iterable[Checked]) -> Checked | None:
    return max(checks, key=lambda check: CLASSES.index(check.accuracy_class), default=None)


def worst_error(checks: Iterable[Checked]) -> float | None:
    """Return the largest relative error, or divergence of text, over the shapes."""
    errors = [checked.accuracy.error for checked in checks]
    return max((error for error in errors if error is not None), default=None)


#: How texts describe outputs that are not compared: one of several outputs, or a part of one.
UNCOMPARED: dict[Uncomparable, str] = {
    "random": "different in each call",
    "partly-random": "random in some elements",
    "empty": "without an element",
    "tied": "decided by the order of equal values alone",
    "rounding": "changed by rounding alone to others",
}


def why_unchecked(checked: Checked) -> str:
    """Return what of the outputs was not compared, and why: `1 of 3 outputs is random`."""
    accuracy = checked.accuracy
    if accuracy.fault == "constant-output":
        return "the outputs are the same constant for every input, so no error would show"
    reasons = [
        f"{count} of {accuracy.outputs} outputs {'is' if count == 1 else 'are'} {UNCOMPARED[kind]}"
        for kind, count in sorted(accuracy.uncompared.items())
    ]
    if accuracy.unseen:
        reasons.append(f"values of the type {', '.join(accuracy.unseen)} cannot be compared")
    return "; ".join(reasons) or "the reason is not known"


Threshold: TypeAlias = Annotated[int, msgspec.Meta(ge=0)] | Factor
#: The thresholds of a table, some by precision; `probes.checking.rules` says what each is.
Thresholds: TypeAlias = dict[str, Threshold | dict[str, Threshold | dict[str, Threshold]]]
#: Class of what an arm loses of a trained model, by its bounds; `worse`: below class C.
LossClass = Literal["A", "B", "C", "worse"]
LimitedClass = Literal["A", "B", "C"]
LIMITED_CLASSES: tuple[LimitedClass, ...] = ("A", "B", "C")


class LossLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one class; null for a figure that does not count."""

    #: Perplexity of the text over that of eager PyTorch.
    perplexity_ratio: Factor
    divergence: Factor | None = None
    same_top: Share | None = None
    #: The user's metric over eager PyTorch's.
    recovery: Share


class LossRule(msgspec.Struct, frozen=True, kw_only=True):
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
    """The quality that an arm loses; `basis` names what decides the class, or why it has none.

    `needs-real-weights`: random weights show nothing about trained ones.
    """

    basis: Literal["metric", "text", "needs-real-weights", "not-measured"]
    loss_class: LossClass | None = None
    text: TextLoss | None = None
    metric: MetricLoss | None = None


class AccuracyRules(msgspec.Struct, frozen=True, kw_only=True):
    """`accuracy.toml`; its comments explain each threshold."""

    source: Annotated[str, msgspec.Meta(min_length=1)]
    exact: Thresholds
    close: dict[str, Factor]
    repeats: Thresholds
    envelope: Thresholds
    text: Thresholds
    quantised: dict[str, Factor]
    losses: LossRule

    def with_tolerance(self, tolerance: float | None) -> AccuracyRules:
        if tolerance is None:
            return self
        return msgspec.structs.replace(self, close={**self.close, "tolerance": tolerance})

    def for_quantised_weights(self) -> AccuracyRules:
        """Return the rules by which an arm with quantised weights is broken or not.

        Its outputs count as close where they are not exact, however `--accuracy` limits native
        arms.
        """
        gap, close = self.quantised["gap"], {**self.close, **self.quantised}
        del close["gap"]
        # Text is exact only if its divergence is of eager's size: with random weights every
        # divergence is small.
        text = {"exact_divergence": 0.0, "close_top1": close["least_top1"], "gap": gap}
        return msgspec.structs.replace(self, close=close, text={**self.text, **text})
