"""Stage: read and check `rubric/*.toml` -> `Catalogue`."""

from __future__ import annotations

import importlib.resources
import math
import pathlib
import re
from typing import Any, TypeVar

import msgspec

from advisor.domain.catalogue import Catalogue, KnownGpu, Models, Panel, Presets
from advisor.domain.published import DecisionTree, Guideline, PublishedData
from advisor.domain.question import CRITERIA
from advisor.domain.rubric import Condition, Criterion, Rubric
from advisor.domain.workflow import CitedFact, DeclaredFacts, Integration, Workflow
from advisor.errors import CatalogueError

Content = TypeVar("Content")

#: The part of a msgspec message that locates a criterion and one of its tiers.
LOCATION = re.compile(r"\$\.criteria\[(\d+)\](?:\.tiers\[(\d+)\])?")
#: Facts that follow from a workflow's entry or from a measurement, not from a declaration.
DERIVED_FACTS = {
    "speedup_low",
    "fastest_over_it",
    "cold_build_seconds",
    "own_environment",
    "performance_portability",
}
#: Declared fields that no rule may use.
EXCLUDED_FIELDS = {"licence", "looked_up"}


class WorkflowsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of `workflows.toml`."""

    workflow: dict[str, dict[str, Any]]
    #: Environments that several workflows name.
    environment: dict[str, dict[str, Any]] = {}


class GpusFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of `gpus.toml`."""

    gpu: dict[str, KnownGpu]


class GuidelinesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of `guidelines.toml`."""

    guideline: tuple[Guideline, ...]


def rubric_directory() -> pathlib.Path:
    """Return the directory of the shipped TOML files."""
    return pathlib.Path(str(importlib.resources.files("rubric")))


def probes_directory() -> pathlib.Path:
    """Return the directory of the code that runs in the workers."""
    return pathlib.Path(str(importlib.resources.files("probes")))


def load(
    directory: pathlib.Path | None = None,
    *,
    probes: pathlib.Path | None = None,
    rubric: pathlib.Path | None = None,
) -> Catalogue:
    """Read and check all files; raise `CatalogueError` with the file and the location.

    `rubric` replaces the shipped `criteria.toml`. `probes` is the directory with the modules of the
    workflows.
    """
    directory = directory or rubric_directory()
    return Catalogue(
        workflows=read_workflows(directory, probes or probes_directory()),
        rubric=read_rubric(rubric or directory / "criteria.toml"),
        models=read(directory / "models.toml", Models),
        presets=read(directory / "presets.toml", Presets),
        gpus=read(directory / "gpus.toml", GpusFile).gpu,
        guidelines=read(directory / "guidelines.toml", GuidelinesFile).guideline,
        published=read(directory / "published.toml", PublishedData),
        panel=read_panel(directory / "panel.toml"),
        tree=read_tree(directory / "tree.toml"),
    )


def read(file: pathlib.Path, content: type[Content]) -> Content:
    """Decode one TOML file as `content`; raise `CatalogueError`."""
    try:
        return msgspec.toml.decode(file.read_bytes(), type=content)
    except OSError as problem:
        raise CatalogueError(
            f"{file} cannot be read: {problem.strerror}", "name a readable file"
        ) from problem
    except (msgspec.DecodeError, ValueError) as problem:
        raise CatalogueError(
            f"{file}: {problem}", "compare it with the schema: p3-advisor --spec"
        ) from problem


def read_workflows(directory: pathlib.Path, probes: pathlib.Path) -> tuple[Workflow, ...]:
    """Return the workflows in build order."""
    file = directory / "workflows.toml"
    verified = read(directory / "verified.toml", dict[str, tuple[str, ...]])
    content = read(file, WorkflowsFile)
    integrations = read(directory / "integration.toml", dict[str, Integration])
    workflows = []
    for id_, entry in content.workflow.items():
        known = {
            "id": id_,
            "has_probe": (probes / "workflows" / probe_file(id_)).is_file(),
            "verified": verified.get(id_, ()),
            "environment": find_environment(
                file, id_, entry.get("environment"), content.environment
            ),
            "environment_on": {
                device: find_environment(file, id_, name, content.environment)
                for device, name in entry.get("environment_on", {}).items()
            },
            "containers": [
                find_environment(file, id_, name, content.environment)
                for name in entry.get("containers", [])
            ],
        }
        try:
            workflow = msgspec.convert({**entry, **known}, Workflow, strict=True)
        except msgspec.ValidationError as problem:
            raise CatalogueError(
                f"{file}: workflow.{id_}: {problem}", "compare it with the other entries"
            ) from problem
        workflows.append(_with_integration(workflow, integrations.get(id_)))
    return tuple(sorted(workflows, key=lambda workflow: workflow.build_order))


def _with_integration(workflow: Workflow, integration: Integration | None) -> Workflow:
    """Return the workflow with its integration and the number of its lines."""
    if integration is None or not workflow.has_probe:
        return workflow
    counted = CitedFact(
        value=integration.lines_changed, source="counted from the lines in rubric/integration.toml"
    )
    declared = msgspec.structs.replace(workflow.declared, lines_changed=counted)
    return msgspec.structs.replace(workflow, integration=integration, declared=declared)


def read_panel(file: pathlib.Path) -> Panel:
    """Read the models of the survey; ids must be unique, with one source for each model."""
    panel = read(file, Panel)
    names = [model.id for model in panel.model]
    for model in panel.model:
        if names.count(model.id) > 1 or (model.config is None) == (model.factory is None):
            what = f"{file}: {model.id} must occur once, with either a config or a factory"
            raise CatalogueError(what, "compare it with the other entries")
    return panel


def find_environment(
    file: pathlib.Path, workflow: str, given: object, tables: dict[str, dict[str, Any]]
) -> object:
    """Return the environment that an entry contains, or the one of `tables` that it names."""
    if isinstance(given, dict):
        return {"name": workflow, **given} if given.get("kind") == "own" else given
    if isinstance(given, str) and given in tables:
        return {"name": given, **tables[given]}
    raise CatalogueError(
        f"{file}: workflow.{workflow}: unknown environment {given!r}",
        "add a table [environment.NAME]",
    )


def read_tree(file: pathlib.Path) -> DecisionTree:
    """Read the decision tree; every branch must end at a leaf, without cycles."""
    tree = read(file, DecisionTree)

    def check_branch(name: str, ancestors: tuple[str, ...]) -> None:
        if name.startswith("=") and name[1:] in tree.leaf:
            return
        if name not in tree.node or name in ancestors:
            raise CatalogueError(
                f"{file}: {name!r} is neither a node nor a leaf, or is part of a cycle",
                "compare it with the other entries",
            )
        for branch in (tree.node[name].yes, tree.node[name].no):
            check_branch(branch, (*ancestors, name))

    check_branch(tree.first, ())
    return tree


def probe_file(workflow: str) -> str:
    """Return the file name of the workflow's module in `probes/workflows`."""
    return workflow.replace("-", "_") + ".py"


class GlossaryFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`glossary.toml`."""

    term: dict[str, str]


def read_glossary(file: pathlib.Path) -> dict[str, str]:
    """Read the terms of the program and their meanings."""
    return read(file, GlossaryFile).term


def read_rubric(file: pathlib.Path) -> Rubric:
    """Read the criteria and check the facts and the tiers, which the schema cannot."""
    rubric = _decode_rubric(file)
    if sorted(criterion.id for criterion in rubric.criteria) != sorted(CRITERIA):
        raise _invalid(file, f"the criteria must be {', '.join(CRITERIA)}")
    unknown = set(rubric.facts) - (
        {*DeclaredFacts.__struct_fields__, *DERIVED_FACTS} - EXCLUDED_FIELDS
    )
    if unknown:
        raise _invalid(file, f"unknown facts: {', '.join(sorted(unknown))}")
    text = file.read_text(encoding="utf-8")
    for number, criterion in enumerate(rubric.criteria):
        _check_tiers(f"{file}:{table_line(text, number, None)}", criterion)
        for tier, rule in enumerate(criterion.tiers):
            where = f"{file}:{table_line(text, number, tier)}"
            for condition in rule.all:
                _check_condition(where, f"{criterion.id}, tier {rule.tier}", condition, rubric)
    return rubric


def _decode_rubric(file: pathlib.Path) -> Rubric:
    """Decode the file; name the line of the table when a value is invalid."""
    tables = read(file, dict[str, Any])
    try:
        return msgspec.convert(tables, Rubric, strict=True)
    except msgspec.ValidationError as problem:
        location = LOCATION.search(str(problem))
        line = None
        if location:
            tier = int(location[2]) if location[2] else None
            line = table_line(file.read_text(encoding="utf-8"), int(location[1]), tier)
        where = f"{file}:{line}" if line else str(file)
        raise CatalogueError(
            f"{where}: {problem}", "compare it with the schema: p3-advisor --spec"
        ) from problem


def table_line(text: str, criterion: int, tier: int | None) -> int | None:
    """Return the line of a criterion's table, or of one of its tiers; both are counted from 0."""
    criteria, tiers = -1, -1
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() == "[[criteria]]":
            criteria, tiers = criteria + 1, -1
        elif line.strip() == "[[criteria.tiers]]":
            tiers += 1
        else:
            continue
        if criteria == criterion and tiers == (-1 if tier is None else tier):
            return number
    return None


def _check_tiers(file: str, criterion: Criterion) -> None:
    if [rule.tier for rule in criterion.tiers] != [3, 2, 1]:
        raise _invalid(file, f"{criterion.id}: the tiers must be 3, 2, 1 in this order")
    if criterion.tiers[-1].all or not all(rule.all for rule in criterion.tiers[:-1]):
        raise _invalid(
            file,
            f"{criterion.id}: tiers 3 and 2 need conditions, and tier 1 must have none",
        )


def _check_condition(file: str, place: str, condition: Condition, rubric: Rubric) -> None:
    if condition.fact not in rubric.facts:
        raise _invalid(
            file, f"{place}: unknown fact {condition.fact!r}; known are {', '.join(rubric.facts)}"
        )
    comparisons = [condition.at_least, condition.at_most, condition.is_one_of]
    if sum(comparison is not None for comparison in comparisons) != 1:
        raise _invalid(
            file, f"{place}: {condition.fact} needs exactly one of at_least, at_most, is_one_of"
        )
    if any(
        isinstance(comparison, float) and not math.isfinite(comparison)
        for comparison in comparisons
    ):
        raise _invalid(file, f"{place}: the threshold of {condition.fact} is not a finite number")


def _invalid(file: pathlib.Path | str, what: str) -> CatalogueError:
    return CatalogueError(f"{file}: {what}", "compare it with the shipped rubric/criteria.toml")
