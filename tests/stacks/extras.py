"""Render the extras and conflicts of `pyproject.toml` from the environments in `workflows.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tomlkit

from advisor.domain.workflow import Environment

#: Extras that belong to no environment of a workflow.
WRITTEN_BY_HAND = {"stack", "export", "notebook", "mcp", "dev"}


def render(pyproject: str, environments: Mapping[str, Environment]) -> str:
    """Return the text of `pyproject.toml` with one extra for each environment, by name.

    The rest of the text keeps its comments, order and layout.
    """
    document: Any = tomlkit.parse(pyproject)
    extras = document["project"]["optional-dependencies"]
    for name in [name for name in extras if name not in {*environments, *WRITTEN_BY_HAND}]:
        del extras[name]
    for name, environment in environments.items():
        if extras.get(name) != list(environment.requirements):
            extras[name] = _one_item_a_line(environment.requirements)
    # The order of the file, in which a new extra comes last.
    ordered = {name: environments[name] for name in extras if name in environments}
    pairs = [
        tomlkit.value(f'[{{ extra = "{one}" }}, {{ extra = "{other}" }}]')
        for one, other in conflicting_pairs(ordered)
    ]
    if document["tool"]["uv"]["conflicts"] != pairs:
        document["tool"]["uv"]["conflicts"] = _one_item_a_line(pairs)
    return tomlkit.dumps(document)


def conflicting_pairs(environments: Mapping[str, Environment]) -> list[tuple[str, str]]:
    """Return the pairs of extras that cannot be installed together, each pair once."""
    pairs: dict[frozenset[str], tuple[str, str]] = {}
    for name, environment in environments.items():
        for other in environment.conflicts:
            pairs.setdefault(frozenset((name, other)), (name, other))
    return list(pairs.values())


def _one_item_a_line(items: Iterable[Any]) -> Any:
    array = tomlkit.array()
    for item in items:
        array.add_line(item, indent="  ")
    array.add_line(indent="")
    return array
