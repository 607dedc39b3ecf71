"""The recipe of an arm, composed from the stored run and the source of the probes.

Runs of earlier versions store it.
"""

from __future__ import annotations

import dataclasses
import pathlib

from advisor.catalogue.rubric_files import (
    probe_file,
)
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.recipe_facts import InputFacts
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.worker_events import Recipe
from advisor.domain.worker_settings import measured_fields, thread_count
from advisor.errors import NoRecipeError
from advisor.recipes.bundler import CannotBundleError
from advisor.recipes.compose import compose
from advisor.recipes.pins import pin
from advisor.recipes.server import portable_command
from advisor.report.sections.explanation import find_arms
from advisor.store.runs import Run
from probes.runtime.source_digest import source_digest

#: Interpreter that writes the quantised checkpoint: of an environment that the user creates next to
#: the script. The run's own is a path of the machine that measured.
QUANTISER = "llm-compressor/bin/python"

#: Note for a script that is composed by another version than the one that measured.
SOURCE_CHANGED = (
    "The probes have changed since this run was measured: the script is composed from their present"
    " source, and may differ from what was measured."
)


@dataclasses.dataclass(frozen=True)
class FoundRecipe:
    """The recipe of an arm."""

    recipe: Recipe
    #: Whether it is composed from source that has changed since the measurement.
    is_source_changed: bool = False
    #: The lines that a user writes to adopt the workflow.
    integration: str = ""
    #: The inputs of a PyTorch module; see `RecipeFacts`.
    inputs: tuple[InputFacts, ...] | None = None
    #: Whether rows of a batch depend on each other; null if that is not known.
    coupled_rows: bool | None = None


def choose(
    answer: Answer, run: Run, name: str, probes: pathlib.Path
) -> tuple[RankedArm, FoundRecipe]:
    """Return the arm of this name, the recommended one for an empty name, with its recipe.

    Raise `NoRecipeError` where there is none. `probes` is the directory of the package whose
    source the script is composed from.
    """
    has_choice = bool(name) or answer.recommendation is not None
    for arm in find_arms(answer, name) if has_choice else ():
        found = find_recipe(run, arm.arm, probes) if isinstance(arm, RankedArm) else None
        if isinstance(arm, RankedArm) and found is not None:
            return arm, found
    raise _no_recipe(answer, run, name)


def _no_recipe(answer: Answer, run: Run, name: str) -> NoRecipeError:
    """Return the error for an arm without a recipe; the next step names the arms that have one."""
    state, problem = run.state(), answer.problem
    arms = state.plan.arms if state.plan else ()
    available = [
        arm.id for arm in arms if arm.duplicate_of is None and _last_process(state, arm.id)
    ]
    what = f"no recipe is stored for {name or 'the recommended workflow'}"
    next_step = "measure it with this version"
    if not name and answer.recommendation is None:
        reason = f": {problem.what}" if problem else ""
        what = f"run {answer.run_id} has no recommendation{reason}"
        next_step = "measure again, or name another run: p3-advisor history lists them"
    if available:
        next_step = f"use --workflow with one of {', '.join(available)}"
    return NoRecipeError(what, next_step)


def find_recipe(run: Run, arm: str, probes: pathlib.Path) -> FoundRecipe | None:
    """Return the recipe of an arm, or None if no process of it has reported what it needs.

    Raise `NoRecipeError` where the source in `probes` does not have the arm's workflow.
    """
    header, state = run.header(), run.state()
    process = _last_process(state, arm)
    if process is None or state.plan is None:
        return None
    planned = next(each for each in state.plan.arms if each.id == arm)
    if header.question.load is not None:
        return _find_server(header.question, planned, process)
    if process.recipe is not None:
        return FoundRecipe(process.recipe)
    facts, imported = process.recipe_facts, process.imported
    if facts is None or imported is None or imported.environment is None:
        return None
    workflow_file = probes / "workflows" / probe_file(planned.workflow)
    fix = f"use p3-advisor {header.advisor_version}, which measured it"
    # The name comes from the run: it must not lead to a file elsewhere.
    if workflow_file not in (probes / "workflows").iterdir():
        raise NoRecipeError(f"this version has no workflow {planned.workflow}", fix)
    request = measured_fields(
        header.question,
        planned,
        thread_count(header.machine),
        header.catalogue.accuracy,
        header.catalogue.engine_memory,
    )
    if planned.quantiser:
        request["quantiser"] = QUANTISER
    try:
        recipe = compose(
            workflow_file,
            probes,
            request,
            imported.versions,
            imported.environment,
            facts,
            planned.extras,
        )
    except CannotBundleError as problem:
        raise NoRecipeError(f"no script can be composed for {arm}: {problem}", fix) from problem
    is_changed = source_digest(probes) != imported.environment.source_digest
    return FoundRecipe(recipe, is_changed, facts.integration, facts.inputs, facts.coupled_rows)


def _find_server(question: Question, planned: Arm, process: ProcessState) -> FoundRecipe | None:
    """Return the server of an arm as it was measured, or None if it has not answered."""
    serving, facts, imported = process.serving, process.recipe_facts, process.imported
    if serving is None or facts is None or imported is None or imported.environment is None:
        return None
    environment, command = imported.environment, facts.serving_command or ""
    recipe = Recipe(
        imports=(),
        source="",
        requirements=tuple(pin((), imported.versions, environment, planned.extras)),
        python=f"=={environment.python}.*",
        interpreter=environment.interpreter,
        serving_command=portable_command(
            command, serving, environment.interpreter, question.model.name
        ),
        variables=serving.variables,
    )
    return FoundRecipe(recipe, integration=facts.integration)


def _last_process(state: RunState, arm: str) -> ProcessState | None:
    """Return the last process of an arm that left a recipe or what one is composed from."""
    return next(
        (
            process
            for process in reversed(state.processes.get(arm, ()))
            if process.recipe
            or (process.recipe_facts and process.imported and process.imported.environment)
        ),
        None,
    )
