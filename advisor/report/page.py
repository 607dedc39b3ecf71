"""Render a run as one self-contained HTML file with pictures, style and script.

The template escapes all text from models, stacks and logs; only the style sheet and the script of
this package are inserted unescaped. A content security policy forbids any request.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from advisor.domain import constraints, text
from advisor.domain.answer import Answer
from advisor.report import pictures
from advisor.report.advice_lines import describe_bottlenecks
from advisor.report.answer_lines import answer_lines, code_lines
from advisor.report.cost import describe_new_shape, memory_source
from advisor.report.formatting import ERROR_LEGEND, accuracy_cell, accuracy_line
from advisor.report.ranking import ranking_columns, write_fact
from advisor.report.setup_facts import setup_facts
from advisor.report.tables import list_sections, list_tables
from advisor.report.text_report import measured_line


def render(answer: Answer, recipe: str | None = None) -> str:
    """Return the HTML page; `recipe` is what the command prints for the recommended arm."""
    ranking = answer.ranking
    style, code = package_file("report.css"), package_file("report.js")
    # It allows this style sheet and script, and no request.
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(code)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    units = {cell.throughput.unit for each in ranking for cell in each.cells}
    return _template().render(
        answer=answer,
        answer_lines=[*answer_lines(answer), *measured_line(answer)],
        code_lines=code_lines(answer),
        policy=policy,
        style=Markup(style),  # noqa: S704 - a file of this package
        code=Markup(code),  # noqa: S704 - a file of this package
        ranking_data=_ranking_data(answer),
        tables=list_tables(answer),
        sections={section.name: section.lines for section in list_sections(answer)},
        ranking=ranking,
        criteria={name: name.replace("_", " ") for name in constraints.CRITERIA},
        pillars=constraints.PILLARS,
        letters=constraints.LETTERS,
        columns=ranking_columns(answer, has_intervals=True),
        # On GPUs, the throughput of a forward pass is of calls that do not wait for each other.
        has_streamed_calls=answer.question.device == "cuda" and units == {"samples/s"},
        pictures=pictures.draw(answer),
        bottlenecks=describe_bottlenecks(answer),
        memory_sources=sorted(
            {memory_source(answer, each) for each in answer.results.measurements}
        ),
        setup_facts=setup_facts(answer),
        recipe=recipe,
    )


def _ranking_data(answer: Answer) -> dict[str, Any]:
    """Return what the page's script ranks."""
    arms = [
        {
            "arm": each.arm,
            "bonus": each.scored.bonus,
            "grades": [each.scored.ratings[name].grade for name in constraints.CRITERIA],
            "speedup": each.scored.speedup,
            "barred": bool(each.scored.failures),
            "unproven": each.scored.unproven,
        }
        for each in answer.ranking
    ]
    weights = {name: getattr(answer.question.priorities, name) for name in constraints.CRITERIA}
    return {
        "run": answer.run_id,
        "pillars": constraints.PILLARS,
        "further_criteria": constraints.FURTHER_CRITERIA,
        "weights": weights,
        # The part of `--priority` for the criteria whose weight is not the default.
        "further_weights": "".join(
            f",{name}={weights[name]!r}"
            for name in constraints.FURTHER_CRITERIA
            if weights[name] != getattr(constraints.DEFAULT_PRIORITIES, name)
        ),
        "arms": arms,
    }


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "accuracy": accuracy_cell,
        "accuracy_line": accuracy_line,
        "call_milliseconds": text.format_call_milliseconds,
        "speed": text.write_speedup,
        "fact": write_fact,
        "mebibytes": text.format_mebibytes,
        "new_shape": describe_new_shape,
        "number": text.format_number,
        "seconds": text.format_seconds,
        "share": text.format_share,
        "unbroken": text.keep_units,
    }
    environment.policies["json.dumps_kwargs"] = {}  # keys in their order
    environment.globals["MISSING"] = text.MISSING
    environment.globals["error_legend"] = ERROR_LEGEND
    return environment.from_string(package_file("report.html.jinja"))


def package_file(name: str) -> str:
    return (resources.files("advisor.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
