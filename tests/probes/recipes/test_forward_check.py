"""A check script refuses outputs that differ from those of eager PyTorch by more than measured."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from workers import rules

from probes.checking.rules import allowed_error
from probes.recipes import forward_check


class ConstantError:
    """A model that returns its input, and a program that adds an error to it."""

    dtype = "float32"

    def __init__(self, error: float) -> None:
        self.error = error
        self.module = self

    def run(self, inputs: list[Any]) -> list[Any]:
        return inputs

    def __call__(self, device_inputs: Any) -> Any:
        return device_inputs + self.error

    def collect(self, output: Any) -> list[Any]:
        return [output]


@pytest.mark.parametrize(("turned", "is_refused"), [(2, False), (3, True)])
def test_a_recipe_counts_the_integers_that_differ(turned: int, is_refused: bool) -> None:
    labels = np.arange(10)
    error: Any = np.zeros(10, dtype="int64")
    error[:turned] = 500
    program = ConstantError(error)
    arguments = (program, [labels], program, [[labels]], lambda: None, [0.2], rules("bfloat16"))
    with pytest.raises(ArithmeticError) if is_refused else contextlib.nullcontext():
        assert forward_check.compare_with_eager(*arguments) == pytest.approx(1.0)


@pytest.mark.parametrize("elements", [10, 1000])
def test_a_recipe_allows_the_error_of_the_measurement_plus_that_of_eager(elements: int) -> None:
    target, eager = np.ones(elements), 1e-3
    allowed = (3 + 1) * eager + 1e-5
    assert allowed_error(1.0, eager, rules()) == pytest.approx(allowed - eager)

    def compare(error: float) -> float:
        program = ConstantError(error)
        return forward_check.compare_with_eager(
            program, [target], program, [[target]], lambda: None, [eager], rules()
        )

    assert compare(0.99 * allowed) == pytest.approx(0.99)
    with pytest.raises(ArithmeticError, match="do not use this recipe"):
        compare(1.01 * allowed)
