"""The answer at a glance: a few figures of the advised arm, and the best arm of each batch size."""

from __future__ import annotations

from typing import NamedTuple

from advisor.decide.trust import is_unfit
from advisor.domain.answer import Answer
from advisor.domain.measurement import Measurement
from advisor.domain.recommendation import Certainty, DecisionWord, Recommendation
from advisor.report.text_generation import format_latency
from advisor.system.number_format import (
    format_mebibytes,
    format_milliseconds,
    format_number,
    format_seconds,
    format_share,
    format_share_of_draws,
    format_speedup,
)

#: A short explanation of each decision word.
CONFIDENCE: dict[DecisionWord, str] = {
    "CLEAR": "the measurements decide",
    "LIKELY": "the measurements probably decide",
    "OPEN": "the measurements do not decide",
}


class Tile(NamedTuple):
    """One figure with its name and what belongs to it."""

    name: str
    value: str
    note: str


class ShapeWinner(NamedTuple):
    """The best arm by score at one shape, next to the advised one."""

    #: The lengths, such as `512` or `512+128`; empty in a run with one.
    tokens: str
    #: Of the shape in the mix.
    share: str
    batch_size: int
    arm: str
    speedup: str
    advised_speedup: str
    #: Whether it is another arm than the advised one.
    differs: bool


def tiles(answer: Answer) -> list[Tile]:
    """Return the figures of the advised arm; none without advice or without its figures."""
    advice = answer.recommendation
    measured = answer.advised.measured if answer.advised else None
    if advice is None or measured is None or not measured.cells:
        return []
    return [
        _speed(measured, unfit=is_unfit(answer.results)),
        _text_latency(measured) or _call_time(measured),
        *([_memory(measured)] if measured.memory_bytes.peak else []),
        _build(measured, advice),
        *(
            [_confidence(advice, advice.certainty, advice.certainty.decision_word)]
            if advice.certainty and advice.certainty.decision_word
            else []
        ),
    ]


def _speed(measured: Measurement, *, unfit: bool) -> Tile:
    speedup = measured.speedup
    if unfit and speedup.low is not None and speedup.high is not None:
        value = f"{speedup.low:.2f} to {speedup.high:.2f}x"
        return Tile("Speed over eager PyTorch", value, "the machine was busy or unsteady")
    bounds = (
        [f"95 %: {speedup.low:.2f} to {speedup.high:.2f}"]
        if speedup.low is not None and speedup.high is not None
        else []
    )
    each = (f"batch {cell.shape}: {format_speedup(cell.speedup)}" for cell in measured.cells)
    return Tile("Speed over eager PyTorch", format_speedup(speedup), "; ".join([*bounds, *each]))


def _call_time(measured: Measurement) -> Tile:
    first, *others = measured.cells
    note = "; ".join(
        f"batch {cell.shape}: {format_milliseconds(cell.seconds.median, digits=3)} ms"
        for cell in others
    )
    value = f"{format_milliseconds(first.seconds.median, digits=3)} ms"
    return Tile(f"One call, batch {first.shape}", value, note)


def _text_latency(measured: Measurement) -> Tile | None:
    """Return the rate of generated text; None for another task."""
    cell = measured.cells[-1]
    metrics = cell.generation
    if metrics is None:
        return None
    parts = (
        ("first token", metrics.ttft_seconds),
        ("between tokens", metrics.itl_seconds),
    )
    note = "; ".join(
        f"{name} {format_latency(seconds, metrics)} ms"
        for name, seconds in parts
        if seconds is not None
    )
    value = f"{format_number(cell.throughput.value, decimals=0)} {cell.throughput.unit}"
    return Tile(f"Text, batch {cell.shape}", value, note)


def _memory(measured: Measurement) -> Tile:
    peak = format_mebibytes(measured.memory_bytes.peak)
    return Tile("Peak memory", f"{peak} MiB", "builds included")


def _build(measured: Measurement, advice: Recommendation) -> Tile:
    seconds = f"{format_seconds(measured.build_seconds.cold)} s"
    return Tile("Build", seconds, _payback(advice))


def _payback(advice: Recommendation) -> str:
    """Return after how many requests the build has paid for itself, or where it never does."""
    requests = advice.break_even_requests
    if requests is not None:
        sizes = [each.shape for each in advice.break_even if each.requests == requests]
        of_several = len(advice.break_even) > 1 and len(sizes) == 1
        where = f" of {sizes[0].description}" if of_several else ""
        return f"paid back after {format_number(requests, decimals=0)} requests{where}"
    never = [str(each.shape) for each in advice.break_even if each.requests is None]
    if never and len(never) == len(advice.break_even):
        return "never paid back"
    return f"never paid back at batch size {', '.join(never)}" if never else ""


def _confidence(advice: Recommendation, certainty: Certainty, word: DecisionWord) -> Tile:
    share = format_share_of_draws(certainty.share)
    leads = f"the best choice in {share} of the draws, trust {advice.trust}"
    return Tile("Confidence", word, f"{CONFIDENCE[word]}; {leads}")


def winners(answer: Answer) -> list[ShapeWinner]:
    """Return the best arm at each shape.

    None where it is the advised one at all of the batch sizes, and the run has one length.
    """
    advice, weights = answer.recommendation, answer.question.weights
    if advice is None or all(
        each.arm == advice.arm and not each.shape.lengths for each in advice.advice_by_shape
    ):
        return []
    return [
        ShapeWinner(
            each.shape.lengths,
            format_share(weights.get(each.shape, 1.0) / len(weights)),
            each.shape.batch_size,
            each.arm,
            f"{each.speedup:.2f}x",
            f"{each.advised_speedup:.2f}x",
            each.arm != advice.arm,
        )
        for each in advice.advice_by_shape
    ]


def length_rows(answer: Answer) -> list[list[str]]:
    """Return the head and a row for each shape of a run with several lengths; else nothing."""
    rows = [[*map(str, each[:-1])] for each in winners(answer) if each.tokens]
    head = ["tokens", "share", "batch", "best arm", "speed-up", "of the advised arm"]
    return [head, *rows] if rows else []
