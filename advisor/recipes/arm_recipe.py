"""The recipe of an arm, from what its worker reported, and its code beside that of the baseline."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from packaging.utils import canonicalize_name

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.errors import NoRecipeError, VerificationError
from advisor.domain.model import FactoryModel, Model, TransformersModel
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.snippet import Snippet, SnippetPair
from advisor.recipes.server import started_command
from advisor.recipes.snippet import MAIN_GUARD, compose_reported, imported_packages, split_imports
from advisor.store.files import read_regular
from advisor.store.runs import Run
from probes.events import SnippetFacts
from probes.facts import EACH_CALL, InterpreterFacts

#: Folder of the environment that writes quantised checkpoints, as the lines of its arms name it.
QUANTISER = "llm-compressor"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArmRecipe(SnippetFacts):
    """The recipe of an arm. The command of a server that was under load is the one it started with.

    Requirements are pinned to a version, and `python` to a minor version; both are empty for an
    answer without its run.
    """

    requirements: tuple[str, ...] = ()
    python: str = ""


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


def compose_pair(answer: Answer, run: Run, ranked: RankedArm, lines: str = "") -> SnippetPair:
    """Return the code of an arm and of the baseline as `recipe` prints it below its head.

    `lines` follow the imports of the arm's own ones. Raise `VerificationError` for what no snippet
    repeats, and `NoRecipeError` for an arm without one.
    """
    shape, plan, question = answer.code_shape(ranked), run.state().plan, answer.question
    cell = next((each for each in ranked.cells if each.shape == shape), None)
    planned, baseline = next(each for each in plan.arms if each.id == ranked.arm), plan.baseline
    if question.serves:
        raise VerificationError(
            f"{planned.id} was measured as a server under load, which no snippet repeats",
            "measure it again with p3-advisor recommend --task serve",
        )
    if cell is None:
        raise VerificationError(f"{ranked.arm} was not measured to its end", "measure it again")
    recipe, other = find_recipe(run, planned.id), find_recipe(run, baseline.id)
    if recipe is None or other is None:
        missing = planned.id if recipe is None else baseline.id
        raise NoRecipeError(f"no recipe is stored for {missing}", "measure it with this version")
    own = _compose(question, planned, shape.batch_size, with_lines(recipe, lines))
    compared = _compose(question, baseline, shape.batch_size, other)
    if isinstance(question.model, TransformersModel) and question.model.weights == "random":
        # Another version of the library may make other weights from the same seed.
        compared = msgspec.structs.replace(compared, python=own.python)
    unchecked = {
        each.shape for each in ranked.measured.correctness if each.accuracy_class == "unchecked"
    }
    return SnippetPair(
        planned=planned,
        own=own,
        baseline=compared,
        allowed=None if shape in unchecked else recipe.allowances.get(str(shape)),
        one_by_one=question.device == "cuda" and MAIN_GUARD in own.text,
        cell=cell,
        requirements=recipe.requirements,
    )


def with_lines(recipe: ArmRecipe, lines: str) -> ArmRecipe:
    imports, steps = split_imports(recipe.integration)
    integration = "\n".join([*imports, "", *lines.split("\n"), *steps])
    return dataclasses.replace(recipe, integration=integration) if lines else recipe


def _compose(question: Question, planned: Arm, size: int, recipe: ArmRecipe) -> Snippet:
    """Return the code; raise `VerificationError` where it has no call."""
    text = compose_reported(question, size, recipe)
    if not EACH_CALL.search(text):
        raise VerificationError(
            f"{planned.id} only serves: its snippet has no call to repeat",
            "measure it with p3-advisor recommend --task serve",
        )
    quantiser = planned.quantiser
    folders = {QUANTISER: pathlib.Path(quantiser).parents[1]} if quantiser else {}
    return Snippet(text=text, python=planned.python, folders=folders)
