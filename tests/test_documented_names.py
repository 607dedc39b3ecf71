"""The paths and names that documentation and comments mention exist in the code."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = ("advisor", "probes", "rubric", "tests", "docs")
FILES = [
    *ROOT.glob("*.*"),
    *(place for folder in FOLDERS for place in (ROOT / folder).rglob("*")),
]
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
