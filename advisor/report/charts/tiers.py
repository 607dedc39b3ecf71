"""The letters of each arm on the five criteria as marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from advisor.domain.answer import RankedArm
from advisor.domain.rubric import LETTERS
from advisor.report.charts.marks import Mark
from advisor.report.charts.svg import (
    Drawing,
    Layout,
    Picture,
    circle,
    line,
    picture_of_rows,
    row_name,
    text,
)
from advisor.report.sections.ranking_cells import CRITERION_HEADS

HIGHEST_TIER = 3


def tier_chart(ranked: Sequence[RankedArm], marks: Mapping[str, Mark]) -> Picture:
    """Return a row for each arm with as many filled marks for each criterion as its tier."""

    def draw(layout: Layout) -> Drawing:
        column_width = (layout.width - layout.names) / len(CRITERION_HEADS)
        centres = {
            name: layout.names + (column + 0.5) * column_width
            for column, name in enumerate(CRITERION_HEADS)
        }
        parts = [
            text(centre, 14 + 14 * row, word, "tick")
            for name, centre in centres.items()
            for row, word in enumerate(name.split("_"))
        ]
        top = 24
        for row, entry in enumerate(ranked):
            bottom = top + (row + 1) * layout.row_height + 13
            y = bottom - 13
            parts += [
                row_name(layout, y, marks[entry.arm].name),
                line(0, bottom, layout.width, bottom, "grid"),
            ]
            for name, centre in centres.items():
                parts += _tier_marks(entry, name, centre, y)
        return top + 26 + len(ranked) * layout.row_height, parts

    title = "Tiers of each workflow on the five criteria: three marks are best"
    return picture_of_rows(title, draw)


def _tier_marks(entry: RankedArm, criterion: str, centre: float, y: float) -> list[Markup]:
    score = entry.scored.ratings[criterion]
    letter, name = LETTERS[score.tier], criterion.replace("_", " ")
    title = f"{entry.arm}, {name}: {letter}, {score.evidence}"
    filled = "tier" if score.evidence in {"measured", "imported"} else "tier unmeasured"
    return [
        circle(
            centre + (mark - 2) * 17, y, 6, filled if mark <= score.tier else "tier empty", title
        )
        for mark in range(1, HIGHEST_TIER + 1)
    ]
