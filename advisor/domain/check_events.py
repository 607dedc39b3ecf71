"""Events of a worker about the accuracy of outputs, decoded from those of `probes.check_events`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.domain.accuracy import CLASS_OF, Accuracy, AccuracyClass, CheckVerdict
from advisor.domain.bounds import Amount, Count, Size


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of generated tokens and their probabilities with the reference.

    Null for what the stack does not return.
    """

    #: How the probabilities were computed, such as `teacher-forced`, `teacher-forced, 20
    #: likeliest` or `tokens only`.
    method: str
    sequences: Count
    identical_sequences: Count
    #: First position at which a sequence differs from the reference; null if none differs.
    first_divergence: Count | None
    #: At the first differing token of a sequence: log-probability in the reference of its own
    #: token minus that of the arm's token, in nats; the largest over the sequences.
    divergence_gap: float | None
    allowed_gap: float
    positions: Count
    #: Kullback-Leibler divergence from the reference in nats: mean and 99th percentile over the
    #: positions, eager PyTorch's in the tested precision, and the allowed divergence.
    kl_mean: float | None
    kl_p99: float | None
    kl_eager: float
    kl_allowed: float
    #: Share of positions with the same likeliest token: of the arm, and of eager PyTorch.
    top1: float | None
    top1_eager: float
    #: The least share that is allowed: of `top1_or_tie`, or of `top1` in runs of early versions.
    top1_least: float
    #: Mean share of the five likeliest tokens that are the same.
    top5: float | None
    #: `top1`, where a near tie counts as the same token; null in runs of early versions.
    top1_or_tie: float | None = None


class Checked(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="checked"):
    """The outputs of a batch size are compared with the reference."""

    batch_size: Size
    verdict: CheckVerdict
    reference: str
    rmse: Amount | None
    rmse_eager: Amount | None
    allowed: Amount | None
    max_abs: Amount | None
    compared_elements: Count
    agreement: Agreement | None = None
    #: Null in runs of early versions.
    accuracy: Accuracy | None = None

    @property
    def accuracy_class(self) -> AccuracyClass:
        return CLASS_OF[self.verdict]


class TextScores(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="text-scores"):
    """Losses along a long text, as means over the positions of each sequence.

    `loss` is by how much less likely the text is than in the reference, in nats a token,
    without tokens that the stack did not report if the scores are incomplete. The suffix `_eager`
    marks those of eager PyTorch.
    """

    source: str
    positions: Size
    is_incomplete: bool
    divergence: tuple[float, ...]
    same_top: tuple[float, ...]
    loss: tuple[float, ...]
    divergence_eager: tuple[float, ...]
    same_top_eager: tuple[float, ...]
    loss_eager: tuple[float, ...]


class UserMetric(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="user-metric"):
    """What the user's metric returned, or the problem."""

    value: float | None
    problem: str


def worst_error(checks: Sequence[Checked]) -> float | None:
    """Return the largest relative error, or divergence of text, over the batch sizes."""
    errors = [checked.accuracy.error for checked in checks if checked.accuracy]
    return max((error for error in errors if error is not None), default=None)
