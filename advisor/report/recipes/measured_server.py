"""The server of an arm that was measured under load, as a user starts it."""

from __future__ import annotations

import shlex
import urllib.parse

from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.recipe_facts import RecipeFacts
from advisor.domain.worker_events import Imported, Recipe, Serving
from advisor.errors import NoRecipeError
from advisor.recipes.pins import pin

#: Setting that only composed servers have; see `probes.runtime.served`.
COMPOSED_SIZES = "batch sizes"
#: What the program of a composed server imports, in addition to the packages of the server itself.
COMPOSED_IMPORTS = ("import torch", "import transformers")


def composed_sizes(serving: Serving) -> tuple[int, ...]:
    """Return the batch sizes of a server that p3-advisor composed; empty for an engine's own.

    Raise `NoRecipeError` for sizes that are not numbers: a run may come from another machine.
    """
    sizes = serving.settings.get(COMPOSED_SIZES)
    try:
        return tuple(map(int, sizes.split(","))) if sizes else ()
    except ValueError as problem:
        raise NoRecipeError(
            "the stored batch sizes of the server are not numbers", "measure again"
        ) from problem


def server_recipe(
    question: Question, arm: Arm, imported: Imported, serving: Serving, facts: RecipeFacts
) -> Recipe | None:
    """Return the requirements of a server and the command of an engine; None without versions.

    Raise `NoRecipeError` for a composed server of an early version, which did not store its lines.
    """
    environment, is_composed = imported.environment, bool(composed_sizes(serving))
    if environment is None:
        return None
    if is_composed and facts.serving_command:
        raise NoRecipeError(
            f"{arm.id} was measured with a composed server, whose lines the run does not have",
            "measure it again with this version",
        )
    imports = COMPOSED_IMPORTS if is_composed else ()
    command = facts.serving_command or ""
    return Recipe(
        imports=imports,
        source="",
        requirements=tuple(pin(imports, imported.versions, environment, arm.extras)),
        python=f"=={environment.python}.*",
        interpreter=environment.interpreter,
        serving_command=None
        if is_composed
        else portable_command(command, serving, environment.interpreter, question.model.name),
        variables=serving.variables,
    )


def portable_command(command: str, serving: Serving, interpreter: str, model: str) -> str:
    """Return the command without paths of the machine that measured and without its port."""
    try:
        words, port_number = shlex.split(command), urllib.parse.urlsplit(serving.url).port
    except ValueError as problem:
        raise NoRecipeError(
            "the stored server has no valid command line or address", "measure again"
        ) from problem
    replaced = {interpreter: "python", serving.tokenizer: model}
    port = ["--port", str(port_number)]
    kept = [
        replaced.get(word, word)
        for index, word in enumerate(words)
        if port not in (words[index : index + 2], words[max(index - 1, 0) : index + 1])
    ]
    return shlex.join(kept)
