"""The rule for generated text: near ties may flip, other tokens may not; its stored reference."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from top_tokens import keep_top_tokens, normalised, run_of
from workers import rules

from probes.adapter import ModelError, TokenLogprobs
from probes.checking import text_correctness
from probes.checking.text_reference import (
    TokenReference,
    load_reference,
    rows_with_logprobs,
    save_reference,
)
from probes.shape import Shape

SETS, ROWS, POSITIONS, VOCABULARY = 2, 3, 6, 50
#: Largest error that eager PyTorch has in the tests, in nats.
EAGER = 1e-3


def logprobs(number: int) -> Any:
    """Return random log probabilities, in which one token is mostly the most likely."""
    drawn = np.random.default_rng([3, number]).standard_normal((ROWS, POSITIONS, VOCABULARY))
    drawn[..., 7 + number] += 3
    return normalised(drawn)


def noisy(values: Any, size: float, seed: int = 5) -> Any:
    return normalised(values + np.random.default_rng(seed).uniform(-size, size, values.shape))


def reference_of(place: pathlib.Path, *pairs: tuple[Any, Any], **rows: int) -> TokenReference:
    """Return the saved reference of these exact log probabilities and those of eager PyTorch."""
    prompts = [[np.full((len(exact), 4), number)] for number, (exact, _) in enumerate(pairs)]
    file = place / "reference.npz"
    save_reference(file, "float64", prompts, [run_of(*pair, **rows) for pair in pairs])
    return load_reference(file)


def with_eager(size: float) -> list[tuple[Any, Any]]:
    """Return log probabilities by input set, and those of an eager PyTorch with this error."""
    return [(each, noisy(each, size)) for each in map(logprobs, range(SETS))]


@pytest.fixture
def reference(tmp_path: pathlib.Path) -> TokenReference:
    return reference_of(tmp_path, *with_eager(EAGER))


def check(
    reference: TokenReference, tokens: list[Any], scored: list[Any], dtype: str = "float32"
) -> tuple[str, str, Any]:
    record, reason = text_correctness.check_tokens(
        reference, [[each] for each in tokens], scored, rules(dtype), Shape(ROWS)
    )
    return record.accuracy_class, reason or "", record.agreement


def flipped(reference: TokenReference, position: int, rank: int) -> list[Any]:
    """Return the reference's tokens, with one of the first row replaced by the one of this rank."""
    tokens = [each.copy() for each in reference.tokens]
    tokens[0][0, position] = np.argsort(-reference.logprobs(0)[0, position])[rank]
    return tokens


def test_the_same_text_and_probabilities_are_equivalent(reference: TokenReference) -> None:
    # Rounding leaves a sum of probabilities above one, and so a divergence below zero.
    scored = [TokenLogprobs(reference.logprobs(number) + 1e-6) for number in range(SETS)]
    verdict, reason, agreement = check(reference, reference.tokens, scored)
    assert (verdict, reason) == ("exact", "")
    assert (agreement.sequences, agreement.identical_sequences) == (6, 6)
    assert (agreement.kl_mean, agreement.top1) == (0, 1)
    assert agreement.positions == SETS * ROWS * POSITIONS
    assert agreement.method == "teacher-forced"


@pytest.mark.parametrize(("eager", "known"), [(EAGER, True), (1e-7, False)])
def test_the_ratio_to_eager_is_unknown_where_eager_differs_by_rounding_alone(
    tmp_path: pathlib.Path, eager: float, *, known: bool
) -> None:
    loaded = reference_of(tmp_path, *with_eager(eager))
    scored = [TokenLogprobs(found) for _, found in with_eager(EAGER)]
    record, _ = text_correctness.check_tokens(
        loaded, [[each] for each in loaded.tokens], scored, rules("float32"), Shape(ROWS)
    )
    ratio = record.accuracy.ratio_to_eager
    assert (ratio is not None and ratio >= 0) == known


def test_a_flip_where_there_is_no_near_tie_is_wrong(reference: TokenReference) -> None:
    tokens = flipped(reference, 2, 1)
    verdict, reason, agreement = check(reference, tokens, [])
    assert verdict == "incorrect"
    found, wanted = (
        " ".join(map(str, each[0][0, 2 : 2 + text_correctness.EXCERPT_TOKENS]))
        for each in (tokens, reference.tokens)
    )
    assert reason.endswith(f"after 2 tokens it generates {found} for {wanted}")
    assert agreement.identical_sequences == 5
    assert agreement.divergence_gap > 10 * agreement.allowed_gap


def test_a_flip_at_a_near_tie_is_correct_whatever_tokens_follow(tmp_path: pathlib.Path) -> None:
    exact = logprobs(0)
    exact[0, 1, 9] = exact[0, 1].max() - EAGER / 2
    reference = reference_of(tmp_path, (exact, noisy(exact, EAGER)))
    tokens = reference.tokens[0].copy()
    tokens[0, 1], tokens[0, 2:] = 9, 30
    verdict, _, agreement = check(reference, [tokens], [])
    assert verdict == "exact"
    assert agreement.divergence_gap == pytest.approx(EAGER / 2, rel=0.01)
    assert agreement.method == "tokens only"


@pytest.mark.parametrize(
    ("size", "verdict"), [(2 * EAGER, "exact"), (0.15, "close"), (2.0, "incorrect")]
)
def test_probabilities_are_classified_by_their_divergence(
    size: float, verdict: str, reference: TokenReference
) -> None:
    scored = [TokenLogprobs(noisy(reference.logprobs(number), size)) for number in range(SETS)]
    found_verdict, reason, agreement = check(reference, reference.tokens, scored)
    assert found_verdict == verdict, agreement
    assert ("degraded" in reason) == (verdict == "incorrect")


def test_a_divergence_is_found_from_the_most_likely_tokens_alone(reference: TokenReference) -> None:
    def top_tokens(number: int, lost: float) -> Any:
        """Report 8 tokens of each position, the likeliest of them with so much lost."""
        ranked = [
            [(position, np.argsort(-position)[:8]) for position in row]
            for row in reference.logprobs(number)
        ]
        return [
            [
                {token: float(values[token]) - lost * (token == ids[0]) for token in ids}
                for values, ids in row
            ]
            for row in ranked
        ]

    def check_top(lost: float) -> tuple[str, str, Any]:
        top = [TokenLogprobs.of_top_tokens(top_tokens(number, lost), 5) for number in range(SETS)]
        return check(reference, reference.tokens, top)

    verdict, _, agreement = check_top(lost=0)
    assert (verdict, agreement.top1) == ("exact", 1)
    assert agreement.kl_mean == pytest.approx(0, abs=1e-6)
    verdict, _, agreement = check_top(lost=3)
    assert verdict == "incorrect"
    assert agreement.kl_mean > 0.05


def test_text_of_another_length_or_the_same_text_for_all_prompts_is_wrong(
    reference: TokenReference,
) -> None:
    _, reason, _ = check(reference, [each[:, :-1] for each in reference.tokens], [])
    assert "instead of" in reason
    same = np.full((ROWS, POSITIONS), 30)
    verdict, reason, _ = check(reference, [same, same], [])
    assert (verdict, reason) == ("incorrect", "it returns the same tokens for every prompt")


def test_a_low_precision_is_allowed_the_losses_of_eager_pytorch(tmp_path: pathlib.Path) -> None:
    exact = logprobs(0)
    reference = reference_of(tmp_path, (exact, noisy(exact, 0.3)))
    verdict, _, agreement = check(
        reference, reference.tokens, [TokenLogprobs(noisy(exact, 0.3))], "bfloat16"
    )
    assert verdict == "exact"
    assert agreement.kl_allowed > agreement.kl_mean > 1e-3


@pytest.mark.parametrize(
    "token", [-1, VOCABULARY, 30], ids=["no token", "beyond the vocabulary", "unlikely"]
)
def test_a_row_without_all_probabilities_is_compared_with_the_most_likely_tokens(
    token: int, tmp_path: pathlib.Path
) -> None:
    exact = logprobs(0)
    reference = reference_of(tmp_path, (exact, noisy(exact, EAGER)), rows=1)
    tokens = reference.tokens[0].copy()
    tokens[-1, 3] = token
    verdict, reason, agreement = check(reference, [tokens], [TokenLogprobs(exact[:1])])
    assert (verdict, agreement.identical_sequences) == ("incorrect", ROWS - 1)
    assert "after 3 tokens" in reason
    fault = text_correctness.find_fault(tokens, reference, rules(), range(ROWS))
    assert "after 3 tokens" in str(fault)


def test_the_gap_of_an_unlikely_token_is_at_least_that_of_the_last_kept_one() -> None:
    exact = logprobs(0)
    kept, order = keep_top_tokens(exact, 4), np.argsort(-exact[1, 2])
    gaps = [
        text_correctness.measure_gap(kept, (1, 2), order[0], order[rank], VOCABULARY)
        for rank in (1, 3, 20)
    ]
    top = exact[1, 2, order[0]]
    assert gaps == pytest.approx([top - exact[1, 2, order[rank]] for rank in (1, 3, 3)])


@pytest.mark.parametrize(
    ("size", "rank", "fault"), [(5, 0, None), (2, 0, None), (5, 1, "diverges")]
)
def test_new_batch_sizes_are_compared_row_by_row(
    size: int, rank: int, fault: str | None, reference: TokenReference
) -> None:
    tokens = flipped(reference, 0, rank)[0].take(range(size), axis=0, mode="wrap")
    rows = [row % ROWS for row in range(size)]
    found = text_correctness.find_fault(tokens, reference, rules(), rows)
    assert (found is None) == (fault is None)
    assert fault is None or fault in str(found)
    assert "tokens" in str(text_correctness.find_fault(tokens[:, 1:], reference, rules(), rows))


#: A model with random weights: its distributions are flat, so near ties are frequent.
FLAT_POSITIONS, FLAT_VOCABULARY, FLAT_NOISE = 64, 400, 0.02


@pytest.fixture
def flat(tmp_path: pathlib.Path) -> tuple[TokenReference, Any]:
    """Return the reference of a model with random weights, and its log probabilities.

    By chance, eager PyTorch has the same most likely token at nearly all positions.
    """
    shape = (1, FLAT_POSITIONS, FLAT_VOCABULARY)
    exact = normalised(np.random.default_rng(1).normal(0, 0.3, shape))
    eager = max(
        (noisy(exact, FLAT_NOISE, seed) for seed in range(50)),
        key=lambda each: (each.argmax(-1) == exact.argmax(-1)).mean(),
    )
    return reference_of(tmp_path, (exact, eager)), exact


def check_flat(
    reference: TokenReference, values: Any, count: int = FLAT_VOCABULARY
) -> tuple[str, Any]:
    """Check scores of the `count` likeliest tokens."""
    scores = TokenLogprobs(values) if count == FLAT_VOCABULARY else keep_top_tokens(values, count)
    verdict, _, agreement = check(reference, reference.tokens, [scores], "bfloat16")
    return verdict, agreement


def test_an_arm_as_exact_as_eager_is_right_however_many_near_ties_flip(
    flat: tuple[TokenReference, Any],
) -> None:
    reference, exact = flat
    found = [check_flat(reference, noisy(exact, FLAT_NOISE, seed)) for seed in range(100, 200)]
    assert {verdict for verdict, _ in found} == {"exact"}
    assert min(agreement.top1 for _, agreement in found) < reference.eager.top1 - 0.04
    assert {agreement.top1_or_tie for _, agreement in found} == {1.0}


@pytest.mark.parametrize(("positions", "verdict"), [(2, "close"), (6, "incorrect")])
def test_another_token_where_there_is_no_near_tie_counts_even_if_both_are_unlikely(
    positions: int, verdict: str, flat: tuple[TokenReference, Any]
) -> None:
    reference, exact = flat
    values = exact.copy()
    least = values[0, :positions].argmin(-1)
    values[0, np.arange(positions), least] = values[0, :positions].max(-1) + 0.1
    found_verdict, agreement = check_flat(reference, normalised(values))
    assert found_verdict == verdict
    assert agreement.kl_mean <= rules("bfloat16").tolerance
    assert agreement.top1_or_tie == 1 - positions / FLAT_POSITIONS


@pytest.mark.parametrize("count", [20, FLAT_VOCABULARY])
@pytest.mark.parametrize(("times", "is_exact"), [(1, True), (5, False)])
def test_scores_of_few_tokens_are_compared_with_those_of_eager_over_as_many(
    times: float, count: int, flat: tuple[TokenReference, Any], *, is_exact: bool
) -> None:
    reference, exact = flat
    size = times * FLAT_NOISE
    found = [check_flat(reference, noisy(exact, size, seed), count) for seed in range(100, 120)]
    assert {each == "exact" for each, _ in found} == {is_exact}
    exact_scores = (
        TokenLogprobs(exact) if count == FLAT_VOCABULARY else keep_top_tokens(exact, count)
    )
    _, eager = text_correctness.measure_pair(reference, 0, exact_scores, 0.0)
    assert {agreement.kl_allowed for _, agreement in found} == {9 * eager.kl_mean}


@pytest.mark.parametrize(("divergence", "verdict"), [(2e-7, "exact"), (2e-6, "close")])
def test_the_divergence_of_8_bit_weights_is_not_exact_in_float32(
    divergence: float, verdict: str, tmp_path: pathlib.Path
) -> None:
    exact = logprobs(0).astype("float64")
    loaded = reference_of(tmp_path, (exact, exact))
    noise = np.random.default_rng(4).standard_normal(exact.shape)
    values = exact + noise * np.sqrt(2 * divergence)
    values -= np.log(np.exp(values).sum(-1, keepdims=True))
    found, _, agreement = check(loaded, loaded.tokens, [TokenLogprobs(values)])
    assert agreement.kl_mean == pytest.approx(divergence, rel=0.5)
    assert found == verdict


PROMPTS = [[np.full((ROWS, 5), number)] for number in range(SETS)]


def test_a_saved_reference_is_loaded_with_all_its_parts(tmp_path: pathlib.Path) -> None:
    file, rows = tmp_path / "reference.npz", 2
    exact = [logprobs(number) for number in range(SETS)]
    save_reference(file, "float64", PROMPTS, [run_of(each, each, rows) for each in exact])
    loaded = load_reference(file)
    assert (loaded.name, loaded.rows, loaded.vocabulary) == ("float64", rows, VOCABULARY)
    for number in range(SETS):
        assert (loaded.inputs[number][0] == PROMPTS[number][0]).all()
        assert (loaded.tokens[number] == exact[number].argmax(-1)).all()
        assert (loaded.logprobs(number) == exact[number][:rows]).all()
        top, kept = loaded.top_tokens(number), keep_top_tokens(exact[number])
        assert (top.ids == kept.ids).all()
        assert (top.logprobs == kept.logprobs).all()
    assert loaded.eager.positions == SETS * rows * POSITIONS
    assert loaded.eager.largest == 0


@pytest.mark.parametrize("faulty", ["exact", "eager"])
def test_probabilities_that_are_not_finite_are_an_error_of_the_model(
    faulty: str, tmp_path: pathlib.Path
) -> None:
    exact, broken = logprobs(0), logprobs(0)
    broken[0, 1, 2] = np.nan
    runs = [run_of(broken, exact, ROWS) if faulty == "exact" else run_of(exact, broken, ROWS)]
    with pytest.raises(ModelError):
        save_reference(tmp_path / "reference.npz", "float64", PROMPTS[:1], runs)
    assert not list(tmp_path.iterdir())


def test_a_large_batch_keeps_all_probabilities_of_its_first_rows_only() -> None:
    assert rows_with_logprobs(64, 32, 32000, 4) == 16
    assert rows_with_logprobs(4, 32, 32000, 4) == 4
    assert rows_with_logprobs(64, 1 << 20, 128256, 4) == 1
