"""The printed code of an arm, which runs beside that of the baseline, and what that shows."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from advisor.domain.machine import Doubt, QuietCheck
from advisor.domain.measurement import Cell, Interval, Variant
from advisor.domain.plan import Arm
from probes.shape import Shape

SCHEMA: Final = "p3-advisor/verification/1"

Result = Literal["holds", "faster", "slower", "wrong", "undecided"]


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A snippet, and where it runs."""

    text: str
    #: Interpreter of an environment that p3-advisor created; empty for that of the question.
    python: str = ""
    #: Folders next to the snippet, by the name in its text.
    folders: Mapping[str, pathlib.Path] = {}


class SnippetPair(msgspec.Struct, frozen=True, kw_only=True):
    """The snippets of an arm and of the baseline; both are timed, in turn."""

    #: The batch size and the lengths are in the text.
    planned: Arm
    own: Snippet
    baseline: Snippet
    #: What a comparison of the outputs allows, by output; None for no comparison.
    allowed: Any
    #: Whether the first one ends before the second starts: an engine takes the GPU's memory.
    one_by_one: bool = False
    #: What was measured of the arm with these lengths and this batch size.
    cell: Cell
    #: What the arm was measured with, pinned.
    requirements: tuple[str, ...] = ()


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The snippet of an arm against the measurement of the arm, at one batch size."""

    schema: str
    run_id: str
    arm: str
    baseline: str
    shape: Shape
    result: Result
    holds: bool
    tolerance: float
    #: What is wrong with the outputs; null for nothing.
    problem: str | None
    #: Whether the outputs were compared: some differ from call to call.
    compared: bool
    speedup: Interval
    #: Null with wrong outputs, which are not timed.
    speedup_reached: Interval | None
    doubt: Doubt | None
    #: Seconds of a call, by the measurement, of the snippet and of the baseline's snippet.
    seconds: float
    seconds_reached: float | None
    baseline_seconds: float | None
    #: The present versions that differ from the measured ones, by package.
    changed_versions: dict[str, str]
    #: What else ran on the machine before.
    quiet_check: QuietCheck


class TriedVariant(msgspec.Struct, frozen=True, kw_only=True):
    """What further lines gain."""

    arm: str
    variant: Variant
    #: The lines and where they are, as a unified diff of the code that `recipe` prints below its
    #: head.
    diff: str


def bounds(speedup: Interval) -> tuple[float, float]:
    return speedup.low or speedup.value, speedup.high or speedup.value


def shows_nothing(measured: Interval, tolerance: float) -> bool:
    """Return whether a measured speed-up may be a gain as well as a loss beyond the tolerance."""
    least, most = bounds(measured)
    return least * (1 + tolerance) < 1 < most * (1 - tolerance)
