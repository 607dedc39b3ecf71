"""Draw the efficiency of each application by platform from kept runs, for docs/results.md."""

from __future__ import annotations

import pathlib

from kept.runs import read_run

from advisor.report.charts.pictures import cascade_chart
from advisor.report.page import package_file

DIRECTORY = pathlib.Path(__file__).parents[3] / "docs" / "charts"


def chart_file(run: str) -> pathlib.Path:
    """Return the path of the chart of a kept run."""
    return DIRECTORY / f"portability-{pathlib.Path(run).stem}.svg"


def render(run: str) -> str:
    """Return the chart as a file of its own, with the style sheet of the report's page in it."""
    found = read_run(run).results.portability
    assert found is not None, run
    picture = cascade_chart(found.applications)
    assert picture is not None, run
    head, rest = str(picture.drawing).split(">", 1)
    namespace = 'xmlns="http://www.w3.org/2000/svg"'
    return f"{head} {namespace}><style><![CDATA[\n{package_file('report.css')}]]></style>{rest}\n"
