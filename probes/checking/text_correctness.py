"""Is generated text right? Like `probes.checking.correctness`, but tokens flip at near ties, and one flip changes all that follows.

So two things are asked. With the reference's own tokens forced, how far are the probabilities of
the next token from the reference's (Kullback-Leibler divergence, agreement of the likeliest
tokens)? And where a free run departs from the reference's, was that a near tie: did the reference
prefer its own token by no more than the precision can tell apart? The second is asked of every
stack, for it is what is timed; the first where a stack tells probabilities. Both are held against
what eager PyTorch loses in the tested precision.

Thresholds of the divergence: `equivalent` and `near` lie where published statistics put 8-bit and
good 5-bit quantisation (https://github.com/ggml-org/llama.cpp/pull/5076 has the method).
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from probes.adapter import ModelError
from probes.checking.correctness import RULES
from probes.checking.logprobs import FidelityMetrics, Scores, measure_losses, merge
from probes.protocol import Agreement, Correctness

#: Divergence in nats, and share of positions with the same likeliest token.
EQUIVALENT = (1e-3, 0.99)
NEAR = (1e-2, 0.96)
#: Probabilities kept for one batch size; of more, only those of the first rows are.
MOST_PROBABILITIES = 1 << 26
#: Spread of a share of positions, in standard deviations, that may be chance.
DEVIATIONS = 3.0
#: Tokens that are told of each side where two texts part.
EXCERPT = 4


@dataclasses.dataclass(frozen=True)
class Run:
    """What the reference gave for one input set, and what eager PyTorch thinks of it."""

    tokens: Any
    #: Of all tokens, along the reference's own, for the first rows.
    exact: Scores
    #: Of the likeliest tokens, for every row.
    likeliest: Scores
    eager: Scores


@dataclasses.dataclass(frozen=True)
class TokenReference:
    """What the baseline worker leaves for all others, for one batch size; the probabilities stay in the file until they are needed."""

    name: str
    file: pathlib.Path
    inputs: list[list[Any]]
    #: The reference's own continuation, by input set: a row for each prompt.
    tokens: list[Any]
    #: Of each input set, how many rows have their probabilities kept.
    rows: int
    vocabulary: int
    eager: FidelityMetrics

    def logarithms(self, number: int) -> Any:
        """Return the reference's logarithms of the probabilities along its own tokens, for the first rows of input set `number`."""
        import numpy as np  # noqa: PLC0415 - the core is importable without any stack

        with np.load(self.file, allow_pickle=False) as archive:
            return archive[f"logarithms-{number}"]

    def likeliest(self, number: int) -> Scores:
        """Return the likeliest tokens along the reference's own with their logarithms, for every row of input set `number`."""
        import numpy as np  # noqa: PLC0415

        with np.load(self.file, allow_pickle=False) as archive:
            return Scores(archive[f"likeliest-{number}"], archive[f"ids-{number}"])


class Continuations(Protocol):
    """Tokens by input set, and the likeliest ones along them."""

    @property
    def tokens(self) -> list[Any]:
        """Return for each input set a row of tokens for each prompt."""

    @property
    def vocabulary(self) -> int:
        """Return how many tokens there are."""

    def likeliest(self, number: int) -> Scores:
        """Return the likeliest tokens of input set `number` with their logarithms, by row and position."""


def rows_kept(batch_size: int, output_tokens: int, vocabulary: int, input_sets: int) -> int:
    """Return for how many rows of a batch probabilities are kept."""
    return max(1, min(batch_size, MOST_PROBABILITIES // (output_tokens * vocabulary * input_sets)))


def save_reference(
    file: pathlib.Path,
    name: str,
    inputs: Sequence[Sequence[Any]],
    runs: Iterable[Run],
) -> None:
    """Write what the reference gave for each input set."""
    import numpy as np  # noqa: PLC0415

    arrays: dict[str, Any] = {"name": np.array(name), "sets": np.array(len(inputs))}
    losses = []
    for number, (arguments, run) in enumerate(zip(inputs, runs, strict=True)):
        exact = run.exact.logarithms
        if not (np.isfinite(exact).all() and np.isfinite(run.eager.logarithms).all()):
            raise ModelError(
                "the model's probabilities are NaN or infinite",
                "choose another precision with --dtype, such as bfloat16",
            )
        arrays |= {f"input-{number}-{place}": array for place, array in enumerate(arguments)}
        arrays |= {"rows": np.array(len(exact)), "vocabulary": np.array(exact.shape[-1])}
        arrays |= {f"tokens-{number}": run.tokens, f"logarithms-{number}": exact}
        arrays |= {
            f"likeliest-{number}": run.likeliest.logarithms,
            f"ids-{number}": run.likeliest.ids,
        }
        losses.append(measure_losses(run.eager, exact))
    for field in dataclasses.fields(FidelityMetrics):
        arrays[f"eager-{field.name}"] = np.array(getattr(merge(losses), field.name))
    beside = file.with_suffix(".part.npz")
    np.savez(beside, **arrays)
    beside.rename(file)


def load_reference(file: pathlib.Path) -> TokenReference:
    """Read what `save_reference` wrote, the probabilities excepted."""
    import numpy as np  # noqa: PLC0415

    with np.load(file, allow_pickle=False) as archive:
        sets = range(int(archive["sets"]))
        losses = {
            field.name: archive[f"eager-{field.name}"].item()
            for field in dataclasses.fields(FidelityMetrics)
        }
        return TokenReference(
            name=str(archive["name"]),
            file=file,
            inputs=[[archive[f"input-{number}-0"]] for number in sets],
            tokens=[archive[f"tokens-{number}"] for number in sets],
            rows=int(archive["rows"]),
            vocabulary=int(archive["vocabulary"]),
            eager=FidelityMetrics(**losses),
        )


@dataclasses.dataclass(frozen=True)
class Divergence:
    """Where rows of tokens depart from the reference's: earliest place, rows that do not, and the largest gap; None where none departs."""

    sequences: int
    identical: int
    first: int | None
    gap: float | None
    #: How both texts go on at the largest gap; empty where none departs.
    parting: str


def find_divergence(
    produced: Sequence[Any], reference: Continuations, rows: Sequence[Sequence[int]] | None = None
) -> Divergence:
    """Compare each input set's tokens with the reference's; `rows` says which of its rows they continue, if not all in order."""
    places, gaps, sequences = [], [], 0
    for number, tokens in enumerate(produced):
        chosen = rows[number] if rows is not None else range(len(tokens))
        wanted = reference.tokens[number][list(chosen)]
        sequences += len(tokens)
        departing = [
            (row, int((one != other).argmax()))
            for row, (one, other) in enumerate(zip(tokens, wanted, strict=True))
            if (one != other).any()
        ]
        places += [place for _, place in departing]
        likeliest = reference.likeliest(number) if departing else None
        for row, place in departing:
            gap = measure_gap(
                likeliest,
                (chosen[row], place),
                wanted[row, place],
                tokens[row, place],
                reference.vocabulary,
            )
            ours, theirs = (
                " ".join(map(str, each[row, place : place + EXCERPT].tolist()))
                for each in (tokens, wanted)
            )
            gaps.append((gap, f"after {place} tokens it writes {ours} for {theirs}"))
    largest, parting = max(gaps, default=(None, ""))
    return Divergence(
        sequences, sequences - len(places), min(places, default=None), largest, parting
    )


def measure_gap(
    likeliest: Any, where: tuple[int, int], own: int, other: int, vocabulary: int
) -> float:
    """Return by how much the reference prefers its `own` token to the `other`; at least, where that is none of the likeliest.

    What is no token at all, such as the filling of a text that ended early, is as far off as can
    be.
    """
    if not 0 <= other < vocabulary:
        return math.inf
    known = dict(
        zip(likeliest.ids[where].tolist(), likeliest.logarithms[where].tolist(), strict=True)
    )
    least = min(known.values())
    return float(known.get(int(own), least) - known.get(int(other), least))


def allowed_gap(reference: TokenReference, dtype: str) -> float:
    """Return by how much the reference may prefer its own token where another is right too: two tokens, each with its error."""
    multiplier, tolerance = RULES[dtype]
    return 2 * multiplier * reference.eager.largest + tolerance


def allowed_gap_to_eager(reference: TokenReference, dtype: str) -> float:
    """Return the same where eager PyTorch's own probabilities stand for the reference's: its errors count once more."""
    return allowed_gap(reference, dtype) + 2 * reference.eager.largest


def judge(
    reference: TokenReference,
    produced: Iterable[Sequence[Any]],
    scored: Iterable[Scores | None],
    dtype: str,
    batch_size: int,
) -> tuple[Correctness, str | None]:
    """Compare free runs, and the scores of forced ones, with the reference; return the record and, when they are wrong, the reason."""
    tokens = [outputs[0] for outputs in produced]
    wanted = [each.shape for each in reference.tokens]
    if [each.shape for each in tokens] != wanted:
        shapes = ", ".join(str(each.shape) for each in tokens)
        return _record(
            "wrong", reference, batch_size, None
        ), f"it returns {shapes} tokens instead of {wanted[0]} for each input set"
    scores = list(scored)
    losses = [
        measure_losses(each, reference.logarithms(number))
        for number, each in enumerate(scores)
        if each is not None
    ]
    told = merge(losses) if losses else None
    method = next((each.method for each in scores if each is not None), "tokens only")
    divergence = find_divergence(tokens, reference)
    agreement = summarise(divergence, told, reference, dtype, method)
    verdict, reason = classify(agreement, divergence.parting)
    if reason and len(tokens) > 1 and all((other == tokens[0]).all() for other in tokens[1:]):
        reason = "it returns the same tokens for every prompt"
    return _record(verdict, reference, batch_size, agreement), reason


def summarise(
    found: Divergence,
    told: FidelityMetrics | None,
    reference: TokenReference,
    dtype: str,
    method: str,
) -> Agreement:
    """Put together what was found and what eager PyTorch's own losses allow."""
    eager, multiplier = reference.eager, RULES[dtype][0]
    spread = DEVIATIONS * math.sqrt(
        max(eager.top1 * (1 - eager.top1), 1 / eager.positions) / eager.positions
    )
    return Agreement(
        method=method,
        sequences=found.sequences,
        identical_sequences=found.identical,
        first_divergence=found.first,
        divergence_gap=found.gap,
        allowed_gap=allowed_gap(reference, dtype),
        positions=told.positions if told else 0,
        kl_mean=told.kl_mean if told else None,
        kl_p99=told.kl_p99 if told else None,
        kl_eager=eager.kl_mean,
        # An error in the logits counts squared in the divergence.
        kl_allowed=max(EQUIVALENT[0], multiplier**2 * eager.kl_mean),
        top1=told.top1 if told else None,
        top1_eager=eager.top1,
        top1_least=min(EQUIVALENT[1], eager.top1 - spread),
        top5=told.top5 if told else None,
    )


def classify(agreement: Agreement, parting: str) -> tuple[str, str | None]:
    """Return `equivalent`, `near` or `wrong` and, for the last, why; `parting` is how both texts go on where they part."""
    gap = agreement.divergence_gap
    if gap is not None and not gap <= agreement.allowed_gap:
        return "wrong", (
            f"its text departs where it may not: the reference prefers its own token by {gap:.2e} there at the least, "
            f"and the precision accounts for {agreement.allowed_gap:.2e}; {parting}"
        )
    if agreement.kl_mean is None or agreement.top1 is None:
        return "equivalent", None
    if agreement.kl_mean <= agreement.kl_allowed and agreement.top1 >= agreement.top1_least:
        return "equivalent", None
    if agreement.kl_mean <= max(NEAR[0], agreement.kl_allowed) and agreement.top1 >= min(
        NEAR[1], agreement.top1_least
    ):
        return "near", None
    return "wrong", (
        f"its probabilities are degraded: divergence {agreement.kl_mean:.2e} (allowed {agreement.kl_allowed:.2e}), "
        f"same likeliest token at {agreement.top1:.1%} of the positions (at least {agreement.top1_least:.1%})"
    )


def find_fault(tokens: Any, reference: TokenReference, batch_size: int, dtype: str) -> str | None:
    """Say what is wrong with the tokens of a batch made of rows of the first input set; None if nothing is."""
    built = len(reference.tokens[0])
    if tokens.shape != (batch_size, reference.tokens[0].shape[1]):
        return f"it returns {tokens.shape} tokens"
    found = find_divergence([tokens], reference, [[row % built for row in range(batch_size)]])
    if found.gap is not None and not found.gap <= allowed_gap(reference, dtype):
        return f"its text departs by {found.gap:.2e} where the precision accounts for {allowed_gap(reference, dtype):.2e}; {found.parting}"
    return None


def _record(
    verdict: str, reference: TokenReference, batch_size: int, agreement: Agreement | None
) -> Correctness:
    compared = sum(int(tokens.size) for tokens in reference.tokens)
    return Correctness(
        batch_size, verdict, reference.name, None, None, None, None, compared, agreement
    )
