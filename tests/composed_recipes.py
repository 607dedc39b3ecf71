"""Recipes composed for the request of a worker, and scripts made of them without a head."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import builders
import msgspec

from advisor.catalogue import rubric_files
from advisor.domain.recipe_facts import RecipeFacts
from advisor.domain.worker_events import Environment, Recipe
from advisor.domain.worker_settings import measured_fields
from advisor.recipes.compose import compose
from probes import protocol
from probes.runtime import environment

#: Names of the fields of a request that a recipe is composed from.
RULES = rubric_files.read_shipped_accuracy()
FIELDS = tuple(measured_fields(builders.question(), builders.arm("compiled"), 1, RULES, {}))


@functools.cache
def this_environment() -> Environment:
    """Return the environment of the tests, as a worker in it reports it."""
    return msgspec.convert(dataclasses.asdict(environment.read_environment()), Environment)


def facts(
    allowances: Mapping[int, Any] | None = None,
    integration: str = "",
    serving_command: str | None = None,
) -> RecipeFacts:
    """Return what a worker reports."""
    return RecipeFacts(
        allowances={1: (1e-7,)} if allowances is None else dict(allowances),
        integration=integration,
        serving_command=serving_command,
    )


def compose_recipe(request: protocol.Request, reported: RecipeFacts | None = None) -> Recipe:
    """Return the recipe of the workflow in `request`, which may lie outside of the package."""
    values = dataclasses.asdict(request)
    return compose(
        pathlib.Path(request.workflow_file),
        rubric_files.probes_directory(),
        {name: values[name] for name in FIELDS},
        {},
        this_environment(),
        reported or facts(),
    )


def script_of(recipe: Recipe) -> str:
    """Return the recipe as a script that knows no measured figures."""
    return "\n".join([*recipe.imports, "MEASURED = {}", recipe.source])
