"""The thresholds of the comparison with the reference, resolved for one precision.

They are data: `rubric/accuracy.toml` states them and their source, and the request carries them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Rules:
    """Thresholds of `rubric/accuracy.toml` for one precision; errors are shares of the RMS."""

    eager_times: float
    share_of_rms: float
    row_eager_times: float
    #: Eager's error counts as 1 + this / n times as large if it is known from n elements.
    few_elements: float
    row_share: float
    integer_eager_times: float
    integer_share: float
    #: Probability that a right program exceeds what chance allows.
    integer_alarm: float
    #: Differing and equal integers that count in addition to those of eager PyTorch.
    integer_prior: tuple[float, float]
    typical_eager_times: float
    #: Largest relative error of a `close` output; 0 if only exact ones are accepted.
    tolerance: float
    row_tolerance: float
    least_top1: float
    #: By how many tolerances the values of two classes may differ that count as the same.
    tie_times: float
    #: Text: times the square of eager's divergence, and times eager's error of a log probability.
    text_eager_times: float
    #: Nats.
    text_gap: float
    text_divergence: float
    text_top1: float
    text_close_top1: float


def rules_for(accuracy: Mapping[str, Any], dtype: str) -> Rules:
    exact, close, text = accuracy["exact"], accuracy["close"], accuracy["text"]
    chance = exact["integer_chance"]
    return Rules(
        eager_times=exact["eager_times"],
        share_of_rms=exact["share_of_rms"][dtype],
        row_eager_times=exact["row_eager_times"],
        few_elements=exact["few_elements"],
        row_share=exact["row_share"][dtype],
        integer_eager_times=exact["integer_eager_times"],
        integer_share=exact["integer_share"][dtype],
        integer_alarm=chance["alarm"],
        integer_prior=(chance["differing"], chance["same"][dtype]),
        typical_eager_times=exact["typical_eager_times"],
        tolerance=close["tolerance"],
        row_tolerance=close["tolerance"] * close["row_times"],
        least_top1=close["least_top1"],
        tie_times=close["tie_times"],
        text_eager_times=text["eager_times"][dtype],
        text_gap=text["gap"][dtype],
        text_divergence=text["exact_divergence"][dtype],
        text_top1=text["exact_top1"],
        text_close_top1=text["close_top1"],
    )


def allowed_error(scale: float, eager_error: float, rules: Rules) -> float:
    """Return the largest root mean square error of an exact output.

    `scale` is the root mean square of the reference and `eager_error` what rounding accounts for.
    """
    return rules.eager_times * eager_error + rules.share_of_rms * scale
