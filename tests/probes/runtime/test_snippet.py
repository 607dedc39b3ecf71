"""What the process of a snippet finds in outputs, and what it says about wrong ones."""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import workers
from lazy import torch

from advisor.ask import catalogue_files
from advisor.probing.run_config import accuracy_thresholds
from probes.runtime import snippet

ACCURACY = accuracy_thresholds(catalogue_files.read_shipped().accuracy)
RULES = workers.rules("float32")
VALUES: Any = np.arange(6.0, dtype="float32").reshape(2, 3)


@dataclasses.dataclass
class Output:
    values: Any
    loss: float


@pytest.mark.parametrize(
    "output",
    [
        lambda values: values,
        lambda values: values.bfloat16(),
        lambda values: values.numpy(),
        # An array of a package, with a type that numpy lacks.
        lambda _: types.SimpleNamespace(shape=(2, 3), numpy=lambda: VALUES),
        lambda values: [values, "text", None, 3],
        lambda values: {"values": values, "number": 3},
        lambda values: (3, values, values.shape),
        lambda values: collections.OrderedDict(values=(values,)),
        lambda values: Output(values, 1.0),
        lambda values: (each for each in [values]),
    ],
)
def test_arrays_are_found_in_what_stacks_return(output: Callable[[Any], Any]) -> None:
    (found,) = snippet.collect(output(torch.tensor(VALUES)))
    assert np.array_equal(found.astype("float32"), VALUES)


def judge(
    other: list[Any], eager: float | None = 1e-7, dtype: str = "float32", *, outputs: int = 1
) -> Any:
    """Return what is wrong compared with `VALUES` of the baseline, in so many outputs."""
    baseline: Any = types.SimpleNamespace(
        makes_text=False, result=VALUES, arrays=lambda: [VALUES] * outputs
    )
    request: Any = types.SimpleNamespace(
        snippet={"allowed": [eager] * outputs}, accuracy=ACCURACY, dtype=dtype
    )
    problem, _ = snippet.compare(baseline, other, request)
    return problem


@pytest.mark.parametrize(
    "other", [[VALUES[:1]], [VALUES, VALUES], [], [VALUES * 1.01], [VALUES * np.nan]]
)
def test_wrong_outputs_are_a_problem(other: list[Any]) -> None:
    assert judge(other)


@pytest.mark.parametrize("order", [1, -1])
def test_outputs_that_are_not_finite_are_a_problem_whichever_comes_first(order: int) -> None:
    assert "not finite" in judge([VALUES, VALUES * np.nan][::order], 1e9, outputs=2)


@pytest.mark.parametrize("dtype", ["float32", "own"])
def test_outputs_may_differ_by_what_rounding_and_eager_allow(dtype: str) -> None:
    scale, eager = float(np.sqrt((VALUES**2).mean())), 1e-3
    allowed = (RULES.eager_times + 1) * eager + RULES.share_of_rms * scale
    assert judge([VALUES + 0.99 * allowed], eager, dtype) is None
    assert "1.01 times" in judge([VALUES + 1.01 * allowed], eager, dtype)


def test_an_output_without_an_allowance_is_not_compared() -> None:
    assert judge([VALUES + 1.0], None) is None


def test_errors_are_relative_to_the_size_of_an_output() -> None:
    assert snippet.compare_array(VALUES * 1.25, VALUES, 0.0, RULES)[0] == pytest.approx(0.25)
    assert snippet.compare_array(VALUES, np.zeros_like(VALUES), 0.0, RULES)[0] == 0


def test_integers_are_judged_by_the_share_that_differs() -> None:
    same: Any = np.zeros(100, dtype="int64")
    other: Any = np.zeros(100, dtype="int64")
    other[0] = 1
    assert snippet.compare_array(same, same, 0.0, RULES)[1] == 0
    assert snippet.compare_array(other, same, 0.02, RULES) == pytest.approx((0.01, 0.5))
    assert snippet.compare_array(other, same, 0.0, RULES)[1] > 1


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([[4, 5, 6], [8, 9, 0]], None),
        ([[2, 3, 4, 5, 6], [6, 7, 8, 9, 0]], None),
        ([[4, 5, 7], [8, 9, 0]], "prefers other tokens by 5"),
        ([[4, 5, 6], [8, 9, -1]], "vocabulary"),
        ([[4, 5, 10], [8, 9, 0]], "vocabulary"),
        ([[4, 5], [8, 9]], "shape"),
    ],
)
def test_the_tokens_of_a_text_are_those_that_the_baseline_prefers(
    tokens: list[list[int]], words: str | None
) -> None:
    def prefer_the_next_number(read: Any) -> Any:
        logits = 5.0 * torch.nn.functional.one_hot((read + 1) % 10, 10)
        return types.SimpleNamespace(logits=logits)

    names = {"prompts": torch.tensor([[2, 3], [6, 7]]), "model": prefer_the_next_number}
    whole: list[Any] = [np.zeros((2, 5), dtype="int64")]
    baseline: Any = types.SimpleNamespace(names=names, arrays=lambda: whole)
    problem = snippet.compare_texts(baseline, np.array(tokens), allowed=0.1)
    assert (problem is None) if words is None else (words in str(problem))
