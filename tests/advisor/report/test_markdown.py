"""The report as Markdown."""

from __future__ import annotations

import re

import builders
import built_answers
from built_answers import with_advice, with_measurement, with_score

from advisor.report import markdown

HOSTILE = "|</td>`=cmd()\n# x"


def cells(line: str) -> list[str]:
    """Return the cells of a table's line, without escaped separators as ends."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_the_report_has_the_answer_the_ranking_and_the_failures() -> None:
    lines = markdown.render(built_answers.answer()).splitlines()
    assert lines[0].startswith("## Use Compiled for synthetic/ffn\\@8x16")
    rows = [cells(line) for line in lines if line.startswith("|")]
    assert rows[2][:3] == ["1", "compiled", "4.00x \\(3.91 to 4.09\\)"]
    assert lines[lines.index("- broken: crashed, it crashed") + 1] == "  - next: update it"


def test_hostile_text_stays_in_its_cell() -> None:
    unmeasured = builders.unmeasured(arm=HOSTILE, reason=HOSTILE)
    made = built_answers.answer(unmeasured=(unmeasured,))
    made = with_advice(with_score(made, arm=HOSTILE), arm=HOSTILE)
    text = markdown.render(with_measurement(made, arm=HOSTILE))
    assert "# x" in text
    assert "</td>" not in text
    assert not any(line.startswith("# x") for line in text.splitlines())
    ranking = [line for line in text.splitlines() if line.startswith("|")][:4]
    assert len({len(cells(line)) for line in ranking}) == 1
