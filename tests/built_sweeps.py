"""Sweeps over built decisions, for tests of the mix and of its outputs."""

from __future__ import annotations

from collections.abc import Sequence

import built_answers
import msgspec

from advisor.domain.answer import Answer
from advisor.domain.interval import Interval
from advisor.domain.measurement import Measurement
from advisor.domain.sweep import RECORD_SCHEMA, Lengths, MixedLengths, SweepRecord, SweepRun
from advisor.pipeline.sweeps.decision import decide_mix
from advisor.report.sweeps import sweep_document
from advisor.report.sweeps.sweep_document import SweepDocument


def at(input_tokens: int, output_tokens: int = 16) -> Lengths:
    return Lengths(input_tokens=input_tokens, output_tokens=output_tokens)


def sweep_record(shares: dict[Lengths, float], limited: Sequence[Lengths] = ()) -> SweepRecord:
    """Return a sweep with a run at each length; those in `limited` planned `compiled` only."""
    return SweepRecord(
        schema=RECORD_SCHEMA,
        sweep_id="sweep-20261121-120000-f1ee",
        created="2026-11-21T12:00:00+00:00",
        answers={"model": "demo"},
        mix=tuple(MixedLengths(lengths=each, share=share) for each, share in shares.items()),
        runs=tuple(
            SweepRun(
                lengths=each,
                run_id=f"20261121-120000-{number:04x}",
                limited_to=("compiled",) if each in limited else (),
                between=(min(shares), max(shares)) if each in limited else (),
            )
            for number, each in enumerate(shares)
        ),
    )


def answer_at(lengths: Lengths, *, faster: float = 1.0, only: Sequence[str] = ()) -> Answer:
    """Return an answer at a length; `compiled` is `faster` than fourfold.

    `only` limits the plan to these arms and the baseline.
    """
    made = built_answers.answer()
    question = msgspec.structs.replace(
        made.question,
        input_tokens=lengths.input_tokens,
        output_tokens=lengths.output_tokens,
    )
    unmeasured = tuple(each for each in made.unmeasured if not only or each.arm in only)
    measurements = tuple(
        _speed_up(one, faster) if one.arm == "compiled" else one
        for one in made.results.measurements
    )
    results = msgspec.structs.replace(made.results, measurements=measurements)
    head = msgspec.structs.replace(built_answers.finished_header(), question=question)
    return built_answers.answer_of(results, head, unmeasured=unmeasured)


def _speed_up(measurement: Measurement, factor: float) -> Measurement:
    """Return a measurement whose speed-ups are multiplied."""

    def multiply(one: Interval) -> Interval:
        ends = [None if end is None else end * factor for end in (one.low, one.high)]
        return msgspec.structs.replace(one, value=one.value * factor, low=ends[0], high=ends[1])

    cells = tuple(
        msgspec.structs.replace(cell, speedup=multiply(cell.speedup)) for cell in measurement.cells
    )
    speedup = multiply(measurement.speedup)
    return msgspec.structs.replace(measurement, cells=cells, speedup=speedup)


def document(record: SweepRecord, answers: dict[Lengths, Answer]) -> SweepDocument:
    """Return the document of a sweep in which every length of the mix is measured."""
    mix = decide_mix(record, answers, built_answers.finished_header().catalogue)
    return sweep_document.compose(record, answers, mix, mix.problem)
