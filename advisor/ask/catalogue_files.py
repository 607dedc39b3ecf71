"""Read the files of the catalogue and check them."""

from __future__ import annotations

import functools
import importlib.resources
import pathlib
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from advisor.domain import catalogue
from advisor.domain.accuracy import AccuracyRules
from advisor.domain.errors import CatalogueError, reported_as
from advisor.domain.plan import probe_file
from advisor.domain.rubric import Guideline, Rubric
from advisor.domain.serving import ServingRules
from advisor.domain.workflow import CountedLines, EngineMemory, Workflow

#: The source of each number of lines that is declared without one; a test counts them.
COUNTED = "counted in the lines that integration() of the probe returns"
#: What a workflow with a probe has until `tests/generate.py` counts its lines.
NOT_COUNTED = CountedLines(lines_changed=0, source="")
#: Content of `gpus.toml` and of `guidelines.toml`.
GpusFile = dict[Literal["gpu"], dict[str, catalogue.KnownGpu]]
GuidelinesFile = dict[Literal["guideline"], tuple[Guideline, ...]]


def catalogue_directory() -> pathlib.Path:
    return pathlib.Path(str(importlib.resources.files("rubric")))


def probes_directory() -> pathlib.Path:
    return pathlib.Path(str(importlib.resources.files("probes")))


def load(
    directory: pathlib.Path | None = None,
    *,
    probes: pathlib.Path | None = None,
    rubric: pathlib.Path | None = None,
) -> catalogue.Catalogue:
    """Read and check all files; raise `CatalogueError` with the file and the location.

    `rubric` replaces the shipped `criteria.toml`. `probes` is the directory with the modules of the
    workflows.
    """
    directory = directory or catalogue_directory()
    return catalogue.Catalogue(
        workflows=read_workflows(directory, probes or probes_directory()),
        rubric=read(rubric or directory / "criteria.toml", Rubric),
        models=read(directory / "models.toml", catalogue.Models),
        presets=_read_presets(directory / "presets.toml"),
        gpus=read(directory / "gpus.toml", GpusFile)["gpu"],
        guidelines=read(directory / "guidelines.toml", GuidelinesFile)["guideline"],
        earlier_runs=read(
            directory / "earlier_runs.toml", dict[str, dict[str, catalogue.EarlierRuns]]
        ),
        accuracy=read(directory / "accuracy.toml", AccuracyRules),
        serving=read(directory / "serving.toml", ServingRules),
        engine_memory=read(directory / "engine_memory.toml", dict[str, EngineMemory]),
        starts=read(directory / "starts.toml", dict[str, catalogue.StartWay]),
        improvements=read(directory / "improvements.toml", catalogue.Improvements),
    )


def _read_presets(file: pathlib.Path) -> catalogue.Presets:
    """Read the presets, with the names of their budgets from those of the tables."""
    presets = read(file, catalogue.Presets)
    named = {
        name: msgspec.structs.replace(each, name=name) for name, each in presets.budgets.items()
    }
    return msgspec.structs.replace(presets, budgets=named)


def read_workflows(directory: pathlib.Path, probes: pathlib.Path) -> tuple[Workflow, ...]:
    """Return the workflows in build order."""
    file = directory / "workflows.toml"
    verified = read(directory / "verified.toml", dict[str, tuple[str, ...]])
    tables = read(file, dict[Literal["workflow", "environment"], dict[str, dict[str, Any]]])
    integrations = read(directory / "integration.toml", dict[str, CountedLines])
    workflows = []
    for id_, table in tables.get("workflow", {}).items():
        has_probe = (probes / "workflows" / probe_file(id_)).is_file()
        integration = integrations.get(id_, NOT_COUNTED) if has_probe else None
        _cite_counted_lines(table, integration)
        resolved = _with_environments(file, id_, table, tables.get("environment", {}))
        derived = {"id": id_, "has_probe": has_probe, "verified": verified.get(id_, ())}
        what = f"{file}: workflow.{id_}"
        with reported_as(CatalogueError, what, "compare it with the other entries", ValueError):
            workflow = convert({**resolved, **derived}, Workflow)
        if not workflow.has_probe and workflow.not_measured is None:
            raise CatalogueError(
                f"{what}: there is no module probes/workflows/{probe_file(id_)}",
                "add it, or give the reason in not_measured",
            )
        workflows.append(msgspec.structs.replace(workflow, integration=integration))
    return tuple(sorted(workflows, key=lambda workflow: workflow.build_order))


def _with_environments(
    file: pathlib.Path, id_: str, table: dict[str, Any], tables: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    def find(named: object) -> object:
        if isinstance(named, dict):
            return {"name": id_, **named} if named.get("kind") == "own" else named
        if isinstance(named, str) and named in tables:
            return {"name": named, **tables[named]}
        raise CatalogueError(
            f"{file}: workflow.{id_}: unknown environment {named!r}",
            "add a table [environment.NAME]",
        )

    def replace(table: dict[str, Any], field: str) -> dict[str, Any]:
        return {**table, field: find(table[field])} if field in table else table

    return {
        **replace(table, "load_generator"),
        "environment": find(table.get("environment")),
        "environment_on": {
            key: find(each) for key, each in table.get("environment_on", {}).items()
        },
        "arms": {key: replace(each, "quantiser") for key, each in table.get("arms", {}).items()},
    }


def _cite_counted_lines(table: Mapping[str, Any], integration: CountedLines | None) -> None:
    """Set the lines of `integration`, and the source of all lines that are declared as a number."""
    declared = table.get("declared", {})
    if integration is not None:
        declared.setdefault("lines_changed", integration.lines_changed)
    of_arms = (arm.get("declared", {}) for arm in table.get("arms", {}).values())
    of_cases = (case.get("facts", {}) for case in table.get("declared_where", ()))
    for facts in (declared, *of_arms, *of_cases):
        if isinstance(lines := facts.get("lines_changed"), int):
            facts["lines_changed"] = {"value": lines, "source": COUNTED}


def read_glossary() -> dict[str, str]:
    return read(catalogue_directory() / "glossary.toml", dict[str, dict[str, str]])["term"]


@functools.cache
def read_shipped() -> catalogue.Catalogue:
    """Read what this version knows and how it judges, for answers without a context."""
    return load()


Content = TypeVar("Content")


def read(file: pathlib.Path, content: type[Content]) -> Content:
    """Decode one TOML file as `content`; raise `CatalogueError`."""
    with reported_as(CatalogueError, f"{file} cannot be read", "name a readable file"):
        text = file.read_bytes()
    next_step = "compare it with the schema: p3-advisor --spec"
    with reported_as(CatalogueError, f"{file}", next_step, (ValueError, RecursionError)):
        return convert(msgspec.toml.decode(text), content)


def convert(tables: object, content: type[Content]) -> Content:
    """Return the values of a file; raise `ValueError` for a field that they do not have.

    In a stored run, which a later version may have written, further fields are ignored.
    """
    found = msgspec.convert(tables, content, str_keys=True)
    _refuse_unknown(tables, found, "$")
    return found


def _refuse_unknown(raw: Any, found: object, place: str) -> None:  # noqa: ANN401 - any file
    if isinstance(found, msgspec.Struct):
        for name in raw.keys() - {found.__struct_config__.tag_field}:
            if name not in found.__struct_fields__:
                raise ValueError(f"unknown field `{name}` - at `{place}`")
            _refuse_unknown(raw[name], getattr(found, name), f"{place}.{name}")
    elif isinstance(found, dict):
        for name, value in zip(raw, found.values(), strict=True):
            _refuse_unknown(raw[name], value, f"{place}.{name}")
    elif isinstance(found, (list, tuple)):
        for index, value in enumerate(found):
            _refuse_unknown(raw[index], value, f"{place}[{index}]")
