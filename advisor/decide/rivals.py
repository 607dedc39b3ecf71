"""What an answer says of other arms: which is faster, as good, or better at some shapes."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from advisor.decide.certainty import MOSTLY
from advisor.decide.diagnosis import find_lower_precision
from advisor.decide.sensitivity import SAME_SCORE
from advisor.domain.accuracy import worst_error
from advisor.domain.answer import AdvisedAnswer
from advisor.domain.measurement import Measurement
from advisor.domain.recommendation import Decision, ShapeAdvice
from advisor.domain.results import ScoredArm
from probes.accuracy import Checked

#: An arm that is this many times as fast as the advised one is named.
CLEARLY_FASTER = 1.1

#: Why a faster arm is not advised: it fails a constraint, its gain is not shown, it is an arm of
#: the advised workflow that scores as well, or its score is lower.
WhyNot = Literal["constraint", "unproven", "as-good", "score"]


class FasterArm(NamedTuple):
    """The fastest arm, whose lead over the advised one matters, and its price."""

    scored: ScoredArm
    why_not: WhyNot
    is_doubtful: bool
    #: Error of its outputs if it is larger than that of the advised arm; infinite if not known.
    larger_error: float | None
    is_lower_precision: bool


def find_faster_arm(decided: AdvisedAnswer) -> FasterArm | None:
    regret = decided.decision.speed_regret
    if regret.arm is None or regret.value < CLEARLY_FASTER:
        return None
    scored, measured = decided.arms[regret.arm], decided.answer.results.by_arm[regret.arm]
    error, low = _largest_error(measured), measured.speedup.low
    lower = find_lower_precision(decided.answer.results.measurements)
    return FasterArm(
        scored,
        _why_not(decided.advised.scored, scored),
        is_doubtful=scored.unproven or (low is not None and low < 1),
        larger_error=error if error > _largest_error(decided.advised.measured) else None,
        is_lower_precision=scored.weight_format is None and scored.arm in lower,
    )


def _why_not(advised: ScoredArm, faster: ScoredArm) -> WhyNot:
    if faster.failures:
        return "constraint"
    if faster.unproven:
        return "unproven"
    is_sibling = faster.workflow == advised.workflow
    return "as-good" if is_sibling and faster.score >= advised.score - SAME_SCORE else "score"


def _largest_error(measurement: Measurement) -> float:
    """Return the largest error that rounding does not explain: 0 without one, infinite if unknown.

    Outputs that are compared in part, or have one bad row, may have no such error as a whole.
    """
    inexact = [each for each in measurement.correctness if each.accuracy_class != "exact"]
    beyond = [each for each in inexact if not _is_within_rounding(each)]
    error = worst_error(beyond) if beyond else 0.0
    return math.inf if error is None else error


def _is_within_rounding(checked: Checked) -> bool:
    """Return whether the error is; a typical one that is not shows another program."""
    rmse, allowed = checked.rmse, checked.allowed
    is_typical = checked.accuracy.fault != "typical-error"
    return is_typical and rmse is not None and allowed is not None and rmse <= allowed


def is_mostly_as_good(decision: Decision, arm: str) -> bool:
    return arm in decision.options_as_good or decision.contenders.get(arm, 0.0) >= MOSTLY


def is_baseline_as_good(decided: AdvisedAnswer) -> bool:
    """Return whether little is gained over the baseline, and it is about as good."""
    decision, baseline = decided.decision, decided.answer.results.baseline
    return decision.gains_little and is_mostly_as_good(decision, baseline)


def arms_as_good(decided: AdvisedAnswer, shown: str) -> list[ScoredArm]:
    """Return the arms that are about as good, or may be.

    The advised arm is one of them if another one is `shown` in its place; the baseline is not if
    the small gain names it.
    """
    is_told = shown == decided.advised.arm and is_baseline_as_good(decided)
    left_out = {shown, decided.answer.results.baseline if is_told else shown}
    equals = (decided.advised.arm, *decided.decision.as_good, *decided.decision.options_as_good)
    return [decided.arms[each] for each in equals if each not in left_out]


def shapes_led_by_others(decided: AdvisedAnswer) -> list[ShapeAdvice]:
    """Return the shapes at which the highest score is that of a clearly faster arm."""
    return [
        each
        for each in decided.advice.advice_by_shape
        if decided.decision.word != "OPEN" and each.speedup >= CLEARLY_FASTER * each.advised_speedup
    ]
