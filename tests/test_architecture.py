"""Rules of the code base: form, imports, and the files of a workflow."""

from __future__ import annotations

import ast
import collections
import functools
import json
import pathlib
import re
import shutil
import symtable
import sys
from collections.abc import Iterator

import builders
import msgspec
import pytest
import sessions
import workers
from forks import run_command
from packaging.requirements import Requirement

from advisor.ask import catalogue_files, planning
from advisor.ask.context import Context
from advisor.domain import errors
from advisor.domain.errors import CatalogueError
from advisor.domain.plan import probe_file
from advisor.domain.workflow import Workflow
from advisor.probing import env_registry
from advisor.report.answer_files import answer_of_run
from probes import adapter

ROOT = pathlib.Path(__file__).parents[1]
PROBES = catalogue_files.probes_directory()
PACKAGES = ("advisor", "probes", "rubric")
#: Lines that a module may have, by top-level folder.
MAX_LINES = {"advisor": 350, "probes": 350, "rubric": 350, "tests": 500}
#: Lines that a function may have.
MAX_FUNCTION_LINES = 60
#: Packages that no command without a terminal loads.
NEVER_LOADED = {"torch", "transformers", "textual", "onnx", "onnxruntime", "pydantic"}
#: Calls that write to the terminal.
PRINTS = re.compile(r"print|input|(typer|click)\.echo|(sys\.)?std(out|err)(\.buffer)?\.write\w*")
#: Packages that only commands with statistics load.
SLOW_TO_IMPORT = {"numpy", "scipy"}
#: Errors of users.
USER_ERRORS = {
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.UserError)
}
#: Distributions whose import name differs from their name.
IMPORT_NAMES = {"apache-tvm": "tvm", "iree-base-compiler": "iree"}
#: Runs the command line and writes the names of the loaded modules to a file.
LIST_LOADED_MODULES = """
import json, pathlib, sys
from advisor.cli.command_line import main
try:
    main(sys.argv[2:])
finally:
    pathlib.Path(sys.argv[1]).write_text(json.dumps(sorted(sys.modules)))
"""
#: Registers the package with the worker's function and imports its modules.
IMPORT_CORE_MODULES = """
import importlib, importlib.util, sys
spec = importlib.util.spec_from_file_location("worker", sys.argv[1])
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
worker.register_package()
for name in sys.argv[2:]:
    importlib.import_module("probes." + name)
"""


@functools.cache
def parse(file: pathlib.Path) -> ast.Module:
    return ast.parse(file.read_text())


def parse_modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the path relative to the root and the syntax tree of each module."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield str(file.relative_to(ROOT)), parse(file)


def names_in(node: ast.AST) -> set[str]:
    return {
        ast.unparse(child)
        for child in ast.walk(node)
        if isinstance(child, (ast.Name, ast.Attribute))
    }


# Form


@pytest.mark.parametrize("folder", MAX_LINES)
def test_modules_are_short(folder: str) -> None:
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text().splitlines())
        for file in (ROOT / folder).rglob("*.py")
    }
    assert {file: length for file, length in lengths.items() if length > MAX_LINES[folder]} == {}


def test_functions_are_short() -> None:
    functions = [
        (f"{name}:{node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for name, tree in parse_modules(*PACKAGES)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert len(functions) > 1000
    assert {name for name, lines in functions if lines > MAX_FUNCTION_LINES} == set()


def test_packages_keep_their_code_in_modules() -> None:
    # The package `advisor` itself loads its interface when it is first used.
    found = [
        name
        for name, tree in parse_modules("advisor", "probes")
        if name.endswith("/__init__.py") and name != "advisor/__init__.py"
        for node in tree.body[1:]
        if not isinstance(node, ast.ImportFrom) and "__all__" not in names_in(node)
    ]
    assert found == []


def test_only_the_command_line_exits_and_few_functions_print() -> None:
    exiting, printing = [], {}
    for name, tree in parse_modules("advisor", "probes"):
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        raised = {
            ast.unparse(node.exc)
            for node in ast.walk(tree)
            if isinstance(node, ast.Raise) and node.exc
        }
        exits = {"exit", "quit", "sys.exit"} & calls or any(
            text.startswith("SystemExit") for text in raised
        )
        exiting += [name] if exits and not name.startswith("advisor/cli/") else []
        if printed := set(filter(PRINTS.fullmatch, calls)):
            printing[name] = printed
    assert exiting == []
    assert printing == {
        "advisor/cli/output.py": {"typer.echo", "sys.stdout.buffer.write"},
        "advisor/report/notebook.py": {"sys.stderr.write"},
        "advisor/tui/app.py": {"input", "print"},
        # These are no part of the advisor: two answer their caller, the other writes to the log.
        "probes/runtime/bytecode.py": {"sys.stdout.write"},
        "probes/stacks/llm_compressor.py": {"stdout.write"},
        "probes/workflows/onnxruntime_genai.py": {"sys.stderr.write"},
    }


def test_one_place_catches_every_exception() -> None:
    broad = {"Exception", "BaseException"}
    found = collections.Counter[str]()
    for name, tree in parse_modules(*PACKAGES):
        for node in ast.walk(tree):
            catches_all = isinstance(node, ast.ExceptHandler) and (
                node.type is None or broad & names_in(node.type)
            )
            suppresses_all = (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).endswith("suppress")
                and broad & names_in(node)
            )
            found[name] += bool(catches_all or suppresses_all)
    assert +found == {"probes/runtime/failures.py": 1}


def test_optional_members_of_an_adapter_are_documented() -> None:
    looked_up = {
        ast.literal_eval(node.args[1])
        for _, tree in parse_modules("probes")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"hasattr", "getattr"}
        and ast.unparse(node.args[0]).rpartition(".")[2] in {"subject", "program", "workflow"}
    }
    text = (PROBES / "adapter.py").read_text()
    assert "first_token" in looked_up
    assert {name for name in looked_up if not re.search(rf"\b{name}\b", text)} == set()


def test_user_errors_are_defined_in_one_module() -> None:
    known = {kind.__name__ for kind in USER_ERRORS}
    found = {
        name
        for name, tree in parse_modules("advisor")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if known & names_in(base) or "UserError" in ast.unparse(base)
    }
    assert found == {"advisor/domain/errors.py"}


# Imports


def test_core_modules_of_the_worker_import_only_the_standard_library() -> None:
    isolated = [sys.executable, "-I", "-S", "-c", IMPORT_CORE_MODULES]
    answer = run_command([*isolated, str(PROBES / "runtime/worker.py"), *workers.CORE_MODULES])
    assert answer.returncode == 0, answer.stderr


def run_and_list_packages(command: list[str], home: pathlib.Path) -> tuple[set[str], str]:
    """Run a command; return the packages that it loads, and its standard output."""
    file = home / "modules.json"
    line = [sys.executable, "-c", LIST_LOADED_MODULES, str(file), *command]
    answer = run_command(line, {"P3_ADVISOR_HOME": str(home)})
    assert answer.returncode == 0, answer.stderr
    return {name.partition(".")[0] for name in json.loads(file.read_text())}, answer.stdout


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["--spec"]], ids=" ".join)
def test_a_command_without_statistics_loads_no_slow_package(
    command: list[str], tmp_path: pathlib.Path
) -> None:
    loaded, _ = run_and_list_packages(command, tmp_path)
    assert "advisor" in loaded
    assert loaded & (NEVER_LOADED | SLOW_TO_IMPORT) == set()


def test_detecting_the_machine_loads_no_stack(tmp_path: pathlib.Path) -> None:
    loaded, listed = run_and_list_packages(["workflows", "--json", "--gpu", "cpu"], tmp_path)
    assert len(json.loads(listed)) == len(builders.shipped_catalogue().workflows)
    assert loaded & NEVER_LOADED == set()


def test_the_specification_lists_every_error_and_exit_code(tmp_path: pathlib.Path) -> None:
    _, text = run_and_list_packages(["--spec"], tmp_path)
    spec = json.loads(text)
    expected = {kind.name: kind.exit_code for kind in USER_ERRORS - {errors.UserError}}
    assert {name: entry["exit_code"] for name, entry in spec["errors"].items()} == expected
    assert {str(code) for code in expected.values()} < set(spec["exit_codes"])


# Workflows


MEASURED = [each for each in builders.shipped_catalogue().workflows if each.has_probe]


def test_every_module_of_a_workflow_has_an_entry() -> None:
    files = {file.name for file in (PROBES / "workflows").glob("*.py")}
    assert files - {"__init__.py"} == {probe_file(workflow.id) for workflow in MEASURED}


@pytest.mark.parametrize("workflow", MEASURED, ids=lambda workflow: workflow.id)
def test_a_workflow_defines_what_is_called_and_a_server_if_it_serves(workflow: Workflow) -> None:
    """An optional function whose name is misspelt would be left out."""
    file = PROBES / "workflows" / probe_file(workflow.id)
    symbols = symtable.symtable(file.read_text(), file.name, "exec").get_symbols()
    nodes = ast.walk(parse(file))
    used = {ast.unparse(each) for each in nodes if isinstance(getattr(each, "ctx", None), ast.Load)}
    for_harness = {each.get_name() for each in symbols if each.is_assigned()} - used
    assert for_harness <= set(dir(adapter.Workflow))
    is_served = "serve" in workflow.tasks
    assert is_served == (workflow.load_generator is not None) == ("server" in for_harness)


def imported_packages(file: pathlib.Path, seen: set[pathlib.Path]) -> set[str]:
    """Return the external packages that a module of `probes` imports, also indirectly."""
    seen.add(file)
    packages: set[str] = set()
    for node in ast.walk(parse(file)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "probes":
                module = PROBES / (rest.replace(".", "/") + ".py")
                if module.is_file() and module not in seen:
                    packages |= imported_packages(module, seen)
            else:
                packages.add(package)
    return packages - set(sys.stdlib_module_names)


def provides(requirement: str, package: str) -> bool:
    """Return whether a requirement installs a package: `tensorrt-cu13` installs `tensorrt`."""
    distribution = Requirement(requirement).name
    imported = IMPORT_NAMES.get(distribution, distribution.replace("-", "_"))
    return imported == package or imported.startswith(f"{package}_")


@pytest.mark.parametrize("workflow", MEASURED, ids=lambda workflow: workflow.id)
def test_a_workflow_imports_only_the_packages_of_its_entry(workflow: Workflow) -> None:
    project = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())["project"]
    requirements = [
        *(text for each in workflow.environments for text in each.requirements),
        *project["optional-dependencies"]["stack"],
    ]
    packages = imported_packages(PROBES / "workflows" / probe_file(workflow.id), set())
    assert [
        package
        for package in sorted(packages)
        if not any(provides(text, package) for text in requirements)
    ] == []


def test_tensorrt_pins_have_four_parts() -> None:
    """The fourth part is the build number: `==11.1.0` does not match 11.1.0.106."""
    environments = env_registry.own_environments(builders.shipped_catalogue().workflows).values()
    requirements = [
        requirement for each in environments for requirement in map(Requirement, each.requirements)
    ]
    pins = [
        pin.version
        for each in requirements
        if each.name.startswith("tensorrt-") and each.name != "tensorrt-llm"
        for pin in each.specifier
    ]
    assert len(pins) > 4
    assert [version for version in pins if version.count(".") != 3] == []


# Adding a workflow


@pytest.fixture
def extended(
    fake_probes: pathlib.Path, fake_catalogue: pathlib.Path, tmp_path: pathlib.Path
) -> Context:
    """A context with the table of another workflow, without its module."""
    ignored = shutil.ignore_patterns("__pycache__")
    probes = shutil.copytree(fake_probes, tmp_path / "probes", ignore=ignored)
    catalogue = shutil.copytree(fake_catalogue, tmp_path / "catalogue")
    tables = (catalogue / "workflows.toml").read_text()
    quick = tables[tables.index("[workflow.quick]") : tables.index("[workflow.alike]")]
    added = quick.replace("workflow.quick", "workflow.throw-away")
    (catalogue / "workflows.toml").write_text(f"{tables}\n{added}")
    return sessions.fake_context(tmp_path / "home", probes, catalogue)


def test_a_table_without_a_module_needs_the_reason(extended: Context) -> None:
    with pytest.raises(CatalogueError) as problem:
        catalogue_files.load(extended.catalogue_directory, probes=extended.probes)
    assert "probes/workflows/throw_away.py" in problem.value.what
    file = extended.catalogue_directory / "workflows.toml"
    table = "[workflow.throw-away]\n"
    fact = 'not_measured = { value = "a test", source = "tests/test_architecture.py" }\n'
    file.write_text(file.read_text().replace(table, table + fact))
    plan = planning.plan(
        builders.question(),
        builders.machine(),
        catalogue_files.load(extended.catalogue_directory, probes=extended.probes),
    )
    (excluded,) = [excluded for excluded in plan.excluded if excluded.workflow == "throw-away"]
    assert (excluded.status, excluded.reason) == ("not-covered", "a test")


@pytest.mark.slow
def test_an_added_workflow_is_measured_and_shown(extended: Context) -> None:
    workflows = extended.probes / "workflows"
    shutil.copy(workflows / "quick.py", workflows / "throw_away.py")
    run = sessions.execute_run(extended, sessions.short_options("throw-away"))
    assert set(answer_of_run(run).results.by_arm) == {"pytorch-eager", "throw-away"}
    loaded, shown = run_and_list_packages(["show", "--json"], run.directory.parents[1])
    assert "throw-away" in [each["arm"] for each in json.loads(shown)["scores"]]
    assert loaded & NEVER_LOADED == set()
