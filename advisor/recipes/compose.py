"""Compose the script that does for a user what an arm was measured with.

It consists of the workflow's and the model's own source and of the functions of `probes.recipes`
around them. Nothing is written twice and nothing is imported: the source is parsed.
"""

from __future__ import annotations

import pathlib
import pprint
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.domain.recipe_facts import RecipeFacts
from advisor.domain.worker_events import Environment, Recipe
from advisor.domain.worker_settings import MEMORY_ON_DEMAND, THREAD_COUNTS
from advisor.recipes.bundler import SourceBundler
from advisor.recipes.pins import pin

#: Functions of a workflow's module that the script needs.
WORKFLOW_FUNCTIONS = ("versions", "settings", "open_subject", "build", "synchronise")
WIDTH = 140
#: By task, the constant with what eager PyTorch allows the outputs to differ by, and its comment.
ALLOWANCES = {
    "forward": (
        "EAGER_ERRORS",
        "Errors of eager PyTorch in this precision by batch size and output, for `check_and_time`.",
    ),
    "generate": (
        "ALLOWED_GAPS",
        "By how much eager PyTorch may prefer another token to the generated one, by batch size.",
    ),
}
#: By task, the function that the check script calls, and its module.
CHECK_FUNCTIONS = {
    "forward": ("probes.recipes.forward_check", "check_and_time"),
    "generate": ("probes.recipes.text_check", "check_and_time_texts"),
}
#: The comment above a workflow's integration.
INTEGRATION_TITLE = (
    "With `model` or `CHECKPOINT`, and `prompts` as token numbers, these lines are enough:",
    "",
)
#: Conditions of adapters that the task, the kind of model and the arm's options decide.
GENERATES_TEXT = "request.task == protocol.GENERATE"
IS_ONNX_FILE = 'request.subject["kind"] == "onnx"'
IS_QUANTISED = 'request.options.get("weights")'


def compose(
    workflow_file: pathlib.Path,
    probes: pathlib.Path,
    request: Mapping[str, Any],
    versions: Mapping[str, str],
    environment: Environment,
    facts: RecipeFacts,
    extras: Mapping[str, Sequence[str]] | None = None,
) -> Recipe:
    """Return the recipe of an arm whose worker ran `workflow_file` of the package in `probes`.

    `request` has the fields of `advisor.domain.worker_settings.measured_fields`; `versions`,
    `environment` and `facts` are what the worker reported; `extras` are the optional dependencies
    of distributions. Raise `CannotBundleError` for a workflow that lacks one of the functions.
    """
    module = f"probes.workflows.{workflow_file.stem}"
    bundler = _bundle(workflow_file, module, probes, request)
    imports = bundler.imports()
    return Recipe(
        imports=tuple(sorted({*imports, "import types"})),
        source=_render_script(bundler, module, request, facts),
        requirements=tuple(pin(imports, versions, environment, extras or {})),
        python=f"=={environment.python}.*",
        interpreter=environment.interpreter,
        serving_command=facts.serving_command,
        variables={**dict.fromkeys(THREAD_COUNTS, str(request["threads"])), **MEMORY_ON_DEMAND},
    )


def _bundle(
    workflow_file: pathlib.Path, module: str, probes: pathlib.Path, request: Mapping[str, Any]
) -> SourceBundler:
    """Return the source of the workflow's functions, of the check, and of what they refer to."""
    task, kind = str(request["task"]), str(request["subject"]["kind"])
    bundler = SourceBundler(
        probes,
        {module: workflow_file},
        kept_keys={"OPENERS": kind},
        conditions={
            GENERATES_TEXT: task == "generate",
            IS_ONNX_FILE: kind == "onnx",
            IS_QUANTISED: bool(request["options"].get("weights")),
        },
    )
    for name in WORKFLOW_FUNCTIONS:
        bundler.add(module, name)
    bundler.add(*CHECK_FUNCTIONS[task])
    return bundler


def _render_script(
    bundler: SourceBundler, module: str, request: Mapping[str, Any], facts: RecipeFacts
) -> str:
    """Return the script below its imports: the request, the definitions, and the main part."""
    task = str(request["task"])
    functions = {name: bundler.name_of(module, name) for name in WORKFLOW_FUNCTIONS}
    constant, meaning = ALLOWANCES[task]
    allowances = pprint.pformat(_as_lists(facts.allowances), width=WIDTH)
    lines = _as_comment(facts.integration) if task == "generate" else ""
    return f"""\
{lines}#: The model, precision, shapes and options that were measured.
REQUEST = {_render_namespace(_literals(request))}
#: {meaning}
{constant} = {allowances}


{bundler.definitions()}


if __name__ == "__main__":
    workflow = {_render_namespace(functions, indent="    ")}
    {bundler.name_of(*CHECK_FUNCTIONS[task])}(REQUEST, workflow, {constant}, MEASURED)
"""


def _as_lists(allowances: Mapping[int, Any]) -> dict[int, Any]:
    return {
        size: list(allowed) if isinstance(allowed, tuple) else allowed
        for size, allowed in allowances.items()
    }


def _as_comment(integration: str) -> str:
    """Return the lines as a comment with its title; nothing for no lines."""
    if not integration:
        return ""
    lines = (*INTEGRATION_TITLE, *integration.splitlines())
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + "\n"


def _literals(fields: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: pprint.pformat(value, width=WIDTH, sort_dicts=False) for name, value in fields.items()
    }


def _render_namespace(fields: Mapping[str, str], indent: str = "") -> str:
    lines = [f"    {name}={value},".replace("\n", "\n    ") for name, value in fields.items()]
    return "\n".join(["types.SimpleNamespace(", *(indent + line for line in lines), f"{indent})"])
