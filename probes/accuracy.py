"""Events of a worker about the accuracy of outputs; see `probes.checking`."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from probes.events import Event
from probes.shape import Amount, Count, Shape, Size

#: Classes of an arm's outputs, from the best to the worst. `unchecked`: an output could not be
#: compared, or is constant; those that could be compared are exact or close.
AccuracyClass = Literal["exact", "close", "unchecked", "incorrect"]
CLASSES: tuple[AccuracyClass, ...] = get_args(AccuracyClass)

#: What keeps outputs from being exact or from being checked; empty for exact ones.
Fault = Literal[
    "",
    "error",
    "row-error",
    "typical-error",
    "small-error",
    "integers",
    # Faults of text.
    "probabilities",
    "divergence",
    # Faults of the structure.
    "shape",
    "not-finite",
    "same-output",
    "identity",
    # What prevents a check.
    "constant-output",
    "uncompared",
]

#: Why nothing of an output was compared: it differs from call to call; it has no elements; all of
#: them depend on the order of equal values; rounding may change it into any other. If only
#: some elements differ, the others were compared.
Uncomparable = Literal["random", "partly-random", "empty", "tied", "rounding"]


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Agreement of generated text with the reference's; None for what the stack does not report.

    A divergence is the earliest position at which a sequence differs; its gap is by how much the
    reference preferred its own token there, in nats, the largest over the sequences. `kl_*` and
    `top1*` are those of the next-token probabilities in a run that is forced to generate the
    reference's tokens.
    """

    #: How the probabilities were computed, such as `teacher-forced`, `teacher-forced, 20
    #: likeliest` or `tokens only`.
    method: str
    sequences: Count
    identical_sequences: Count
    divergence_gap: float | None
    allowed_gap: float
    positions: Count
    #: Kullback-Leibler divergence in nats: mean over the positions, eager PyTorch's in the tested
    #: precision, and the allowed divergence.
    kl_mean: float | None
    kl_eager: float
    kl_allowed: float
    #: Share of positions with the same likeliest token.
    top1: float | None
    #: `top1`, where a near tie counts as the same token; at least `top1_least` is allowed.
    top1_or_tie: float | None
    top1_least: float


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """How accurate the outputs of one shape are: the worst over input sets and outputs.

    Errors are root mean squares of the difference from the reference, over the reference's. None
    for what does not apply: relative errors of zeros, classes of an output without them.
    """

    fault: Fault = ""
    #: The error relative to the reference, and eager PyTorch's; of integers the share that differs.
    relative_error: float | None = None
    relative_error_eager: float | None = None
    #: The arm's error over that of eager PyTorch in the same precision.
    ratio_to_eager: float | None = None
    cosine: float | None = None
    #: Largest error of an element over the RMS of the reference.
    worst_element: float | None = None
    #: Share of rows, or of positions of a text, with the same likeliest class.
    top1: float | None = None
    #: Relative error that rounding alone caused in perturbations of inputs and weights.
    envelope: float | None = None
    #: Text: divergence from the reference in nats a token, and share of equal tokens.
    kl_mean: float | None = None
    equal_tokens: float | None = None
    #: How many outputs were not compared as a whole, by reason, of `outputs` in all.
    uncompared: dict[Uncomparable, int] = dataclasses.field(default_factory=dict)
    outputs: Count = 0
    #: Types of values among the outputs that cannot be compared, such as classes of the user's.
    unseen: tuple[str, ...] = ()
    #: What each call of the module changes without an effect on the outputs; programs may not.
    changed_states: tuple[str, ...] = ()
    #: How often one input was called again, and all results were the same within rounding.
    same_input_calls: Count = 0

    @property
    def error(self) -> float | None:
        """The figure that `--accuracy` and `accuracy<=` limit."""
        # A mean divergence below zero, which older runs have, is rounding.
        return self.relative_error if self.kl_mean is None else max(self.kl_mean, 0.0)


@dataclasses.dataclass(frozen=True)
class Checked(Event):
    """The comparison at one shape with the reference; see `probes.checking`."""

    shape: Shape
    accuracy_class: AccuracyClass
    reference: str
    rmse: Amount | None = None
    rmse_eager: Amount | None = None
    allowed: Amount | None = None
    #: Number of compared elements; those that depend on the order of equal values or on random
    #: numbers do not count.
    compared_elements: Count = 0
    accuracy: Accuracy = dataclasses.field(default_factory=Accuracy)
    agreement: Agreement | None = None


@dataclasses.dataclass(frozen=True)
class TextScores(Event):
    """Losses along a long text, as means over the positions of each sequence.

    `loss` is by how much less likely the text is than in the reference, in nats a token, without
    tokens that the stack did not report if the scores are incomplete. The suffix `_eager` marks
    those of eager PyTorch. See `FIGURES` in `probes.checking.long_text`.
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


@dataclasses.dataclass(frozen=True)
class UserMetric(Event):
    """What the user's metric returned, or the problem; larger is better."""

    value: float | None
    problem: str = ""
