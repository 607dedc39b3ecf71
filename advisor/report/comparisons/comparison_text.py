"""Render a comparison of two runs as plain text and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from advisor.domain.plan import BASELINE
from advisor.report.comparisons.comparison import Change, Comparison, Drift
from advisor.report.comparisons.goodput_comparison import GoodputChange
from advisor.report.formatting import markdown_table, plain_table
from advisor.report.markdown import escape
from advisor.system.number_format import (
    format_interval,
    format_milliseconds,
    format_number,
    format_share,
)

#: Most characters of a value in the table of differences.
LONGEST_VALUE = 60
CHANGE_HEAD = [
    "arm",
    "batch",
    "ms before",
    "ms after",
    "speed-up, times before (95 %)",
    "speed, times before",
    "slowdown found from",
    "verdict",
]
CHANGE_TEXT_COLUMNS = {0, 7}
GOODPUT_HEAD = [
    "server",
    "requests/s before (95 %)",
    "after (95 %)",
    "times before (95 %)",
    "verdict",
]
GOODPUT_TEXT_COLUMNS = {0, 4}
DRIFT_HEAD = ["baseline", "batch", "speed, times before (95 %)", "verdict"]
DRIFT_TEXT_COLUMNS = {0, 3}


def render(comparison: Comparison) -> str:
    """Return the comparison as plain text."""
    blocks = [
        [
            f"before  {comparison.before}: {comparison.headlines[0]}",
            f"after   {comparison.after}: {comparison.headlines[1]}",
        ],
        _differences(comparison),
        conclusion(comparison),
    ]
    if comparison.changes:
        rows = [CHANGE_HEAD, *map(_change_row, comparison.changes)]
        blocks.append(plain_table(rows, CHANGE_TEXT_COLUMNS))
    if comparison.goodputs:
        rows = [GOODPUT_HEAD, *map(_goodput_row, comparison.goodputs)]
        blocks.append(plain_table(rows, GOODPUT_TEXT_COLUMNS))
    if comparison.drift:
        rows = [DRIFT_HEAD, *map(_drift_row, comparison.drift)]
        blocks.append(plain_table(rows, DRIFT_TEXT_COLUMNS))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _differences(comparison: Comparison) -> list[str]:
    if not comparison.differences:
        return ["Nothing differs."]
    rows = [
        ["!" if each.decisive else "", each.what, _clip(each.before), _clip(each.after)]
        for each in comparison.differences
    ]
    return [
        "Differences (!: speeds are not comparable):",
        *plain_table([["", "", "before", "after"], *rows]),
    ]


def _clip(value: str) -> str:
    return value if len(value) <= LONGEST_VALUE else f"{value[: LONGEST_VALUE - 3]}..."


def render_markdown(comparison: Comparison) -> str:
    """Return the comparison as Markdown for a pull request."""
    blocks = [
        [f"## p3-advisor: {escape(comparison.before)} against {escape(comparison.after)}"],
        [escape(line) for line in conclusion(comparison)],
    ]
    if comparison.changes:
        rows = _escape_rows(map(_change_row, comparison.changes))
        blocks.append(markdown_table(CHANGE_HEAD, rows, CHANGE_TEXT_COLUMNS))
    if comparison.goodputs:
        rows = _escape_rows(map(_goodput_row, comparison.goodputs))
        blocks.append(markdown_table(GOODPUT_HEAD, rows, GOODPUT_TEXT_COLUMNS))
    if comparison.drift:
        rows = _escape_rows(map(_drift_row, comparison.drift))
        blocks.append(markdown_table(DRIFT_HEAD, rows, DRIFT_TEXT_COLUMNS))
    if comparison.differences:
        rows = _escape_rows([each.what, each.before, each.after] for each in comparison.differences)
        blocks.append(["Differences:", "", *markdown_table(["", "before", "after"], rows)])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _escape_rows(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    return [[escape(cell) for cell in row] for row in rows]


def _change_row(change: Change) -> list[str]:
    return [
        change.arm,
        str(change.shape),
        format_milliseconds(change.seconds_before),
        format_milliseconds(change.seconds_after),
        format_interval(change.speedup_ratio, unit="", decimals=3),
        format_number(change.speed.value, decimals=3),
        "" if change.found_from is None else _rounded_up(change.found_from),
        change.verdict,
    ]


def _goodput_row(change: GoodputChange) -> list[str]:
    figures = (change.before, change.after, change.ratio)
    return [
        change.arm,
        *(format_interval(figure, unit="", decimals=None) for figure in figures),
        change.verdict,
    ]


def _drift_row(drift: Drift) -> list[str]:
    speed = format_interval(drift.speed, unit="", decimals=3)
    return [BASELINE, str(drift.shape), speed, drift.verdict]


def conclusion(comparison: Comparison) -> list[str]:
    """Return which arms are slower, or why no verdict is possible; then what else has changed."""
    if comparison.outcome == "same-run":
        return [f"Both are the run {comparison.before}: nothing was compared."]
    if not comparison.comparable:
        names = ", ".join(each.what for each in comparison.differences if each.decisive)
        return [f"No verdict: the runs differ in {names}."]
    return [
        *_verdict(comparison),
        *_machine_drift(comparison),
        *_missing_arms(comparison),
        *_power(comparison),
    ]


def _power(comparison: Comparison) -> list[str]:
    """Return which slowdowns the comparison would have found."""
    if comparison.found_from is None:
        return []
    share = _rounded_up(comparison.found_from)
    return [f"A comparison like this finds a slowdown of {share} in any arm in 9 of 10 cases."]


def _rounded_up(share: float) -> str:
    return format_share(math.ceil(share * 100) / 100)


def _verdict(comparison: Comparison) -> list[str]:
    share = format_share(comparison.threshold, decimals=None)
    slower, undecided = _name(comparison.regressions), _name(comparison.undecided)
    lines = [f"Fails now: {each.arm} ({each.status})." for each in comparison.failed]
    if slower:
        relative = "" if comparison.goodputs else ", relative to the baseline"
        lines.append(f"Slower by more than {share}{relative}: {slower}.")
    elif not (lines or comparison.unfit):
        lines.append(f"No arm is shown to be slower by more than {share}.")
    if comparison.unfit:
        runs = " and ".join(dict.fromkeys(comparison.unfit))
        lines.append(f"No verdict on speed: the machine was too busy or unsteady during {runs}.")
    elif undecided:
        lines.append(f"Undecided, because the intervals are too wide: {undecided}.")
    if comparison.baseline_changed and comparison.changes:
        lines.append(
            "The versions or settings of the baseline differ, "
            "so a speed-up can change without a change of its arm."
        )
    return lines


def _name(changes: Sequence[Change | GoodputChange]) -> str:
    return ", ".join(
        f"{change.arm} at {change.shape.description}"
        if isinstance(change, Change)
        else f"the server of {change.arm}"
        for change in changes
    )


def _machine_drift(comparison: Comparison) -> list[str]:
    changed = [
        f"{format_interval(each.speed)} at {each.shape.description}"
        for each in comparison.drift
        if each.verdict in {"slower", "faster"}
    ]
    if not changed:
        return []
    return [f"The speed of the baseline has changed: {', '.join(changed)}."]


def _missing_arms(comparison: Comparison) -> list[str]:
    failed = {each.arm for each in comparison.failed}
    absent = [arm for arm in comparison.only_before if arm not in failed]
    return [
        f"Measured only {run}: {', '.join(arms)}."
        for arms, run in ((absent, "before"), (comparison.only_after, "after"))
        if arms
    ]
