"""The rules that no linter knows, and those that one does."""

from __future__ import annotations

import ast
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import builders
import msgspec
import pytest
import workers
from packaging.requirements import Requirement

from advisor import applicability, catalogue, errors
from advisor.context import Context
from advisor.domain.workflow import Workflow
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.probing.environments import places
from advisor.question.answers import Answers
from advisor.store import Store

ROOT = pathlib.Path(__file__).parents[1]
PROBES = catalogue.probes_directory()
OURS = ("advisor", "probes", "rubric")
MOST_LINES = 500
#: What must not be loaded: by no command at all, and by those that have nothing to reckon.
NEVER, SELDOM = (
    {"torch", "transformers", "textual", "onnx", "onnxruntime", "pydantic"},
    {"numpy", "scipy"},
)
#: Packages whose name on the index says nothing of what is imported.
IMPORTED_AS = {"apache-tvm": "tvm", "iree-base-compiler": "iree"}
#: Runs the command line and then writes down which modules that took.
MODULES_OF_A_COMMAND = """
import json, pathlib, sys
from advisor.cli import main
try:
    main(sys.argv[2:])
finally:
    pathlib.Path(sys.argv[1]).write_text(json.dumps(sorted(sys.modules)))
"""
#: Registers the package by the worker's own function and imports one of its modules.
IMPORT_A_CORE_MODULE = """
import importlib, importlib.util, sys
spec = importlib.util.spec_from_file_location("worker", sys.argv[1])
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
worker.register_package()
importlib.import_module("probes." + sys.argv[2])
"""
LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the path from the root and the tree of each module in these folders."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield str(file.relative_to(ROOT)), ast.parse(file.read_text())


def names_in(node: ast.AST) -> set[str]:
    return {
        ast.unparse(child)
        for child in ast.walk(node)
        if isinstance(child, (ast.Name, ast.Attribute))
    }


# Form


def test_no_module_is_longer_than_can_be_kept_in_mind() -> None:
    files = [file for folder in (*OURS, "tests") for file in (ROOT / folder).rglob("*.py")]
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in files}
    assert {file: length for file, length in lengths.items() if length > MOST_LINES} == {}


def test_only_the_command_line_prints_or_exits() -> None:
    found = []
    for name, tree in modules("advisor", "probes"):
        calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        raised = [
            ast.unparse(node.exc)
            for node in ast.walk(tree)
            if isinstance(node, ast.Raise) and node.exc
        ]
        ends = {"print", "exit", "quit", "sys.exit"} & set(calls) or any(
            text.startswith("SystemExit") for text in raised
        )
        if ends and not name.startswith("advisor/cli/"):
            found.append(name)
    assert found == []


def test_only_the_harness_catches_whatever_comes() -> None:
    broad = {"Exception", "BaseException"}
    found = collections.Counter[str]()
    for name, tree in modules(*OURS):
        for node in ast.walk(tree):
            caught_all = isinstance(node, ast.ExceptHandler) and (
                node.type is None or broad & names_in(node.type)
            )
            suppressed_all = (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).endswith("suppress")
                and broad & names_in(node)
            )
            found[name] += bool(caught_all or suppressed_all)
    assert +found == {"probes/runtime/harness.py": 1}


def test_errors_have_names_and_exit_codes_in_order() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.UserError)
    ]
    kinds.remove(errors.UserError)
    names = [kind.name for kind in kinds]
    assert len(set(names)) == len(names), "two errors have the same name"
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)
    assert {kind.exit_code for kind in kinds} == {1, 2, 3, 4}
    assert all(kind.__doc__ for kind in kinds)


def test_errors_of_the_user_are_defined_in_one_place() -> None:
    known = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.UserError)
    }
    found = []
    for name, tree in modules("advisor"):
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        found += [
            name
            for node in classes
            if any(
                known & names_in(base) or "UserError" in ast.unparse(base) for base in node.bases
            )
        ]
    assert set(found) == {"advisor/errors.py"}


# Imports


def test_the_import_contracts_are_kept() -> None:
    command = [sys.executable, "-c", LINT_IMPORTS, "--no-logo", "--no-cache"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert " 0 broken" in answer.stdout


@pytest.mark.parametrize("module", workers.CORE)
def test_the_workers_core_needs_the_standard_library_only(module: str) -> None:
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        IMPORT_A_CORE_MODULE,
        str(PROBES / "worker.py"),
        module,
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def loaded_by(
    command: list[str], place: pathlib.Path, home: pathlib.Path | None = None
) -> tuple[set[str], str]:
    """Run a command of ours; return the packages it has loaded and its standard output."""
    file = place / "modules.json"
    environment = {**os.environ, "P3_ADVISOR_HOME": str(home or place)}
    line = [sys.executable, "-c", MODULES_OF_A_COMMAND, str(file), *command]
    answer = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return {name.partition(".")[0] for name in json.loads(file.read_text())}, answer.stdout


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["--spec"]], ids=" ".join)
def test_a_command_that_reckons_nothing_loads_nothing_big(
    command: list[str], tmp_path: pathlib.Path
) -> None:
    loaded, _ = loaded_by(command, tmp_path)
    assert "advisor" in loaded
    assert loaded & (NEVER | SELDOM) == set()


def test_looking_at_the_machine_loads_no_stack(tmp_path: pathlib.Path) -> None:
    loaded, listed = loaded_by(["workflows", "--json", "--gpu", "cpu"], tmp_path)
    assert len(json.loads(listed)) == len(catalogue.load().workflows)
    assert loaded & NEVER == set()


def test_the_specification_has_every_error_and_every_exit_code(tmp_path: pathlib.Path) -> None:
    _, text = loaded_by(["--spec"], tmp_path)
    spec = json.loads(text)
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.UserError)
    ]
    expected = {kind.name: kind.exit_code for kind in kinds if kind is not errors.UserError}
    assert {name: entry["exit_code"] for name, entry in spec["errors"].items()} == expected
    assert {str(code) for code in expected.values()} < set(spec["exit_codes"])


def test_text_goes_to_the_terminal_through_one_place_that_spells_out_what_would_steer_it() -> None:
    printing = [
        file
        for file in sorted((ROOT / "advisor").rglob("*.py"))
        if re.search(r"typer\.echo|\bprint\(|click\.echo", file.read_text())
    ]
    assert [file.relative_to(ROOT / "advisor").as_posix() for file in printing] == [
        "cli/output.py",
        "machine/__init__.py",
    ], "machine.py prints elsewhere"


# Workflows


def workflow_files() -> dict[str, pathlib.Path]:
    return {
        file.name: file
        for file in (PROBES / "workflows").glob("*.py")
        if file.name != "__init__.py"
    }


def test_each_probe_has_its_entry_and_each_entry_that_claims_one_has_it() -> None:
    claimed = {
        catalogue.probe_file(workflow.id)
        for workflow in catalogue.load().workflows
        if workflow.has_probe
    }
    assert set(workflow_files()) == claimed


@pytest.mark.parametrize(
    "workflow",
    [each for each in catalogue.load().workflows if each.has_probe],
    ids=lambda workflow: workflow.id,
)
def test_a_probe_does_the_tasks_that_its_entry_names(workflow: Workflow) -> None:
    tree = ast.parse((PROBES / "workflows" / catalogue.probe_file(workflow.id)).read_text())
    named = [
        each.value
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "TASKS"
    ]
    tasks = [
        ast.unparse(each).removeprefix("protocol.").lower()
        for value in named
        for each in value.elts  # type: ignore[attr-defined]
    ]
    assert {*workflow.tasks} == {*(tasks or ["forward"])}


def imported_packages(file: pathlib.Path, seen: set[pathlib.Path]) -> set[str]:
    """Return what a module of `probes` and the modules of `probes` that it imports import from elsewhere."""
    seen.add(file)
    packages: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "probes":
                module = PROBES / (rest.replace(".", "/") + ".py")
                packages |= (
                    imported_packages(module, seen)
                    if module.is_file() and module not in seen
                    else set()
                )
            else:
                packages.add(package)
    return packages - set(sys.stdlib_module_names)


def is_named(package: str, requirement: str) -> bool:
    """Say whether a requirement brings a package: `tensorrt-cu13` brings `tensorrt`."""
    distribution = Requirement(requirement).name
    imported = IMPORTED_AS.get(distribution, distribution.replace("-", "_"))
    return imported == package or imported.startswith(f"{package}_")


@pytest.mark.parametrize(
    "workflow",
    [each for each in catalogue.load().workflows if each.has_probe],
    ids=lambda workflow: workflow.id,
)
def test_a_workflow_imports_only_what_its_entry_names(workflow: Workflow) -> None:
    project = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())["project"]
    named = [*workflow.environment.requirements, *project["optional-dependencies"]["stack"]]
    packages = imported_packages(PROBES / "workflows" / catalogue.probe_file(workflow.id), set())
    assert [
        package
        for package in sorted(packages)
        if not any(is_named(package, text) for text in named)
    ] == []


def test_each_environment_is_an_extra_with_the_same_requirements_and_conflicts() -> None:
    project = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())
    extras = project["project"]["optional-dependencies"]
    environments = places.own_environments(catalogue.load().workflows)
    assert {name: list(each.requirements) for name, each in environments.items()} == {
        name: asked for name, asked in extras.items() if name not in {"stack", "dev", "fleet"}
    }
    declared = {
        frozenset((name, other)) for name, each in environments.items() for other in each.conflicts
    }
    assert {
        frozenset(part["extra"] for part in pair) for pair in project["tool"]["uv"]["conflicts"]
    } == declared


def test_releases_of_tensorrt_are_named_whole() -> None:
    """Each has the number of its build as fourth place, without which `==` matches none: 11.1.0 is not 11.1.0.106."""
    environments = places.own_environments(catalogue.load().workflows).values()
    asked = [
        requirement for each in environments for requirement in map(Requirement, each.requirements)
    ]
    pins = [
        pin.version
        for each in asked
        if each.name.startswith("tensorrt-") and each.name != "tensorrt-llm"
        for pin in each.specifier
    ]
    assert len(pins) > 4
    assert [version for version in pins if version.count(".") != 3] == []


# One more workflow


@pytest.fixture(scope="module")
def extended(
    fake_probes: pathlib.Path, fake_rubric: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Context]:
    """A maker of worlds with one more workflow: its file, its table, or both."""

    def extend(*, with_file: bool = True, with_table: bool = True) -> Context:
        place = tmp_path_factory.mktemp("extended")
        probes = shutil.copytree(
            fake_probes, place / "probes", ignore=shutil.ignore_patterns("__pycache__")
        )
        rubric = shutil.copytree(fake_rubric, place / "rubric")
        if with_file:
            shutil.copy(probes / "workflows" / "quick.py", probes / "workflows" / "throw_away.py")
        tables = (rubric / "workflows.toml").read_text()
        quick = tables[tables.index("[workflow.quick]") : tables.index("[workflow.alike]")]
        if with_table:
            (rubric / "workflows.toml").write_text(
                tables + "\n" + quick.replace("workflow.quick", "workflow.throw-away")
            )
        return Context(
            environment=dict(os.environ), store=Store(place / "home"), probes=probes, rubric=rubric
        )

    return extend


def known_in(world: Context) -> dict[str, Workflow]:
    return {
        workflow.id: workflow
        for workflow in catalogue.load(world.rubric, probes=world.probes).workflows
    }


def test_one_file_and_one_table_make_a_workflow(extended: Callable[..., Context]) -> None:
    world = extended()
    assert known_in(world)["throw-away"].has_probe
    plan = applicability.plan(
        builders.question(), builders.machine(), catalogue.load(world.rubric, probes=world.probes)
    )
    assert "throw-away" in [arm.id for arm in plan.arms]


def test_a_table_without_a_file_is_listed_and_left_out(extended: Callable[..., Context]) -> None:
    world = extended(with_file=False)
    plan = applicability.plan(
        builders.question(), builders.machine(), catalogue.load(world.rubric, probes=world.probes)
    )
    (excluded,) = [excluded for excluded in plan.excluded if excluded.workflow == "throw-away"]
    assert "no probe" in excluded.reason


def test_a_file_without_a_table_is_no_workflow(extended: Callable[..., Context]) -> None:
    assert "throw-away" not in known_in(extended(with_table=False))


def test_the_new_workflow_is_measured_and_shown_without_loading_a_stack(
    extended: Callable[..., Context], tmp_path: pathlib.Path
) -> None:
    world = extended()
    run = prepare(Answers(gpu="cpu", batch_sizes="1", budget="2", workflows="throw-away"), world)
    for _ in execute(run, world):
        pass
    decision = decide(run)
    assert {measurement.arm for measurement in decision.results.measurements} == {
        "pytorch-eager",
        "throw-away",
    }
    loaded, shown = loaded_by(["show", "--json"], tmp_path, home=run.directory.parents[1])
    assert "throw-away" in [entry["arm"] for entry in json.loads(shown)["workflows"]]
    assert loaded & NEVER == set()
