"""The rule that decides whether generated text is right: near ties may flip, nothing else may."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from probes.checking import text_correctness
from probes.checking.logprobs import Scores, keep_likeliest, scores_of_likeliest
from probes.checking.text_correctness import Run, TokenReference

SETS, ROWS, PLACES, VOCABULARY = 2, 3, 6, 50
#: Largest error that eager PyTorch has in the tests, in nats.
EAGER = 1e-3


def logarithms(number: int) -> Any:
    """What the reference thinks of each token: random, but for one that is mostly the likeliest."""
    drawn = np.random.default_rng([3, number]).standard_normal((ROWS, PLACES, VOCABULARY))
    drawn[..., 7 + number] += 3
    return normalised(drawn)


def normalised(values: Any) -> Any:
    return (values - np.log(np.exp(values).sum(-1, keepdims=True))).astype("float32")


def noisy(values: Any, size: float) -> Any:
    return normalised(values + np.random.default_rng(5).uniform(-size, size, values.shape))


def run_of(exact: Any, eager: Any, rows: int = ROWS) -> Run:
    """What is saved of these probabilities when those of all tokens are kept for the first rows only."""
    return Run(exact.argmax(-1), Scores(exact[:rows]), keep_likeliest(exact), Scores(eager[:rows]))


@pytest.fixture
def reference(tmp_path: pathlib.Path) -> TokenReference:
    exact = [logarithms(number) for number in range(SETS)]
    runs = [run_of(each, noisy(each, EAGER)) for each in exact]
    prompts = [[np.full((ROWS, 4), number)] for number in range(SETS)]
    text_correctness.save_reference(tmp_path / "reference.npz", "float64", prompts, runs)
    return text_correctness.load_reference(tmp_path / "reference.npz")


def judge(
    reference: TokenReference, tokens: list[Any], scored: list[Any], dtype: str = "float32"
) -> tuple[str, str, Any]:
    record, reason = text_correctness.judge(
        reference, [[each] for each in tokens], scored, dtype, ROWS
    )
    return record.verdict, reason or "", record.agreement


def flipped(reference: TokenReference, place: int, rank: int) -> list[Any]:
    """The reference's tokens, with the token of this rank at one place of the first row."""
    tokens = [each.copy() for each in reference.tokens]
    tokens[0][0, place] = np.argsort(-reference.logarithms(0)[0, place])[rank]
    return tokens


def test_the_same_text_and_probabilities_are_equivalent(reference: TokenReference) -> None:
    scored = [Scores(reference.logarithms(number)) for number in range(SETS)]
    verdict, reason, agreement = judge(reference, reference.tokens, scored)
    assert (verdict, reason) == ("equivalent", "")
    assert (agreement.sequences, agreement.identical_sequences, agreement.first_divergence) == (
        6,
        6,
        None,
    )
    assert (agreement.kl_mean, agreement.top1, agreement.top5) == (pytest.approx(0, abs=1e-6), 1, 1)
    assert agreement.positions == SETS * ROWS * PLACES
    assert agreement.method == "teacher-forced"


def test_a_flip_where_the_reference_is_sure_is_wrong_and_said_where(
    reference: TokenReference,
) -> None:
    tokens = flipped(reference, 2, 1)
    verdict, reason, agreement = judge(reference, tokens, [])
    assert verdict == "wrong"
    ours, theirs = (
        " ".join(map(str, each[0][0, 2 : 2 + text_correctness.EXCERPT]))
        for each in (tokens, reference.tokens)
    )
    assert reason.startswith("its text departs")
    assert reason.endswith(f"after 2 tokens it writes {ours} for {theirs}")
    assert (agreement.first_divergence, agreement.identical_sequences) == (2, 5)
    assert agreement.divergence_gap > 10 * agreement.allowed_gap


def test_a_flip_between_near_ties_is_right_and_what_follows_is_not_held_against_it(
    tmp_path: pathlib.Path,
) -> None:
    exact = logarithms(0)
    exact[0, 1, 9] = exact[0, 1].max() - EAGER / 2
    file = tmp_path / "reference.npz"
    text_correctness.save_reference(
        file, "float64", [[np.zeros((ROWS, 4))]], [run_of(exact, noisy(exact, EAGER))]
    )
    reference = text_correctness.load_reference(file)
    tokens = reference.tokens[0].copy()
    tokens[0, 1], tokens[0, 2:] = 9, 30
    verdict, _, agreement = judge(reference, [tokens], [])
    assert verdict == "equivalent"
    assert agreement.divergence_gap == pytest.approx(EAGER / 2, rel=0.01)
    assert agreement.method == "tokens only"


@pytest.mark.parametrize(
    ("size", "verdict"), [(2 * EAGER, "equivalent"), (0.15, "near"), (2.0, "wrong")]
)
def test_probabilities_are_classed_by_their_divergence(
    size: float, verdict: str, reference: TokenReference
) -> None:
    scored = [Scores(noisy(reference.logarithms(number), size)) for number in range(SETS)]
    found, reason, agreement = judge(reference, reference.tokens, scored)
    assert found == verdict, agreement
    assert ("degraded" in reason) == (verdict == "wrong")


def test_the_likeliest_tokens_alone_tell_a_divergence_too(reference: TokenReference) -> None:
    exact = [reference.logarithms(number) for number in range(SETS)]
    told = [
        [
            [{token: float(place[token]) for token in np.argsort(-place)[:8]} for place in row]
            for row in each
        ]
        for each in exact
    ]
    verdict, _, agreement = judge(
        reference, reference.tokens, [scores_of_likeliest(each, 5) for each in told]
    )
    assert (verdict, agreement.top1, agreement.top5) == ("equivalent", 1, 1)
    assert agreement.kl_mean == pytest.approx(0, abs=1e-6)
    others = [
        [
            [
                {
                    token: value - 3 * (value == max(place.values()))
                    for token, value in place.items()
                }
                for place in row
            ]
            for row in each
        ]
        for each in told
    ]
    verdict, _, agreement = judge(
        reference, reference.tokens, [scores_of_likeliest(each, 5) for each in others]
    )
    assert verdict == "wrong"
    assert agreement.kl_mean > 0.05


def test_text_of_another_length_or_the_same_for_all_prompts_is_wrong(
    reference: TokenReference,
) -> None:
    _, reason, _ = judge(reference, [each[:, :-1] for each in reference.tokens], [])
    assert "instead of" in reason
    same = np.full((ROWS, PLACES), 30)
    verdict, reason, _ = judge(reference, [same, same], [])
    assert (verdict, reason) == ("wrong", "it returns the same tokens for every prompt")


def test_a_low_precision_is_given_what_eager_pytorch_itself_loses(tmp_path: pathlib.Path) -> None:
    exact, file = logarithms(0), tmp_path / "reference.npz"
    text_correctness.save_reference(
        file, "float64", [[np.zeros((ROWS, 4))]], [run_of(exact, noisy(exact, 0.3))]
    )
    reference = text_correctness.load_reference(file)
    verdict, _, agreement = judge(
        reference, reference.tokens, [Scores(noisy(exact, 0.3))], "bfloat16"
    )
    assert verdict == "equivalent"
    assert agreement.kl_allowed > agreement.kl_mean > 1e-3


@pytest.mark.parametrize(
    "token", [-1, VOCABULARY, 30], ids=["no token", "beyond the vocabulary", "unlikely"]
)
def test_a_row_whose_probabilities_are_not_kept_is_held_to_the_likeliest_tokens(
    token: int, tmp_path: pathlib.Path
) -> None:
    exact, file = logarithms(0), tmp_path / "reference.npz"
    text_correctness.save_reference(
        file, "float64", [[np.zeros((ROWS, 4))]], [run_of(exact, noisy(exact, EAGER), rows=1)]
    )
    reference = text_correctness.load_reference(file)
    tokens = reference.tokens[0].copy()
    tokens[-1, 3] = token
    verdict, reason, agreement = judge(reference, [tokens], [Scores(exact[:1])])
    assert (verdict, agreement.identical_sequences) == ("wrong", ROWS - 1)
    assert "after 3 tokens" in reason
    assert "after 3 tokens" in (
        text_correctness.find_fault(tokens, reference, ROWS, "float32") or ""
    )


def test_a_token_that_is_none_of_the_likeliest_is_as_far_off_as_the_last_of_them_at_the_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("probes.checking.logprobs.CANDIDATES", 4)
    exact = logarithms(0)
    kept, order = keep_likeliest(exact), np.argsort(-exact[1, 2])
    gaps = [
        text_correctness.measure_gap(kept, (1, 2), order[0], order[rank], VOCABULARY)
        for rank in (1, 3, 20)
    ]
    sure = exact[1, 2, order[0]]
    assert gaps == pytest.approx([sure - exact[1, 2, order[rank]] for rank in (1, 3, 3)])


def test_probabilities_of_a_large_batch_are_kept_for_its_first_rows_only() -> None:
    assert text_correctness.rows_kept(64, 32, 32000, 4) == 16
    assert text_correctness.rows_kept(4, 32, 32000, 4) == 4
    assert text_correctness.rows_kept(64, 1 << 20, 128256, 4) == 1


@pytest.mark.parametrize(("size", "rank", "fault"), [(5, 0, None), (2, 0, None), (5, 1, "departs")])
def test_batches_that_were_not_built_are_compared_row_by_row(
    size: int, rank: int, fault: str | None, reference: TokenReference
) -> None:
    tokens = flipped(reference, 0, rank)[0].take(range(size), axis=0, mode="wrap")
    found = text_correctness.find_fault(tokens, reference, size, "float32")
    assert (found is None) == (fault is None)
    assert fault is None or fault in str(found)
    assert "tokens" in str(text_correctness.find_fault(tokens[:, 1:], reference, size, "float32"))
