"""What the recipe of an arm needs: what its worker reported, from the stored run."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from packaging.utils import canonicalize_name

from advisor.ask.catalogue_files import read_shipped
from advisor.decide.serving import started_command
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.errors import NoRecipeError
from advisor.domain.model import FactoryModel, Model
from advisor.recipes.snippet import compose_reported, imported_packages
from advisor.report.ranking import find_arms
from advisor.store.files import read_regular
from advisor.store.runs import Run
from probes.events import SnippetFacts
from probes.facts import InterpreterFacts


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArmRecipe(SnippetFacts):
    """The recipe of an arm. The command of a server that was under load is the one it started with.

    Requirements are pinned to a version, and `python` to a minor version; both are empty for an
    answer without its run.
    """

    requirements: tuple[str, ...] = ()
    python: str = ""


def choose_recipe(
    answer: Answer, run: Run | None, name: str, batch_size: int | None = None
) -> tuple[RankedArm, ArmRecipe]:
    """Return the arm of this name, the recommended one for an empty name, with its recipe.

    The arm has its figures at `batch_size` alone, if it is given. Without the run the recipe has
    the lines of the answer. Raise `NoRecipeError` where there is none.
    """
    catalogue = run.header().catalogue if run else read_shipped()
    has_choice = bool(name) or answer.recommendation is not None
    for ranked in find_arms(answer, name, catalogue.by_id) if has_choice else ():
        if not isinstance(ranked, RankedArm):
            continue
        served = answer.served.get(ranked.arm)
        lines = ArmRecipe(
            allowances={},
            integration=ranked.measured.integration,
            serving_command=served.command if served else None,
        )
        recipe = find_recipe(run, ranked.arm) if run else lines
        if recipe is not None and (run or recipe.integration or recipe.serving_command):
            return (ranked if batch_size is None else ranked.at(batch_size)), recipe
    raise _no_recipe(answer, name)


def _no_recipe(answer: Answer, name: str) -> NoRecipeError:
    available = [each.arm for each in answer.ranking if each.measured.integration]
    problem = answer.problem
    what = f"no recipe is stored for {name or 'the recommended workflow'}"
    next_step = "measure it with this version"
    if not name and answer.recommendation is None:
        reason = f": {problem.what}" if problem else ""
        what = f"run {answer.run_id} has no recommendation{reason}"
        next_step = "measure again, or name another run: p3-advisor history lists them"
    if not answer.finished:
        next_step = f"wait until the run ends, or go on: p3-advisor resume {answer.run_id}"
    elif available:
        next_step = f"name one of its arms: {', '.join(available)}"
    return NoRecipeError(what, next_step)


def find_recipe(run: Run, arm: str) -> ArmRecipe | None:
    """Return what the last process of an arm reported; None if none did, or no server answered."""
    question, state = run.header().question, run.state()
    for process in reversed(state.processes.get(arm, ())):
        facts, imported = process.snippet_facts, process.imported
        if facts is not None and imported is not None and imported.environment is not None:
            break
    else:
        return None
    command = started_command(process, question) if question.serves else facts.serving_command
    if question.serves and not command:
        return None
    environment, packages = imported.environment, set[str]()
    with contextlib.suppress(NoRecipeError):  # the arm may have a server all the same
        snippet = compose_reported(question, question.batch_sizes[0], facts)
        if not question.serves:
            packages = imported_packages(snippet) | _packages_of_user(question.model)
    planned = next(each for each in state.plan.arms if each.id == arm)
    recipe: dict[str, Any] = {**vars(facts), "serving_command": command}
    return ArmRecipe(
        **recipe,
        requirements=tuple(pin(packages, imported.versions, environment, planned.extras)),
        python=f"=={environment.python}.*",
    )


def _packages_of_user(model: Model) -> set[str]:
    """Return what the file of the user's function imports; nothing if it cannot be read."""
    if isinstance(model, FactoryModel):
        file = pathlib.Path(model.name.rpartition(":")[0])
        with contextlib.suppress(OSError, ValueError, NoRecipeError):
            return imported_packages(read_regular(file).decode())
    return set()


def pin(
    packages: Collection[str],
    versions: Collection[str],
    environment: InterpreterFacts,
    extras: Mapping[str, Sequence[str]],
) -> list[str]:
    """Return a requirement for each distribution that provides a package or is in `versions`.

    `packages` are names that are imported; `extras` are the optional dependencies of distributions.
    A local version such as `+cpu` is left out, because the default index does not have it.
    """
    installed = {
        canonicalize_name(name): version for name, version in environment.distributions.items()
    }
    needed = {min(found) for name in packages if (found := environment.providers.get(name))}
    needed |= set(versions)
    return sorted(
        f"{_with_extras(name, extras)}=={installed[canonicalize_name(name)].partition('+')[0]}"
        for name in needed
        if canonicalize_name(name) in installed
    )


def _with_extras(name: str, extras: Mapping[str, Sequence[str]]) -> str:
    return f"{name}[{','.join(extras[name])}]" if name in extras else name
