"""`verify`: does what a recipe reaches now hold against what was measured? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from advisor.domain.measurement import Cell
from advisor.report.document import WorkflowEntry
from advisor.report.recipe import throughput_bounds

SCHEMA: Final = "p3-advisor/verification/1"


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe reached at one batch size."""

    batch_size: int
    throughput: float
    speedup: float | None
    versions: dict[str, str]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One batch size: what was measured, what is reached, and whether it holds."""

    batch_size: int
    unit: str
    measured: float
    low: float | None
    high: float | None
    reached: float
    speedup_measured: float
    speedup_low: float | None
    speedup_high: float | None
    speedup_reached: float | None
    result: Literal["holds", "faster", "slower machine", "slower"]


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe against its measurement."""

    schema: str
    run_id: str
    arm: str
    tolerance: float
    holds: bool
    checks: tuple[Check, ...]
    #: Versions that are not those that were measured.
    changed_versions: dict[str, str]


def verify(
    run_id: str, entry: WorkflowEntry, reached: Sequence[Reached], tolerance: float
) -> Verification:
    """Hold what the recipe reached against the arm's measurement; up to the share `tolerance` beyond its interval is the same."""
    cells = {cell.batch_size: cell for cell in entry.cells}
    checks = tuple(
        check(cells[found.batch_size], found, tolerance)
        for found in reached
        if found.batch_size in cells
    )
    versions = {name: version for found in reached for name, version in found.versions.items()}
    return Verification(
        schema=SCHEMA,
        run_id=run_id,
        arm=entry.arm,
        tolerance=tolerance,
        holds=bool(checks) and all(each.result in {"holds", "faster"} for each in checks),
        checks=checks,
        changed_versions={
            name: version
            for name, version in versions.items()
            if entry.versions.get(name, version) != version
        },
    )


def check(cell: Cell, found: Reached, tolerance: float) -> Check:
    """Compare one batch size."""
    low, value, high = throughput_bounds(cell)
    result: Literal["holds", "faster", "slower machine", "slower"] = "holds"
    if found.throughput > (high or value) * (1 + tolerance):
        result = "faster"
    elif found.throughput < (low or value) * (1 - tolerance):
        least = (cell.speedup.low or cell.speedup.value) * (1 - tolerance)
        result = (
            "slower machine" if found.speedup is not None and found.speedup >= least else "slower"
        )
    return Check(
        batch_size=cell.batch_size,
        unit=cell.throughput.unit,
        measured=value,
        low=low,
        high=high,
        reached=found.throughput,
        speedup_measured=cell.speedup.value,
        speedup_low=cell.speedup.low,
        speedup_high=cell.speedup.high,
        speedup_reached=found.speedup,
        result=result,
    )


WORDS = {
    "holds": "holds",
    "faster": "holds, and is faster than it was measured",
    "slower machine": "is not reached, but the speed-up over eager is within what was measured: the machine is slower than it was",
    "slower": "does not hold",
}


def render(verification: Verification) -> str:
    """Return the verification as text."""
    lines = [
        f"{verification.arm}, run {verification.run_id}: the measured throughput {'holds' if verification.holds else 'does not hold'}."
    ]
    for each in verification.checks:
        figures = f"{each.reached:,.4g} {each.unit} against {each.measured:,.4g}{_bounds(each.low, each.high, ',.4g')}"
        if each.speedup_reached:
            measured = (
                f"{each.speedup_measured:.2f}{_bounds(each.speedup_low, each.speedup_high, '.2f')}"
            )
            figures += f", {each.speedup_reached:.2f} times eager where {measured} was measured"
        lines.append(f"  batch size {each.batch_size}: {figures}: {WORDS[each.result]}")
    changed = ", ".join(
        f"{name} is now {version}" for name, version in verification.changed_versions.items()
    )
    return (
        "\n".join([*lines, *([f"  the environment has changed: {changed}"] if changed else [])])
        + "\n"
    )


def _bounds(low: float | None, high: float | None, form: str) -> str:
    return f" (95 %: {low:{form}} to {high:{form}})" if low is not None and high is not None else ""


def encode(verification: Verification) -> str:
    """Return the verification as indented JSON with a final line break."""
    return msgspec.json.format(msgspec.json.encode(verification), indent=2).decode() + "\n"
