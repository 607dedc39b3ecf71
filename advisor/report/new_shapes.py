"""Describe what an arm did with shapes that it was not built for, for text and HTML."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from advisor.domain.answer import Answer
from advisor.system.number_format import format_milliseconds, format_seconds
from probes.wire.events import NewShapeResult

#: Arms of the summary; `explain` and the HTML report have all.
SUMMARY_ARMS = 3
#: Length of a stack's message; the JSON document has all of it.
MOST_CHARACTERS = 90
#: Outcomes, the best first.
OUTCOMES = ("skipped", "served", "eager", "stalled", "wrong", "refused")


def describe(result: NewShapeResult) -> str:
    """Return the shape, the outcome and its time: `batch size 17: served in 1.2 ms`."""
    return f"{result.shape.description}: {_outcome(result)}"


def _outcome(result: NewShapeResult) -> str:
    match result.outcome:
        case "served":
            comparison = f", {result.reason}" if result.reason else ""
            return f"{_served_in(result)}{comparison}"
        case "stalled":
            return f"recompiled, {format_seconds(result.first_call_seconds)} s"
        case "eager":
            return f"served by eager code, {result.reason}"
        case "wrong":
            return f"wrong outputs, {_shorten(result.reason)}"
        case "refused":
            return f"refused, {_shorten(result.reason)}"
        case "skipped":
            return f"not tried, {result.reason}"


def _served_in(result: NewShapeResult) -> str:
    """Return the time of a later call and of the first one, which may compile."""
    first = f"{format_milliseconds(result.first_call_seconds)} ms"
    if result.steady_seconds is None:
        return f"served, first call {first}"
    return f"served in {format_milliseconds(result.steady_seconds)} ms, first call {first}"


def _shorten(reason: str | None) -> str:
    """Return the start of a message of a stack, which may be a trace of many lines."""
    lines = (reason or "no reason is known").strip().splitlines()
    return textwrap.shorten(lines[0], MOST_CHARACTERS, placeholder=" ...")


def by_arm(answer: Answer) -> list[tuple[str, Sequence[NewShapeResult]]]:
    """Return the results of every arm that tried new shapes, by rank."""
    return [
        (arm.arm, measured.new_shape_results)
        for arm, measured in answer.ranked
        if measured is not None and measured.new_shape_results
    ]


def summary(answer: Answer) -> list[str]:
    """Return a line for each of the best arms that tried new shapes; nothing if none did.

    A line has the worst batch size and the length.
    """
    tried = by_arm(answer)[:SUMMARY_ARMS]
    lines = [f"  {arm}: {'; '.join(map(describe, _worst(results)))}" for arm, results in tried]
    return ["Shapes that were not built:", *lines] if lines else []


def _worst(results: Sequence[NewShapeResult]) -> list[NewShapeResult]:
    sizes = [result for result in results if not result.shape.lengths]
    lengths = [result for result in results if result.shape.lengths]
    return [max(each, key=_severity) for each in (sizes, lengths) if each]


def _severity(result: NewShapeResult) -> tuple[int, float]:
    return OUTCOMES.index(result.outcome), result.first_call_seconds or 0.0
