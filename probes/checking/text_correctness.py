"""Check generated text.

Tokens flip at near ties, and one flip changes all tokens after it, so two things are checked.

1. With the reference's tokens forced: how far are the probabilities of the next token from the
   reference's (Kullback-Leibler divergence), and where another token is the most likely, was that a
   near tie? This is checked for stacks that report probabilities.
2. Where a free run diverges from the reference: was that a near tie? This is checked for every
   stack, because the free run is what is timed.

At a near tie the reference prefers its own token by no more than the precision accounts for. A
model with random weights has many: its share of equal tokens shows chance, not faults.

Both are judged relative to the losses of eager PyTorch in the tested precision, by the thresholds
of `rubric/accuracy.toml`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from probes.accuracy import Accuracy, AccuracyClass, Agreement, Checked, Fault
from probes.adapter import TokenLogprobs
from probes.checking.rules import Rules
from probes.checking.text_reference import (
    FidelityMetrics,
    TokenReference,
    keep_top_tokens,
    measure_fidelity,
    merge,
)
from probes.shape import Shape

#: Divergence in nats a token below which a figure is rounding: log probabilities are stored in
#: float32.
KL_RESOLUTION = 1e-8
#: Number of tokens of each text that a reason quotes at a divergence.
EXCERPT_TOKENS = 4


def allowed_gap(reference: TokenReference, rules: Rules) -> float:
    """Return the gap of a near tie in nats: the log probabilities of both tokens have an error."""
    return 2 * rules.text_eager_times * reference.eager.largest + rules.text_gap


def check_tokens(
    reference: TokenReference,
    produced: Iterable[Sequence[Any]],
    scored: Iterable[TokenLogprobs],
    rules: Rules,
    shape: Shape,
) -> tuple[Checked, str | None]:
    """Compare free runs and the scores of forced ones with the reference.

    `produced` has one array for each input set, `(rows, output tokens)` of integers; `scored` is
    empty for a stack that reports no probabilities. Return the record and, for wrong text, the
    reason.
    """
    tokens = [outputs[0] for outputs in produced]
    compared = sum(int(each.size) for each in reference.tokens)
    record = Checked(shape, "incorrect", reference.name, compared_elements=compared)
    shapes = [each.shape for each in reference.tokens]
    if [each.shape for each in tokens] != shapes:
        returned = ", ".join(str(each.shape) for each in tokens)
        reason = f"it returns {returned} tokens instead of {shapes[0]} for each input set"
        return dataclasses.replace(record, accuracy=Accuracy("shape")), reason
    divergence = find_divergence(tokens, reference)
    agreement = measure_agreement(reference, divergence, list(scored), rules)
    accuracy_class, fault, reason_if_wrong = classify(agreement, divergence.excerpt, rules)
    if reason_if_wrong and len(tokens) > 1 and all((each == tokens[0]).all() for each in tokens):
        fault, reason_if_wrong = "same-output", "it returns the same tokens for every prompt"
    kl_mean, kl_eager = agreement.kl_mean, agreement.kl_eager
    # Eager's divergence may be rounding.
    has_ratio = kl_mean is not None and kl_eager >= KL_RESOLUTION
    accuracy = Accuracy(
        fault,
        ratio_to_eager=(kl_mean or 0.0) / kl_eager if has_ratio else None,
        top1=agreement.top1,
        kl_mean=kl_mean,
        equal_tokens=divergence.equal,
    )
    record = dataclasses.replace(record, accuracy_class=accuracy_class, accuracy=accuracy)
    return dataclasses.replace(record, agreement=agreement), reason_if_wrong


def measure_pair(
    reference: TokenReference, number: int, scores: TokenLogprobs, near_tie: float
) -> tuple[FidelityMetrics, FidelityMetrics]:
    """Measure eager PyTorch over as many tokens as the arm: fewer tokens have less divergence."""
    exact = reference.logprobs(number)
    arm = measure_fidelity(scores, exact, near_tie)
    if scores.ids is None:
        return arm, reference.eager
    eager = keep_top_tokens(reference.top_tokens(number, of="eager-"), scores.ids.shape[-1])
    return arm, measure_fidelity(eager, exact)


def measure_agreement(
    reference: TokenReference, divergence: Divergence, scores: Sequence[TokenLogprobs], rules: Rules
) -> Agreement:
    """Summarise how texts and probabilities agree; `scores` has one entry for each set, or none."""
    near_tie = allowed_gap(reference, rules)
    pairs = [measure_pair(reference, *each, near_tie) for each in enumerate(scores)]
    metrics = merge([arm for arm, _ in pairs]) if pairs else None
    # It covers as many tokens as `metrics`.
    eager = merge([eager for _, eager in pairs]) if pairs else reference.eager
    return Agreement(
        method=scores[0].method if scores else "tokens only",
        sequences=divergence.sequences,
        identical_sequences=divergence.identical,
        divergence_gap=divergence.gap,
        allowed_gap=near_tie,
        positions=metrics.positions if metrics else 0,
        kl_mean=metrics.kl_mean if metrics else None,
        kl_eager=eager.kl_mean,
        # The divergence grows with the square of an error in the logits.
        kl_allowed=max(rules.text_exact_divergence, rules.text_eager_times**2 * eager.kl_mean),
        top1=metrics.top1 if metrics else None,
        top1_or_tie=metrics.top1_or_tie if metrics else None,
        top1_least=rules.text_exact_top1,
    )


def classify(
    agreement: Agreement, excerpt: str, rules: Rules
) -> tuple[AccuracyClass, Fault, str | None]:
    """Return a reason for `incorrect` only; `excerpt` quotes both texts at their divergence."""
    gap = agreement.divergence_gap
    if gap is not None and not gap <= agreement.allowed_gap:
        reason = (
            "its text diverges where there is no near tie: the reference prefers its own token by"
            f" at least {gap:.2e}, and the precision accounts for {agreement.allowed_gap:.2e};"
            f" {excerpt}"
        )
        return "incorrect", "divergence", reason
    same = agreement.top1_or_tie
    if agreement.kl_mean is None or same is None:
        return "exact", "", None
    if agreement.kl_mean <= agreement.kl_allowed and same >= agreement.top1_least:
        return "exact", "", None
    least = min(rules.text_close_top1, agreement.top1_least)
    if agreement.kl_mean <= rules.tolerance and same >= least:
        return "close", "probabilities", None
    reason = (
        f"its probabilities are degraded: divergence {agreement.kl_mean:.2e} (allowed"
        f" {agreement.kl_allowed:.2e}), same most likely token or a near tie at"
        f" {same * 100:.1f} % of the positions (at least {agreement.top1_least * 100:.1f} %)"
    )
    return "incorrect", "probabilities", reason


def find_fault(
    tokens: Any, reference: TokenReference, rules: Rules, rows: Sequence[int]
) -> str | None:
    """Return what is wrong with a text; None if nothing is.

    `tokens` is `(rows, output tokens)` of integers; its prompts are `rows` of the first input set.
    """
    if tokens.shape != (len(rows), reference.tokens[0].shape[1]):
        return f"it returns {tokens.shape} tokens"
    divergence = find_divergence([tokens], reference, [rows])
    allowed = allowed_gap(reference, rules)
    if divergence.gap is not None and not divergence.gap <= allowed:
        return (
            f"its text diverges by {divergence.gap:.2e} where the precision accounts for"
            f" {allowed:.2e}; {divergence.excerpt}"
        )
    return None


def compare_texts(
    reference: TokenReference, rules: Rules, outputs: Sequence[Any], first: Sequence[Any]
) -> str | None:
    """Return how a text for the first input set differs from the first one; near ties may flip."""
    if (outputs[0] == first[0]).all():
        return None
    fault = find_fault(outputs[0], reference, rules, range(len(outputs[0])))
    return fault and f"returns another text: {fault}"


@dataclasses.dataclass(frozen=True)
class Divergence:
    """Where rows of tokens diverge from the reference's."""

    sequences: int
    #: Rows that do not diverge.
    identical: int
    #: The largest gap; None where no row diverges.
    gap: float | None
    #: Both texts at the largest gap; empty where no row diverges.
    excerpt: str
    #: Share of all tokens that are equal.
    equal: float


def find_divergence(
    produced: Sequence[Any], reference: TokenReference, rows: Sequence[Sequence[int]] | None = None
) -> Divergence:
    """Compare the tokens of each input set with the reference's.

    `produced` has, by input set, `(rows, output tokens)` of integers. `rows` maps them to rows of
    the reference; by default all rows are compared in order.
    """
    gaps, equal = [], []
    for number, tokens in enumerate(produced):
        chosen = rows[number] if rows is not None else range(len(tokens))
        expected = reference.tokens[number][list(chosen)]
        differs = tokens != expected
        equal += (~differs).mean(-1).tolist()
        diverging = [(row, int(each.argmax())) for row, each in enumerate(differs) if each.any()]
        top_tokens = reference.top_tokens(number) if diverging else None
        for row, position in diverging:
            gap = measure_gap(
                top_tokens,
                (chosen[row], position),
                expected[row, position],
                tokens[row, position],
                reference.vocabulary,
            )
            texts = (each[row, position : position + EXCERPT_TOKENS] for each in (tokens, expected))
            generated, wanted = (" ".join(map(str, text.tolist())) for text in texts)
            gaps.append((gap, f"after {position} tokens it generates {generated} for {wanted}"))
    largest, excerpt = max(gaps, default=(None, ""))
    sequences = len(equal)
    share = sum(equal) / sequences if equal else 1.0
    return Divergence(sequences, sequences - len(gaps), largest, excerpt, share)


def measure_gap(
    top_tokens: Any, position: tuple[int, int], own: int, other: int, vocabulary: int
) -> float:
    """Return by how much the reference prefers its `own` token to the `other`, in nats.

    `top_tokens` are the reference's `TokenLogprobs`; `position` is a row and a position of them. If
    a token is not among them, the result is a lower bound. It is infinite for an `other` outside of
    the vocabulary, such as the padding of a text that ended early.
    """
    if not 0 <= other < vocabulary:
        return math.inf
    known = dict(
        zip(top_tokens.ids[position].tolist(), top_tokens.logprobs[position].tolist(), strict=True)
    )
    least = min(known.values())
    return float(known.get(int(own), least) - known.get(int(other), least))
