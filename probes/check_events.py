"""Events of a worker about the accuracy of outputs; see `probes.checking`."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Agreement of generated text with the reference's; None for what the stack does not report.

    A divergence is the earliest position at which a sequence differs; its gap is by how much the
    reference preferred its own token there, in nats. `kl_*` and `top*` are those of the next-token
    probabilities in a run that is forced to generate the reference's tokens.
    """

    method: str
    sequences: int
    identical_sequences: int
    first_divergence: int | None
    divergence_gap: float | None
    allowed_gap: float
    positions: int
    kl_mean: float | None
    kl_p99: float | None
    kl_eager: float
    kl_allowed: float
    top1: float | None
    top1_eager: float
    #: `top1`, where a near tie counts as the same token.
    top1_or_tie: float | None
    top1_least: float
    top5: float | None


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """How accurate the outputs of one batch size are: the worst over input sets and outputs.

    Errors are root mean squares of the difference from the reference, over the reference's. None
    for what does not apply: relative errors of zeros, classes of an output without them.
    """

    #: What keeps the outputs from being exact: `error`, `row-error`, `typical-error`,
    #: `integers`, `probabilities` or `divergence` (text), or a structural fault: `shape`,
    #: `not-finite`, `same-output`, `identity`; what prevents a check: `constant-output`,
    #: `random-model`; else empty.
    fault: str
    #: Of integers: the share that differs.
    relative_error: float | None = None
    relative_error_eager: float | None = None
    #: The arm's error over that of eager PyTorch in the same precision.
    ratio_to_eager: float | None = None
    cosine: float | None = None
    #: Largest error of an element, and of a row, over the RMS of the reference.
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
    #: How often one input was called again, and all results were the same within rounding.
    repeats: int = 0


@dataclasses.dataclass(frozen=True)
class Checked:
    """The comparison of one batch size with the reference; see `probes.checking`.

    The verdict is `equivalent` (exact), `near` (close), `wrong` (incorrect), or `unchecked` where
    the outputs are constant or random.
    """

    batch_size: int
    verdict: str
    reference: str
    rmse: float | None
    rmse_eager: float | None
    allowed: float | None
    max_abs: float | None
    compared_elements: int
    agreement: Agreement | None = None
    accuracy: Accuracy | None = None
    event: str = "checked"


@dataclasses.dataclass(frozen=True)
class TextScores:
    """Losses along a long text, by sequence; see `RowScores` in `probes.checking.long_text`."""

    source: str
    positions: int
    is_incomplete: bool
    divergence: list[float]
    same_top: list[float]
    loss: list[float]
    divergence_eager: list[float]
    same_top_eager: list[float]
    loss_eager: list[float]
    event: str = "text-scores"


@dataclasses.dataclass(frozen=True)
class UserMetric:
    """What the user's metric returned, or the problem; larger is better."""

    value: float | None
    problem: str = ""
    event: str = "user-metric"
