"""Generated files are current, and what documentation and comments name exists."""

from __future__ import annotations

import pathlib
import re

import generate
import msgspec
import pytest
from builders import replace
from generate import ROOT
from stacks import extras

from advisor.ask import catalogue_files
from advisor.domain.workflow import Environment
from advisor.probing import env_registry

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
ENVIRONMENTS = env_registry.own_environments(catalogue_files.load().workflows)


def test_no_generated_file_is_stale() -> None:
    assert generate.stale_files(generate.render_all()) == [], "run python tests/generate.py"


def test_a_missing_or_changed_file_is_stale(tmp_path: pathlib.Path) -> None:
    current, changed, missing = (tmp_path / name for name in ("current", "changed", "missing"))
    current.write_text("text")
    changed.write_text("other text")
    texts = dict.fromkeys((current, changed, missing), "text")
    assert generate.stale_files(texts) == [changed, missing]


def test_changed_requirements_and_conflicts_change_the_extras_and_nothing_else() -> None:
    iree = replace(ENVIRONMENTS["iree"], requirements=("iree==9",), conflicts=("max",))
    rendered = extras.render(PYPROJECT, {**ENVIRONMENTS, "iree": iree})
    project = msgspec.toml.decode(rendered)
    assert project["project"]["optional-dependencies"]["iree"] == ["iree==9"]
    assert [{"extra": "iree"}, {"extra": "max"}] in project["tool"]["uv"]["conflicts"]
    assert extras.render(rendered, ENVIRONMENTS) == PYPROJECT


def test_a_new_environment_gets_an_extra_and_a_removed_one_loses_it() -> None:
    new = Environment(kind="own", requirements=("new==1", "torch"), conflicts=("iree",))
    rendered = extras.render(PYPROJECT, {**ENVIRONMENTS, "new-stack": new})
    assert '\nnew-stack = [\n  "new==1",\n  "torch",\n]\n' in rendered
    assert '  [{ extra = "new-stack" }, { extra = "iree" }],\n' in rendered
    assert extras.render(rendered, ENVIRONMENTS) == PYPROJECT


def test_two_environments_that_name_each_other_conflict_once() -> None:
    named = {
        name: Environment(kind="own", conflicts=(other,))
        for name, other in (("one", "two"), ("two", "one"))
    }
    assert extras.conflicting_pairs(named) == [("one", "two")]


FOLDERS = ("advisor", "probes", "rubric", "tests", "docs")
FILES = [*ROOT.glob("*.*"), *(place for folder in FOLDERS for place in (ROOT / folder).rglob("*"))]
PLACES = {f"/{place.relative_to(ROOT)}" for place in FILES}
CODE = "\n".join(
    file.read_text(encoding="utf-8")
    for file in FILES
    if file.suffix in {".py", ".toml", ".jinja", ".js"} and file != pathlib.Path(__file__)
)
WORDS = set(re.findall(r"\w+", CODE))
PATH = re.compile(rf"({'|'.join(FOLDERS)})/[\w./-]+|[\w./-]+\.(py|toml|md|jinja|js|ipynb|jsonl?)")
#: A comment or docstring of a module or a script.
COMMENT = re.compile(r'(?:#|(?<!:)//)[^\n]*|""".*?"""', re.DOTALL)
#: A path in running text; addresses of other projects and places with variables are none.
MENTIONED = re.compile(r"(?<![\w./*:-])[\w./-]+\.(py|toml|md|jinja|js)\b(?![:\w])")
NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*(\(\))?")
#: They stand for files of users, or are those of another project.
NOT_OURS = re.compile(r"file\.py|torch/.*|.*/X(/Y\.py)?")


def quoted_in(page: pathlib.Path) -> set[str]:
    """Return what is quoted as code in the running text."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {each for each in re.findall(r"`([^`\n]+)`", text) if not NOT_OURS.fullmatch(each)}


def is_there(path: str) -> bool:
    """Return whether a place in the repository ends with the path, or code names the file."""
    ending = f"/{path.rstrip('/')}"
    return any(place.endswith(ending) for place in PLACES) or f'"{path}"' in CODE


@pytest.mark.parametrize(
    "page", [*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem
)
def test_the_files_that_a_page_names_exist(page: pathlib.Path) -> None:
    paths = {each for each in quoted_in(page) if PATH.fullmatch(each)}
    assert {path for path in paths if not is_there(path)} == set()


@pytest.mark.parametrize("folder", ["advisor", "probes", "tests"])
def test_the_files_that_comments_name_exist(folder: str) -> None:
    files = [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.js")]
    comments = [each for file in files for each in COMMENT.findall(file.read_text("utf-8"))]
    paths = {path.group() for each in comments for path in MENTIONED.finditer(each)}
    assert {path for path in paths if not is_there(path)} == set()


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_names_that_contributors_read_exist(page: str) -> None:
    names = {each for each in quoted_in(ROOT / page) if NAME.fullmatch(each)}
    words = {name: set(re.findall(r"\w+", name)) for name in names if not PATH.fullmatch(name)}
    assert {name for name, found in words.items() if not found <= WORDS} == set()


def test_the_tests_that_pages_name_exist() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    named = {name for page in pages for name in re.findall(r"\btest_\w+", page.read_text("utf-8"))}
    defined = {*re.findall(r"\bdef (test_\w+)", CODE), *(file.stem for file in FILES)}
    assert "test_architecture" in named
    assert named - defined == set()
