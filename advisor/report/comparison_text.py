"""Render a comparison of two runs as plain text and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.decide.comparison import Change, Comparison, Costs
from advisor.domain import text
from advisor.domain.answer import Answer
from advisor.domain.measurement import Interval
from advisor.report.formatting import Column, format_error, plain_table, table_rows
from advisor.report.headline import first_line
from advisor.report.markdown import escape, escaped_table

#: Most characters of a value in the table of differences, and fewest in a narrow terminal.
LONGEST_VALUE, SHORTEST_VALUE = 60, 16
#: Columns beside names and values in that table.
GAPS = 7
#: Columns that a narrow terminal leaves out, the least used first.
LEAST_USED = (
    *("detectable slowdown", "speed, times before", "error before", "error after"),
    *("MiB before", "MiB after", "ms before", "ms after", "requests/s before", "requests/s after"),
)


def render(comparison: Comparison, before: Answer, after: Answer, width: float = math.inf) -> str:
    """Return the comparison as plain text; what is wider than `width` columns is left out."""
    blocks = [
        [f"before  {_name_run(before)}", f"after   {_name_run(after)}"],
        _differences(comparison, width),
        conclusion_lines(comparison),
    ]
    blocks += [_within(rows, width) for rows in _tables(comparison)]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _name_run(answer: Answer) -> str:
    state = "" if answer.finished else " (not finished)"
    return f"{answer.run_id}: {first_line(answer)}{state}"


def _within(rows: Sequence[Sequence[str]], width: float) -> list[str]:
    lines = list[str]()
    for count in range(len(LEAST_USED) + 1):
        kept = [number for number, head in enumerate(rows[0]) if head not in LEAST_USED[:count]]
        shown = [[row[number] for number in kept] for row in rows]
        lines = plain_table(shown, _text_columns(shown))
        if max(map(len, lines)) <= width:
            break
    return lines


def _differences(comparison: Comparison, width: float) -> list[str]:
    if not comparison.differences:
        return [] if comparison.conclusion == "same-run" else ["Nothing differs."]
    names = max(len(each.what) for each in comparison.differences)
    most = int(min(max((width - names - GAPS) / 2, SHORTEST_VALUE), LONGEST_VALUE))
    rows = [
        ["!" if each.decisive else "", each.what, _clip(each.before, most), _clip(each.after, most)]
        for each in comparison.differences
    ]
    return [
        "Differences (!: speeds are not comparable):",
        *plain_table([["", "", "before", "after"], *rows]),
    ]


def _clip(value: str, most: int) -> str:
    return value if len(value) <= most else f"{value[: most - 3]}..."


def render_markdown(comparison: Comparison) -> str:
    blocks = [
        [f"## p3-advisor: {escape(comparison.before)} against {escape(comparison.after)}"],
        [escape(line) for line in conclusion_lines(comparison)],
    ]
    blocks += [escaped_table(rows, _text_columns(rows)) for rows in _tables(comparison)]
    if comparison.differences:
        rows = [[each.what, each.before, each.after] for each in comparison.differences]
        found = escaped_table([["", "before", "after"], *rows], {0, 1, 2})
        blocks.append(["Differences:", "", *found])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _tables(comparison: Comparison) -> list[list[Sequence[str]]]:
    """Return the tables that have rows, without empty columns; the first row is the head."""
    arms = [change for change in comparison.changes if change.shape is not None]
    servers = [change for change in comparison.changes if change.shape is None]
    tables = [
        table_rows(_change_columns("arm", "ms", "speed-up"), arms),
        table_rows(_change_columns("server", "requests/s", "goodput"), servers),
        table_rows(_change_columns("baseline", "ms", "speed"), comparison.drift),
        table_rows(COST_COLUMNS, comparison.costs),
    ]
    return [
        list(zip(*(column for column in zip(*rows, strict=True) if any(column[1:])), strict=True))
        for rows in tables
        if rows
    ]


COST_COLUMNS: tuple[Column[Costs], ...] = (
    ("arm", lambda costs: costs.arm),
    ("build s before", lambda costs: text.format_seconds(costs.build_seconds[0])),
    ("build s after", lambda costs: text.format_seconds(costs.build_seconds[1])),
    ("MiB before", lambda costs: text.format_mebibytes(costs.peak_bytes[0])),
    ("MiB after", lambda costs: text.format_mebibytes(costs.peak_bytes[1])),
    ("error before", lambda costs: _write_error(costs.errors[0])),
    ("error after", lambda costs: _write_error(costs.errors[1])),
)


def _write_error(error: float | None) -> str:
    return "" if error is None else format_error(error)


def _change_columns(name: str, unit: str, compared: str) -> list[Column[Change]]:
    return [
        (name, lambda change: change.arm),
        ("batch", lambda change: str(change.shape or "")),
        (f"{unit} before", lambda change: _write_figure(change, change.before)),
        (f"{unit} after", lambda change: _write_figure(change, change.after)),
        (
            f"{compared}, times before (95 %)",
            lambda change: text.format_interval(change.ratio, unit="", decimals=3),
        ),
        ("speed, times before", _write_speed if name == "arm" else lambda _: ""),
        ("detectable slowdown", lambda change: _rounded_up(change.detectable_slowdown)),
        ("verdict", lambda change: change.verdict),
    ]


def _write_figure(change: Change, figure: Interval) -> str:
    if change.shape is None:
        return text.format_interval(figure, unit="", decimals=None)
    return text.format_milliseconds(figure.value)


def _write_speed(change: Change) -> str:
    return text.format_number(change.before.value / change.after.value, 3)


def _text_columns(rows: Sequence[Sequence[str]]) -> set[int]:
    return {0, *(number for number, head in enumerate(rows[0]) if head == "verdict")}


def conclusion_lines(comparison: Comparison) -> list[str]:
    if comparison.conclusion == "same-run":
        return [f"Both are the run {comparison.before}: nothing was compared."]
    if not comparison.comparable:
        names = ", ".join(each.what for each in comparison.differences if each.decisive)
        return [f"No verdict: the runs differ in {names}."]
    return [
        *_verdict(comparison),
        *_less_exact(comparison),
        *_machine_drift(comparison),
        *_missing_arms(comparison),
        *_power(comparison),
    ]


def _power(comparison: Comparison) -> list[str]:
    if comparison.detectable_slowdown is None:
        return []
    share = _rounded_up(comparison.detectable_slowdown)
    return [f"A comparison like this finds a slowdown of {share} in any arm in 9 of 10 cases."]


def _rounded_up(share: float | None) -> str:
    return "" if share is None else text.format_share(math.ceil(share * 100) / 100)


def _verdict(comparison: Comparison) -> list[str]:
    share = text.format_share(comparison.threshold, decimals=None)
    slower, undecided = _name(comparison.regressions), _name(comparison.undecided)
    lines = [f"Fails now: {each.arm} ({each.status}: {each.reason})." for each in comparison.failed]
    has_speedups = any(change.shape is not None for change in comparison.changes)
    if slower:
        relative = ", relative to the baseline" if has_speedups else ""
        lines.append(f"Slower by more than {share}{relative}: {slower}.")
    elif not (lines or comparison.unfit):
        lines.append(f"No arm is shown to be slower by more than {share}.")
    if comparison.unfit:
        runs = " and ".join(dict.fromkeys(comparison.unfit))
        lines.append(f"No verdict on speed: the machine was too busy or unsteady during {runs}.")
    elif undecided:
        lines.append(f"Undecided, because the intervals are too wide: {undecided}.")
    if comparison.baseline_changed and has_speedups:
        lines.append(
            "The baseline, its versions or its settings differ, "
            "so a speed-up can change without a change of its arm."
        )
    return lines


def _name(changes: Sequence[Change]) -> str:
    return ", ".join(
        f"{change.arm} at {change.shape.description}"
        if change.shape is not None
        else f"the server of {change.arm}"
        for change in changes
    )


def _less_exact(comparison: Comparison) -> list[str]:
    found = [
        f"{each.arm} ({' before, '.join(map(str, each.accuracy_classes))} after)"
        for each in comparison.costs
        if each.is_less_exact
    ]
    return [f"Outputs less exact: {', '.join(found)}."] if found else []


def _machine_drift(comparison: Comparison) -> list[str]:
    changed = [
        f"{text.format_interval(each.ratio)} at {each.shape.description}"
        for each in comparison.drift
        if each.shape is not None and each.verdict in {"slower", "faster"}
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
