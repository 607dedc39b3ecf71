"""Render a comparison of two runs as plain text and as Markdown."""

from __future__ import annotations

from advisor.report.comparison import Change, Comparison
from advisor.report.markdown import escape
from advisor.report.tabular import markdown_table, plain_table
from advisor.system.number_format import format_interval, format_number, format_share

CHANGE_HEAD = ["arm", "batch", "speed, times before (95%)", "speed-up, times before", "verdict"]
CHANGE_TEXT_COLUMNS = {0, 4}


def render(comparison: Comparison) -> str:
    """Return the comparison as plain text."""
    blocks = [
        [
            f"before  {comparison.before}: {comparison.headlines[0]}",
            f"after   {comparison.after}: {comparison.headlines[1]}",
        ],
        _differences(comparison),
    ]
    if comparison.changes:
        rows = [CHANGE_HEAD, *map(_change_row, comparison.changes)]
        blocks.append(plain_table(rows, CHANGE_TEXT_COLUMNS))
    blocks.append(conclusion(comparison))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _differences(comparison: Comparison) -> list[str]:
    if not comparison.differences:
        return ["Nothing differs."]
    rows = [
        ["!" if each.decisive else "", each.what, each.before, each.after]
        for each in comparison.differences
    ]
    return [
        "Differences (!: speeds are not comparable):",
        *plain_table([["", "", "before", "after"], *rows]),
    ]


def render_markdown(comparison: Comparison) -> str:
    """Return the comparison as Markdown for a pull request."""
    blocks = [
        [f"## p3-advisor: {escape(comparison.before)} against {escape(comparison.after)}"],
        [escape(line) for line in conclusion(comparison)],
    ]
    if comparison.changes:
        rows = [[escape(cell) for cell in _change_row(change)] for change in comparison.changes]
        blocks.append(markdown_table(CHANGE_HEAD, rows, CHANGE_TEXT_COLUMNS))
    if comparison.differences:
        rows = [
            [escape(each.what), escape(each.before), escape(each.after)]
            for each in comparison.differences
        ]
        blocks.append(["Differences:", "", *markdown_table(["", "before", "after"], rows)])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _change_row(change: Change) -> list[str]:
    return [
        change.arm,
        str(change.batch_size),
        format_interval(change.speed, unit="", decimals=3),
        format_number(change.speedup, decimals=3),
        change.verdict,
    ]


def conclusion(comparison: Comparison) -> list[str]:
    """Return which arms are slower, or why no verdict is possible."""
    if not comparison.comparable:
        names = ", ".join(each.what for each in comparison.differences if each.decisive)
        return [f"No verdict: the runs differ in {names}."]
    slower = [
        f"{change.arm} at batch size {change.batch_size}" for change in comparison.regressions
    ]
    share = format_share(comparison.threshold, decimals=None)
    lines = [
        f"Slower by more than {share}: {', '.join(slower)}."
        if slower
        else f"No arm is shown to be slower by more than {share}."
    ]
    # The speed-up of every arm is checked: the baseline's own is 1 in any case.
    if slower and all(
        abs(change.speedup - 1) <= comparison.threshold for change in comparison.changes
    ):
        lines.append(
            "The speed-ups over the baseline are unchanged: "
            "the machine has changed, not a workflow."
        )
    for arms, run in ((comparison.only_before, "before"), (comparison.only_after, "after")):
        if arms:
            lines.append(f"Measured only {run}: {', '.join(arms)}.")
    return lines
