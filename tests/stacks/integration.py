"""Write `rubric/integration.toml` from what the workflows' modules say that a user writes: `python tests/stacks/integration.py`.

These lines are text, so no stack is needed: whatever a module imports is pretended. That is why
this runs in a process of its own. With `--every DIRECTORY` those of every arm, task and device are
written there instead.
"""

from __future__ import annotations

import collections
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import pathlib
import sys
import types
from collections.abc import Iterator, MutableSequence
from typing import Any
from unittest import mock

from typing_extensions import Self

ROOT = pathlib.Path(__file__).parents[2]
BASELINE = "pytorch-eager"
HEADER = """\
# The lines that a user writes for each workflow, with its first set of options, and how many of
# them eager PyTorch does not have. They are counted; the script that `p3-advisor recipe` hands out
# is another thing. Written by tests/stacks/integration.py, never by hand.
"""


class Anything:
    """Stands for whatever a stack has: it can be called, entered, subclassed, and given attributes of any name."""

    def __getattr__(self, name: str) -> Anything:
        if name in {"__path__", "__file__", "__wrapped__"}:
            raise AttributeError(name)
        return Anything()

    def __call__(self, *_given: object, **_named: object) -> Anything:
        return Anything()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_given: object) -> None:
        return None

    def __getitem__(self, _key: object) -> Anything:
        return Anything()

    def __or__(self, _other: object) -> Anything:
        return self

    __ror__ = __or__

    def __mro_entries__(self, _bases: object) -> tuple[type, ...]:
        return ()


class Pretended(types.ModuleType):
    """A module that has whatever is asked of it."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - what makes it a package; nobody changes it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Pretending(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every package that is neither ours nor of the standard library."""

    def find_spec(
        self, fullname: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        package = fullname.partition(".")[0]
        if package in {"probes", "advisor", "rubric", "msgspec"} | set(sys.stdlib_module_names):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Pretended(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: a pretended module is there already."""


def significant_lines(text: str) -> list[str]:
    """Return the lines that are neither empty nor a comment."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def changed_lines(text: str, baseline: str) -> int:
    """Return how many lines of the text the baseline's does not have."""
    return sum(
        (
            collections.Counter(significant_lines(text))
            - collections.Counter(significant_lines(baseline))
        ).values()
    )


def integration_of(
    file: pathlib.Path, options: dict[str, Any], task: str, device: str = "cuda"
) -> str:
    """Return the lines that the module in `file` says a user writes."""
    spec = importlib.util.spec_from_file_location(f"probes.workflows.{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    request = mock.MagicMock(
        options=options,
        device=device,
        dtype="float32",
        task=task,
        batch_sizes=[1],
        input_tokens=32,
        output_tokens=32,
    )
    return str(module.integration(request))


def load_workflows() -> list[tuple[Any, pathlib.Path]]:
    """Return the workflows that have a module, each with its file; what modules import from elsewhere is pretended from then on."""
    sys.path.insert(0, str(ROOT))
    from advisor import catalogue  # noqa: PLC0415 - from this tree, whichever is installed

    directory = catalogue.probes_directory() / "workflows"
    known = [
        (workflow, directory / catalogue.probe_file(workflow.id))
        for workflow in catalogue.load().workflows
        if workflow.has_probe
    ]
    sys.meta_path.insert(0, Pretending())
    return known


def every_text() -> Iterator[tuple[str, str]]:
    """Yield a name and the lines for each set of options, task and device of each workflow."""
    for workflow, file in load_workflows():
        for (arm, options), task, device in itertools.product(
            workflow.arms.items(), workflow.tasks, workflow.devices
        ):
            yield (
                f"{workflow.id}-{arm}-{task}-{device}",
                integration_of(file, options, task, device),
            )


def render() -> str:
    """Return the file's text."""
    known = load_workflows()
    texts = {
        workflow.id: integration_of(file, next(iter(workflow.arms.values())), workflow.tasks[0])
        for workflow, file in known
    }
    eager = next(file for workflow, file in known if workflow.id == BASELINE)
    baselines = {task: integration_of(eager, {}, task) for task in ("forward", "generate")}
    tasks = {workflow.id: workflow.tasks[0] for workflow, _ in known}
    blocks = [HEADER]
    for workflow, text in sorted(texts.items()):
        assert "'''" not in text, workflow
        blocks.append(
            f"[{workflow}]\nlines_changed = {changed_lines(text, baselines[tasks[workflow]])}\nsource = '''\n{text}'''\n"
        )
    return "\n".join(blocks)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--print"]:
            sys.stdout.write(render())
        case ["--every", directory]:
            for name, text in every_text():
                (pathlib.Path(directory) / f"{name}.py").write_text(text, encoding="utf-8")
        case _:
            (ROOT / "rubric" / "integration.toml").write_text(render(), encoding="utf-8")
