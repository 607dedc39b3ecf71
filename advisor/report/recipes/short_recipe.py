"""The shortest code that runs an arm: its server after a load, else a few lines."""

from __future__ import annotations

import contextlib

from advisor.domain.answer import Answer, RankedArm
from advisor.errors import NoRecipeError
from advisor.report.recipes import script_recipe, server_recipe
from advisor.report.recipes.found_recipe import FoundRecipe, choose
from advisor.store.runs import Run


def render_short(answer: Answer, arm: RankedArm, found: FoundRecipe) -> str:
    """Return the server that was under load, or the snippet; raise `NoRecipeError` without one."""
    if answer.question.load is not None:
        return server_recipe.render_server(answer, arm, found)
    return script_recipe.render_snippet(answer, arm, found)


def render_recommended(answer: Answer, run: Run) -> str | None:
    """Return the recipe of the recommended arm; None without a recommendation or a recipe."""
    if answer.recommendation is None:
        return None
    with contextlib.suppress(NoRecipeError):
        return render_short(answer, *choose(answer, run, ""))
    return None
