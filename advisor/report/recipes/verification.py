"""Verify whether the throughput of a recipe matches what was measured (`verify`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from advisor.domain.answer import RankedArm
from advisor.domain.interval import Interval
from advisor.domain.measurement import Cell
from advisor.probing.rerun import RecipeResult
from advisor.report.recipes.script_recipe import throughput_interval
from advisor.system.number_format import format_interval, format_number

SCHEMA: Final = "p3-advisor/verification/1"

CheckResult = Literal["holds", "faster", "slower machine", "slower"]

RESULT_TEXTS: dict[CheckResult, str] = {
    "holds": "as fast as measured",
    "faster": "faster than measured",
    "slower machine": "slower than measured because the whole machine is slower",
    "slower": "slower than measured",
}


class ThroughputCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The measured and the reached throughput at one batch size."""

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
    result: CheckResult


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The checks of a recipe against the measurement of its arm."""

    schema: str
    run_id: str
    arm: str
    tolerance: float
    holds: bool
    checks: tuple[ThroughputCheck, ...]
    #: The present versions that differ from the measured ones, by package.
    changed_versions: dict[str, str]


def verify(
    run_id: str, entry: RankedArm, results: Sequence[RecipeResult], tolerance: float
) -> Verification:
    """Check the results of a recipe against the measurement of its arm.

    A throughput holds if it is within its interval widened by the share `tolerance`.
    """
    cells = {cell.batch_size: cell for cell in entry.cells}
    checks = tuple(
        check_throughput(cells[result.batch_size], result, tolerance)
        for result in results
        if result.batch_size in cells
    )
    versions = {name: version for result in results for name, version in result.versions.items()}
    return Verification(
        schema=SCHEMA,
        run_id=run_id,
        arm=entry.arm,
        tolerance=tolerance,
        holds=bool(checks) and all(check.result in {"holds", "faster"} for check in checks),
        checks=checks,
        changed_versions={
            name: version
            for name, version in versions.items()
            if entry.versions.get(name, version) != version
        },
    )


def check_throughput(cell: Cell, result: RecipeResult, tolerance: float) -> ThroughputCheck:
    """Check the throughput at one batch size."""
    measured = throughput_interval(cell)
    return ThroughputCheck(
        batch_size=cell.batch_size,
        unit=cell.throughput.unit,
        measured=measured.value,
        low=measured.low,
        high=measured.high,
        reached=result.throughput,
        speedup_measured=cell.speedup.value,
        speedup_low=cell.speedup.low,
        speedup_high=cell.speedup.high,
        speedup_reached=result.speedup,
        result=_classify(measured, cell.speedup, result, tolerance),
    )


def _classify(
    measured: Interval, speedup: Interval, result: RecipeResult, tolerance: float
) -> CheckResult:
    if result.throughput > (measured.high or measured.value) * (1 + tolerance):
        return "faster"
    if result.throughput >= (measured.low or measured.value) * (1 - tolerance):
        return "holds"
    least_speedup = (speedup.low or speedup.value) * (1 - tolerance)
    has_speedup = result.speedup is not None and result.speedup >= least_speedup
    return "slower machine" if has_speedup else "slower"


def render(verification: Verification) -> str:
    """Return the verification as text."""
    verdict = "reaches" if verification.holds else "does not reach"
    run = f"{verification.arm}, run {verification.run_id}"
    lines = [
        f"{run}: the recipe {verdict} the measured throughput.",
        *map(_check_line, verification.checks),
    ]
    changed = ", ".join(
        f"{name} is now {version}" for name, version in verification.changed_versions.items()
    )
    if changed:
        lines.append(f"  the environment has changed: {changed}")
    return "\n".join(lines) + "\n"


def _check_line(check: ThroughputCheck) -> str:
    measured = Interval(value=check.measured, low=check.low, high=check.high)
    figures = (
        f"{format_number(check.reached)} {check.unit}; "
        f"measured {format_interval(measured, unit='', decimals=None)}"
    )
    if check.speedup_reached:
        speedup = Interval(
            value=check.speedup_measured, low=check.speedup_low, high=check.speedup_high
        )
        figures += f"; {check.speedup_reached:.2f}x eager, measured {format_interval(speedup)}"
    return f"  batch size {check.batch_size}: {figures}: {RESULT_TEXTS[check.result]}"
