"""The script that does for a user what was measured: the adapter's own source, the model's, and `serving` around them.

For text that is `text_serving`. Nothing is written twice: what is measured is what is handed out. A
workflow's `integration` is another thing: the few lines that a user writes to take it up, which are
counted.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import pprint
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from probes import protocol
from probes.recipes.bundler import SourceBundler

#: Functions of a workflow's module that a recipe needs.
NEEDED = ("versions", "settings", "open_subject", "build", "synchronise")
#: Fields of a request that say nothing about the model, its shapes or the build.
LEFT_OUT = {
    "version",
    "workflow_file",
    "role",
    "shared_directory",
    "scratch_directory",
    "input_sets",
    "warmup_seconds",
    "extras",
    "minimum_engaged_share",
}
#: What libraries read when they are loaded and a worker has set: how many threads they take, and
#: that JAX takes memory as it needs it.
THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NPROC",
    "TVM_NUM_THREADS",
)
ON_DEMAND = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
WIDTH = 140
#: What is compared with eager PyTorch, by the task: the constant in the script, and what it says.
ALLOWANCES = {
    protocol.FORWARD: (
        "EAGER_ERRORS",
        "How far eager PyTorch in this precision is from a more precise reference, by batch size and output.",
    ),
    protocol.GENERATE: (
        "ALLOWED_GAPS",
        "By how much eager PyTorch may prefer a token to the one that was generated, by batch size.",
    ),
}
SERVE = {
    protocol.FORWARD: ("probes.recipes.serving", "serve"),
    protocol.GENERATE: ("probes.recipes.text_serving", "serve_texts"),
}
#: What stands before the lines that a user writes.
IN_SHORT = (
    "With `model`, or `CHECKPOINT`, and `prompts` of your own, token numbers, the lines that matter are these:",
    "",
)
#: What adapters ask before they take a language model, or a file as it is.
IS_TEXT = "request.task == protocol.GENERATE"
IS_ONNX = 'request.subject["kind"] == "onnx"'


def compose(
    request: protocol.Request,
    versions: dict[str, str],
    allowances: Mapping[int, Any],
    command: str | None,
    lines: str = "",
) -> protocol.Recipe:
    """Return the recipe of the workflow in `request`, as far as the worker knows it: all but the figures that the race will give.

    `allowances` say for each batch size how far outputs may be off, see `ALLOWANCES`; `lines` are
    told beside the script.
    """
    file = pathlib.Path(request.workflow_file)
    module = f"probes.workflows.{file.stem}"
    kind = str(request.subject["kind"])
    generates = request.task == protocol.GENERATE
    joiner = SourceBundler(
        {module: file},
        kept_keys={"OPENERS": kind},
        facts={IS_TEXT: generates, IS_ONNX: kind == "onnx"},
    )
    serve = SERVE[request.task]
    for name in NEEDED:
        joiner.add(module, name)
    joiner.add(*serve)
    names = {name: joiner.name_of(module, name) for name in NEEDED}
    fields = {
        name: value for name, value in dataclasses.asdict(request).items() if name not in LEFT_OUT
    }
    constant, meaning = ALLOWANCES[request.task]
    source = f"""\
{_comment(lines)}#: The model, precision, shapes and options that were measured.
REQUEST = {_call("types.SimpleNamespace", fields)}
#: {meaning}
{constant} = {pprint.pformat(allowances, width=WIDTH)}


{joiner.definitions()}


if __name__ == "__main__":
    workflow = {_call("types.SimpleNamespace", names, literal=False)}
    {joiner.name_of(*serve)}(REQUEST, workflow, {constant}, MEASURED)
"""
    imports = joiner.imports()
    variables = {**dict.fromkeys(THREAD_COUNTS, str(request.threads)), **ON_DEMAND}
    python = f"=={sys.version_info.major}.{sys.version_info.minor}.*"
    return protocol.Recipe(
        sorted({*imports, "import types"}),
        source,
        pin(imports, versions, request.extras),
        python,
        sys.executable,
        command,
        variables,
    )


def _comment(lines: str) -> str:
    """Return lines as a comment, with what they are; nothing for none."""
    if not lines:
        return ""
    return "".join(f"# {line}".rstrip() + "\n" for line in (*IN_SHORT, *lines.splitlines())) + "\n"


def _call(function: str, fields: dict[str, Any], *, literal: bool = True) -> str:
    written = {
        name: pprint.pformat(value, width=WIDTH, sort_dicts=False) if literal else value
        for name, value in fields.items()
    }
    lines = [f"    {name}={value},".replace("\n", "\n    ") for name, value in written.items()]
    indent = "" if literal else "    "
    return "\n".join([f"{function}(", *(indent + line for line in lines), f"{indent})"])


def pin(
    imports: list[str], versions: dict[str, str], extras: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the distributions that bring these imports or are named in `versions`, with these extras, at the version that is installed.

    What follows a plus sign names a build, such as `+cpu`, which the index that most people use
    does not have.
    """
    providers = find_providers()
    imported = {line.split()[1].partition(".")[0] for line in imports}
    needed = {min(providers[name]) for name in imported if name in providers}
    needed |= {name for name in versions if _is_installed(name)}
    asked = {name: f"{name}[{','.join(of_it)}]" for name, of_it in extras.items()}
    return sorted(
        f"{asked.get(name, name)}=={metadata.version(name).partition('+')[0]}" for name in needed
    )


@functools.cache
def find_providers() -> dict[str, list[str]]:
    """Return the distributions that bring each package; finding out reads the list of files of everything that is installed."""
    return {
        package: list(distributions)
        for package, distributions in metadata.packages_distributions().items()
    }


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
