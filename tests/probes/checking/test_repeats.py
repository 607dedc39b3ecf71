"""One input called again: rounding may differ, a race may not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from workers import rules

from probes.checking import output_check
from probes.checking.array_reference import create_reference
from probes.checking.stored_reference import Reference

LIMITS = {"calls": 30, "most_calls": 40, "seconds": 60.0, "least_calls": 3, "most_seconds": 60.0}
TARGET = np.random.default_rng(0).standard_normal((8, 64))


def reference(target: Any = TARGET) -> Reference:
    eager = target + 1e-6 if target.dtype.kind == "f" else target
    return create_reference("float64", [[target]], [[eager]], [[]])


def run(outputs: Any, target: Any = TARGET, **limits: float) -> tuple[int, str | None]:
    """Repeat a program that returns `outputs` one after the other."""
    calls = itertools.chain([target], outputs)
    compare = output_check.compare_arrays(reference(target), rules())
    return output_check.repeat(lambda: [next(calls)], compare, {**LIMITS, **limits})


def test_cheap_calls_are_repeated_most_often() -> None:
    assert run(itertools.repeat(TARGET)) == (40, None)


def test_long_calls_are_repeated_less_often() -> None:
    assert run(itertools.repeat(TARGET), most_seconds=0.0) == (3, None)
    assert run(itertools.repeat(TARGET), seconds=0.0) == (30, None)


def test_a_difference_in_rounding_is_no_race() -> None:
    outputs = (TARGET * (1 + 1e-7 * (number % 3)) for number in itertools.count())
    assert run(outputs)[1] is None


@pytest.mark.parametrize("element", [0, 511])
def test_one_element_that_varies_is_a_race(element: int) -> None:
    varied = TARGET.copy()
    varied.reshape(-1)[element] += 1e-2
    calls, difference = run([*[TARGET] * 20, varied, *[TARGET] * 40])
    assert calls == 21
    assert difference is not None


def test_a_buffer_that_the_next_call_overwrites_is_compared_by_its_values() -> None:
    buffer = np.zeros_like(TARGET)

    def outputs() -> Any:
        for number in itertools.count():
            buffer[:] = TARGET + number
            yield buffer

    assert run(outputs())[0] == 2


def test_integers_that_vary_are_a_race() -> None:
    integers = np.arange(1000)
    assert run([integers, integers, integers[::-1]], integers)[1] is not None
    assert run(itertools.repeat(integers), integers)[1] is None


def test_the_output_of_the_call_before_does_not_vary() -> None:
    other = np.random.default_rng(1).standard_normal(TARGET.shape)
    compare = output_check.compare_arrays(reference(), rules())
    outputs = itertools.chain([other], itertools.repeat(TARGET))
    assert output_check.repeat(lambda: [next(outputs)], compare, LIMITS)[1] is None
