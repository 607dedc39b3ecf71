"""The report as one HTML file that asks nobody for anything: pictures, style and script are in it, and a policy forbids the rest. Pure.

Whatever a model, a stack or a log has said is escaped by the template; the two texts that are not
escaped are files of ours.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from importlib import resources
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from advisor.domain.question import CRITERIA, FURTHER_CRITERIA, PILLARS, Priorities
from advisor.report import charts
from advisor.report.document import RunDocument, WorkflowEntry
from advisor.report.explanation import tell_value
from advisor.report.setup_facts import circumstances
from advisor.report.table import CRITERIA as SHORT
from advisor.report.table import LETTERS, flip_line, headline, stopped

#: What would end a script element, or begin one, inside it.
IN_A_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def render(document: RunDocument, script: str | None = None) -> str:
    """Return the page; `script` is the recipe of the recommended arm."""
    ranked = [entry for entry in document.workflows if entry.rank is not None]
    sizes = [cell.batch_size for cell in ranked[0].cells] if ranked else []
    style, code = _own_file("report.css"), _own_file("report.js")
    left_out = [entry for entry in document.workflows if entry.rank is None]
    return _template().render(
        document=document,
        advice=document.recommendation,
        headline=headline(document),
        stopped=stopped(document),
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(code)}'; base-uri 'none'; form-action 'none'",
        style=Markup(style),  # noqa: S704 - a file of ours
        code=Markup(code),  # noqa: S704 - a file of ours
        arms=Markup(_arms(document, ranked)),  # noqa: S704 - JSON without any sign that HTML knows
        ranked=ranked,
        left_out=left_out,
        sizes=sizes,
        criteria=CRITERIA,
        pillars=PILLARS,
        priorities={name: getattr(document.question.priorities, name) for name in CRITERIA},
        letters=LETTERS,
        short=dict(SHORT),
        flips=_flips(document),
        pictures=_pictures(document, ranked, sizes),
        portability=document.portability,
        memory_sources=sorted(
            {entry.memory_bytes.source for entry in ranked if entry.memory_bytes}
        ),
        circumstances=circumstances(document),
        script=script,
        tell=tell_value,
        contents=_contents(document, sizes=sizes, ranked=ranked, left_out=left_out, script=script),
    )


def _contents(document: RunDocument, **given: object) -> list[tuple[str, str]]:
    """Return the sections that the page has, with their titles."""
    sections = [
        ("why", "Why", document.recommendation),
        ("comparison", "Comparison", given["ranked"]),
        ("weights", "What would change it", given["ranked"]),
        ("speed", "Speed", given["sizes"]),
        ("build", "Build", given["sizes"]),
        ("limits", "Limits and memory", given["sizes"]),
        ("platforms", "Platforms", document.portability),
        ("evidence", "Evidence", given["ranked"]),
        ("left-out", "Not measured", given["left_out"]),
        ("method", "Method", document),
        ("recipe", "Recipe", given["script"]),
    ]
    return [(name, title) for name, title, there in sections if there]


def _flips(document: RunDocument) -> list[str]:
    advice, priorities = document.recommendation, document.question.priorities
    return (
        [flip_line(flip, getattr(priorities, flip.criterion)) for flip in advice.flips]
        if advice
        else []
    )


def _pictures(
    document: RunDocument, ranked: list[WorkflowEntry], sizes: list[int]
) -> dict[str, Any]:
    applications = document.portability.applications if document.portability else ()
    noise = document.race.noise_floor if document.race else None
    return {
        "tiers": charts.tiers(ranked),
        "speedups": [
            charts.speedups(ranked, place, size, noise) for place, size in enumerate(sizes)
        ],
        "build": charts.build_cost(ranked),
        "cascade": charts.cascade(applications) if applications else None,
        "navigation": charts.navigation(applications) if applications else None,
    }


def _arms(document: RunDocument, ranked: list[WorkflowEntry]) -> str:
    """Return what the page's script ranks, as JSON that can stand inside a script element."""
    arms = [
        {
            "arm": entry.arm,
            "tiers": [(entry.scores or {})[name].tier for name in CRITERIA],
            "speedup": entry.speedup.value if entry.speedup else 0,
            "barred": bool(entry.fails),
        }
        for entry in ranked
    ]
    weights = {name: getattr(document.question.priorities, name) for name in CRITERIA}
    # Part of the command only where it would otherwise be taken for what is usual.
    usual = msgspec.structs.asdict(Priorities(performance=100, productivity=0, portability=0))
    further = "".join(
        f",{name}={weights[name]!r}" for name in FURTHER_CRITERIA if weights[name] != usual[name]
    )
    text = json.dumps(
        {"run": document.run_id, "weights": weights, "further": further, "arms": arms}
    )
    return "".join(IN_A_SCRIPT.get(sign, sign) for sign in text)


def _own_file(name: str) -> str:
    return (resources.files("advisor.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_own_file("report.html.jinja"))
