"""Lay out rows as plain-text and Markdown tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tabulate


def plain_table(
    rows: Sequence[Sequence[str]], text_columns: Collection[int] | None = None
) -> list[str]:
    """Return the rows as lines with aligned columns, one line for each row.

    Columns in `text_columns` are left-aligned and all others right-aligned; None left-aligns all.
    """
    cells = [[" ".join(cell.splitlines()) for cell in row] for row in rows]
    # The first row is not passed as headers: tabulate pads headers, and terminals are narrow.
    text = tabulate.tabulate(
        cells,
        tablefmt="plain",
        colalign=_alignments(len(rows[0]), text_columns),
        disable_numparse=True,
    )
    return [line.rstrip() for line in text.split("\n")]


def markdown_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: Collection[int] | None = None,
) -> list[str]:
    """Return the lines of a Markdown table; the cells are Markdown, escaped by the caller.

    Columns are aligned as in `plain_table`.
    """
    text = tabulate.tabulate(
        rows,
        headers=head,
        tablefmt="pipe",
        colalign=_alignments(len(head), text_columns),
        disable_numparse=True,
    )
    return text.splitlines()


def _alignments(count: int, text_columns: Collection[int] | None) -> tuple[str, ...]:
    return tuple(
        "left" if text_columns is None or column in text_columns else "right"
        for column in range(count)
    )
