"""Runs with chosen speeds of the arm `compiled`, and changes of answers, for tests of reports."""

from __future__ import annotations

from typing import Any

import built_answers
import built_measurements
import msgspec

from advisor.decide.headline import write_headline
from advisor.domain.answer import Answer, Problem
from advisor.domain.measurement import CallSeconds, Cell, Throughput
from advisor.domain.recommendation import Recommendation


def cell(seconds: float = 0.1, spread: float = 1.01, **changes: Any) -> Cell:
    """Return a cell whose interval extends by the factor `spread` to both sides."""
    return built_measurements.cell(
        2.0,
        0.05,
        seconds=CallSeconds(median=seconds, low=seconds / spread, high=seconds * spread, samples=9),
        **{"throughput": Throughput(value=1 / seconds, unit="samples/s"), **changes},
    )


def run_answer(seconds: float = 0.1, spread: float = 1.01, **changes: Any) -> Answer:
    """Return a run without noise in which a call of `compiled` takes `seconds`."""
    made = with_measurement(
        built_answers.answer(**changes), "compiled", cells=(cell(seconds, spread),)
    )
    return with_results(made, noise_floor=0.0)


def with_results(answer: Answer, **changes: Any) -> Answer:
    return msgspec.structs.replace(
        answer, results=msgspec.structs.replace(answer.results, **changes)
    )


def with_measurement(answer: Answer, *arms: str, **changes: Any) -> Answer:
    """Return the answer with changed measurements of these arms, by default of all."""
    measurements = tuple(
        msgspec.structs.replace(each, **changes) if not arms or each.arm in arms else each
        for each in answer.results.measurements
    )
    return with_results(answer, measurements=measurements)


def with_score(answer: Answer, *arms: str, **changes: Any) -> Answer:
    """Return the answer with changed scores of these arms, by default of all."""
    scores = tuple(
        msgspec.structs.replace(each, **changes) if not arms or each.arm in arms else each
        for each in answer.scores
    )
    return msgspec.structs.replace(answer, scores=scores)


def with_advice(answer: Answer, **changes: Any) -> Answer:
    advice = msgspec.structs.replace(advice_of(answer), **changes)
    return msgspec.structs.replace(answer, recommendation=advice)


def advice_of(answer: Answer) -> Recommendation:
    assert answer.recommendation is not None
    return answer.recommendation


def without_advice(answer: Answer, problem: Problem) -> Answer:
    """Return the answer with a problem instead of its recommendation, and the headline of it."""
    bare = msgspec.structs.replace(answer, recommendation=None, problem=problem)
    return msgspec.structs.replace(bare, headline=write_headline(bare))
