"""`--input-tokens` and `--output-tokens` as lists, and `--length-mix`."""

from __future__ import annotations

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.ask.answers import Answers
from advisor.ask.task import choose_lengths
from advisor.domain.model import ExportedModel, Model
from advisor.domain.question import Lengths, Task
from probes.wire.shape import Shape


def choose(
    inputs: str,
    outputs: str,
    mix: str = "",
    *,
    model: Model = builders.DEMO,
    task: Task = "generate",
) -> tuple[Lengths, ...]:
    answers = Answers(input_tokens=inputs, output_tokens=outputs, length_mix=mix)
    return choose_lengths(answers, model, task)


def shares(*texts: str) -> dict[tuple[int, int], float]:
    return {(each.input_tokens, each.output_tokens): each.share for each in choose(*texts)}


def test_shapes_have_the_lengths_only_where_there_are_several() -> None:
    one = builders.question(lengths=choose("512", "16"), batch_sizes=(1, 4))
    assert one.shapes == (Shape(1), Shape(4))
    assert one.weights == {Shape(1): 1, Shape(4): 1}
    lengths = choose("32,512", "16", "32:3,512:1")
    several = builders.question(lengths=lengths, batch_sizes=(1, 4), task="generate")
    assert several.weights == {
        Shape(1, 32, 16): 1.5,
        Shape(4, 32, 16): 1.5,
        Shape(1, 512, 16): 0.5,
        Shape(4, 512, 16): 0.5,
    }
    assert (several.input_tokens, several.output_tokens) == (512, 16)
    forward = builders.question(lengths=lengths, batch_sizes=(1,))
    assert forward.shapes == (Shape(1, 32), Shape(1, 512))


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
    "texts",
    [
        ("many", "1"),
        ("1,", "1"),
        ("1", "0"),
        ("1", f"{1 << 21}"),
        ("8", "1", "8:100"),
        ("8,16", "1", "32:100"),
        ("8,16", "1", "8:50,8:50"),
        ("8,16", "1", "8:50,8/1:50"),
        ("8,16", "1", "8:0"),
        ("8,16", "1", "8:-1"),
        ("8,16", "1", "8:nan"),
        ("8,16", "1", "8"),
    ],
)
def test_invalid_lengths_and_mixes_are_user_errors(texts: tuple[str, ...]) -> None:
    problem = builders.error_of(lambda: choose(*texts))
    assert problem is not None
    assert (problem.name, problem.exit_code) == ("size", 2)
    assert problem.next_step


def test_several_lengths_are_refused_where_figures_do_not_depend_on_them() -> None:
    for refused in (
        builders.error_of(lambda: choose("8,16", "4", task="serve")),
        builders.error_of(lambda: choose("8,16", "4", model=ExportedModel(name="model.pt2"))),
        builders.error_of(lambda: choose("8", "4,16", task="forward")),
    ):
        assert refused is not None
        assert refused.name == "size"
