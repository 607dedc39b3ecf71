"""Render a sweep as one self-contained HTML file with pictures and without scripts."""

from __future__ import annotations

import functools

import jinja2
from markupsafe import Markup

from advisor.report.page_files import package_file, security_policy
from advisor.report.sweeps import sweep_text
from advisor.report.sweeps.length_chart import length_charts
from advisor.report.sweeps.sweep_document import SweepDocument


def render(document: SweepDocument) -> str:
    """Return the page. The template escapes all text; a policy forbids any request."""
    style = package_file("report.css")
    headline, *lines = sweep_text.answer(document)
    return _template().render(
        document=document,
        headline=headline,
        lines=lines,
        policy=security_policy(style),
        style=Markup(style),  # noqa: S704 - a file of this package
        tables=sweep_text.tables(document),
        pictures=length_charts(document),
        notes=sweep_text.notes(document),
        footer=sweep_text.footer(document),
    )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(package_file("sweep.html.jinja"))
