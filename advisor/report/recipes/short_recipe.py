"""The shortest code that runs an arm: its server after a load, else a few lines."""

from __future__ import annotations

import contextlib
import pathlib

from advisor.errors import NoRecipeError
from advisor.pipeline.decision import Decision
from advisor.report.documents.document import RunDocument
from advisor.report.documents.workflow_entry import WorkflowEntry
from advisor.report.recipes import script_recipe, server_recipe
from advisor.report.recipes.found_recipe import FoundRecipe, choose


def render_short(
    document: RunDocument, entry: WorkflowEntry, found: FoundRecipe, probes: pathlib.Path
) -> str:
    """Return the server that was under load, or the snippet; raise `NoRecipeError` without one."""
    if document.question.load is not None:
        return server_recipe.render_server(document, entry, found, probes)
    return script_recipe.render_snippet(document, entry, found)


def render_recommended(
    document: RunDocument, decision: Decision, probes: pathlib.Path
) -> str | None:
    """Return the recipe of the recommended arm, the short one where there is one.

    None without a recommendation or a recipe.
    """
    if document.recommendation is None:
        return None
    with contextlib.suppress(NoRecipeError):
        entry, found = choose(document, decision, "", probes)
        with contextlib.suppress(NoRecipeError):
            return render_short(document, entry, found, probes)
        return script_recipe.render(document, entry, found)
    return None
