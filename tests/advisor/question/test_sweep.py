"""`--input-tokens` and `--output-tokens` as lists, and `--length-mix`."""

from __future__ import annotations

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.model import ExportedModel
from advisor.domain.sweep import Lengths
from advisor.question.answers import Answers
from advisor.question.sweep import check_answers, check_question, parse_lengths


def shares(*texts: str) -> dict[tuple[int, int], float]:
    return {
        (each.lengths.input_tokens, each.lengths.output_tokens): each.share
        for each in parse_lengths(*texts)
    }


def test_one_length_is_no_sweep() -> None:
    (only,) = parse_lengths("512", "16")
    assert only.lengths == Lengths(input_tokens=512, output_tokens=16)
    assert only.share == 1


def test_two_lists_form_every_pair_with_equal_shares() -> None:
    assert shares("512, 32", "128,16") == {
        (32, 16): 0.25,
        (32, 128): 0.25,
        (512, 16): 0.25,
        (512, 128): 0.25,
    }


@pytest.mark.parametrize(
    ("mix", "expected"),
    [
        ("32:70,512:30", {(32, 16): 0.35, (32, 128): 0.35, (512, 16): 0.15, (512, 128): 0.15}),
        ("32/16:3,512/128:1", {(32, 16): 0.75, (32, 128): 0, (512, 16): 0, (512, 128): 0.25}),
        ("32/16:2,512:2", {(32, 16): 0.5, (32, 128): 0, (512, 16): 0.25, (512, 128): 0.25}),
        ("512:5%", {(32, 16): 0, (32, 128): 0, (512, 16): 0.5, (512, 128): 0.5}),
    ],
)
def test_a_mix_names_inputs_or_pairs(mix: str, expected: dict[tuple[int, int], float]) -> None:
    assert shares("32,512", "16,128", mix) == pytest.approx(expected)


@given(st.lists(st.integers(1, 1000), min_size=3, max_size=3), st.integers(1, 50))
def test_scaling_a_mix_changes_nothing(weights: list[int], factor: int) -> None:
    one, two = (
        shares("1,2,3", "4", ",".join(f"{n}:{each * by}" for n, each in enumerate(weights, 1)))
        for by in (1, factor)
    )
    assert one == pytest.approx(two)
    assert sum(one.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (("many", "1"), "size"),
        (("1,", "1"), "size"),
        (("1", "0"), "size"),
        (("1", f"{1 << 21}"), "size"),
        (("8", "1", "8:100"), "sweep"),
        (("8,16", "1", "32:100"), "sweep"),
        (("8,16", "1", "8:50,8:50"), "sweep"),
        (("8,16", "1", "8:50,8/1:50"), "sweep"),
        (("8,16", "1", "8:0"), "sweep"),
        (("8,16", "1", "8:-1"), "sweep"),
        (("8,16", "1", "8:nan"), "sweep"),
        (("8,16", "1", "8"), "sweep"),
    ],
)
def test_invalid_lengths_and_mixes_are_user_errors(texts: tuple[str, ...], name: str) -> None:
    problem = builders.error_of(lambda: parse_lengths(*texts))
    assert problem is not None
    assert (problem.name, problem.exit_code) == (name, 2)
    assert problem.next_step


def test_a_load_and_a_model_with_own_inputs_are_not_swept() -> None:
    mix = parse_lengths("8,16", "4")
    own_inputs = builders.question(model=ExportedModel(name="model.pt2"))
    for refused in (
        builders.error_of(lambda: check_answers(Answers(task="serve"))),
        builders.error_of(lambda: check_question(own_inputs, mix)),
    ):
        assert refused is not None
        assert refused.name == "sweep"
    check_answers(Answers(task="generate"))
    check_question(builders.question(), mix)


def test_output_lengths_of_a_forward_pass_are_not_swept() -> None:
    outputs = parse_lengths("8", "4,16")
    refused = builders.error_of(lambda: check_question(builders.question(), outputs))
    assert refused is not None
    assert refused.name == "sweep"
    check_question(builders.question(task="generate"), outputs)
