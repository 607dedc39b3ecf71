"""The report as Markdown that fits a pull request: the answer, the comparison, what is missing.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.measurement import Interval
from advisor.domain.question import CRITERIA
from advisor.report.document import RunDocument, WorkflowEntry
from advisor.report.setup_facts import circumstances
from advisor.report.table import CRITERIA as SHORT
from advisor.report.table import LETTERS, headline, honesty, stopped

#: Signs that Markdown or the HTML in it could take for something else.
SPECIAL = str.maketrans(
    {sign: f"\\{sign}" for sign in "\\`*_{}[]()#+!|~$@"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


def render(document: RunDocument) -> str:
    """Return the report."""
    ranked = [entry for entry in document.workflows if entry.rank is not None]
    left_out = [entry for entry in document.workflows if entry.rank is None]
    blocks = [
        [f"## {escape(headline(document))}"],
        [f"{escape(line)}  " for line in (*stopped(document), *honesty(document))],
    ]
    if ranked:
        blocks.append(ranking(ranked))
    advice = document.recommendation
    if advice is not None:
        blocks.append(["### Why", "", *(f"- {escape(reason)}" for reason in advice.reasons)])
        if advice.trust_reasons:
            blocks.append(
                [
                    "What keeps the trust from being higher:",
                    "",
                    *(f"- {escape(reason)}" for reason in advice.trust_reasons),
                ]
            )
    barred = [(entry.arm, "; ".join(entry.fails)) for entry in ranked if entry.fails]
    missing = [(entry.arm, _why(entry)) for entry in left_out]
    if barred or missing:
        rows = [[escape(arm), escape(reason)] for arm, reason in [*barred, *missing]]
        blocks.append(
            folded(
                "Not in the ranking, or barred by a constraint", table(["workflow", "why"], rows)
            )
        )
    facts = [[escape(name), escape(value)] for name, value in circumstances(document)]
    blocks.append(folded("Question and machine", table(["", ""], facts)))
    origin = ", imported from another machine" if document.imported else ""
    blocks.append(
        [
            f"Run {escape(document.run_id)}{origin}, {escape(document.created)}, p3-advisor {escape(document.advisor_version)}."
        ]
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _why(entry: WorkflowEntry) -> str:
    advice = f"; next: {entry.fix}" if entry.fix else ""
    return f"{entry.status}: {entry.reason or 'no reason is known'}{advice}"


def ranking(ranked: Sequence[WorkflowEntry]) -> list[str]:
    """Return the arms with a score, best first."""
    sizes = [cell.batch_size for cell in ranked[0].cells]
    head = [
        "#",
        "arm",
        "speed-up (95 %)",
        *(f"ms @{size}" for size in sizes),
        "build s",
        "MiB",
        *(short for _, short in SHORT),
        "score",
    ]
    return table(head, [_row(entry, sizes) for entry in ranked])


def _row(entry: WorkflowEntry, sizes: Sequence[int]) -> list[str]:
    milliseconds = {cell.batch_size: f"{cell.seconds.median * 1e3:.4g}" for cell in entry.cells}
    memory = entry.memory_bytes.peak_mebibytes if entry.memory_bytes else None
    scores = entry.scores or {}
    return [
        f"{entry.rank}{'!' if entry.fails else ''}",
        escape(entry.arm),
        interval(entry.speedup),
        *(milliseconds.get(size, "-") for size in sizes),
        f"{entry.build_seconds.cold:.1f}" if entry.build_seconds else "-",
        f"{memory:,}" if memory is not None else "-",
        *(LETTERS[scores[name].tier] for name in CRITERIA),
        f"{entry.score:.2f}" if entry.score is not None else "-",
    ]


def interval(speedup: Interval | None) -> str:
    """Return a speed-up with its ends."""
    if speedup is None:
        return "-"
    bounds = (
        f" ({speedup.low:.2f} to {speedup.high:.2f})"
        if speedup.low is not None and speedup.high is not None
        else ""
    )
    return f"{speedup.value:.2f}x{bounds}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; what stands in it is escaped already."""
    return [_line(head), _line(["---"] * len(head)), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def folded(title: str, lines: Sequence[str]) -> list[str]:
    """Return lines that are folded away under a title."""
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]


def escape(text: str) -> str:
    """Return text that stays text on one line, whatever it holds."""
    return " ".join(text.split()).translate(SPECIAL)
