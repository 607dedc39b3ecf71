"""Fill the tables of docs/results.md and the README of `evidence/`.

Both name their tables in comments, `<!-- table: KIND RUN ... -->`, each with a kind of `KINDS` and
kept runs of `evidence/`. A table ends at `<!-- end -->`; the text between them is not generated.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

from kept.run_serving import serving_section
from kept.run_tables import (
    EVIDENCE_LINK,
    failures_of,
    forward_section,
    portability_section,
    quantised_section,
    race_table,
    text_section,
    text_table,
)
from kept.runs import EVIDENCE
from kept.source_systems import systems_section

RESULTS = pathlib.Path(__file__).parents[3] / "docs" / "results.md"
PAGES = (RESULTS, EVIDENCE / "README.md")
TABLE = re.compile(r"<!-- table: ([\w-]+)([^>]*) -->\n.*?<!-- end -->\n", re.DOTALL)
KINDS: dict[str, Callable[..., list[str]]] = {
    "failures": failures_of,
    "forward": forward_section,
    "portability": portability_section,
    "quantised": quantised_section,
    "race": race_table,
    "serving": serving_section,
    "systems": systems_section,
    "text": text_section,
    "text-race": text_table,
}


def render_page(page: pathlib.Path) -> str:
    """Return the page's text with its present tables."""
    base = "" if page.parent == EVIDENCE else f"../{EVIDENCE_LINK}/"

    def fill(found: re.Match[str]) -> str:
        lines = "\n".join(KINDS[found[1]](*found[2].split()))
        lines = lines.replace(f"]({EVIDENCE_LINK}/", f"]({base}")
        return f"<!-- table: {found[1]}{found[2]} -->\n{lines}\n<!-- end -->\n"

    return TABLE.sub(fill, page.read_text(encoding="utf-8"))


def runs_on_platforms() -> list[str]:
    """Return the runs whose portability docs/results.md shows."""
    tables = TABLE.findall(RESULTS.read_text(encoding="utf-8"))
    return [runs.strip() for kind, runs in tables if kind == "portability"]
