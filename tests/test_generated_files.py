"""Generated files are current, and a change of what they are generated from makes them stale."""

from __future__ import annotations

import pathlib

import generate
import msgspec
import pytest
from stacks import extras

from advisor.ask import rubric_files
from advisor.domain.workflow import Environment
from advisor.probing.environments import registry

PYPROJECT = (generate.ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def environments() -> dict[str, Environment]:
    return registry.own_environments(rubric_files.load().workflows)


def test_no_generated_file_is_stale() -> None:
    stale = generate.stale_files(generate.render_all())
    assert stale == [], "run python tests/generate.py"


def test_a_missing_or_changed_file_is_stale(tmp_path: pathlib.Path) -> None:
    current, changed, missing = (tmp_path / name for name in ("current", "changed", "missing"))
    current.write_text("text")
    changed.write_text("other text")
    texts = dict.fromkeys((current, changed, missing), "text")
    assert generate.stale_files(texts) == [changed, missing]


def test_changed_requirements_and_conflicts_change_the_extras_and_nothing_else(
    environments: dict[str, Environment],
) -> None:
    iree = msgspec.structs.replace(
        environments["iree"], requirements=("iree==9",), conflicts=("max",)
    )
    rendered = extras.render(PYPROJECT, {**environments, "iree": iree})
    project = msgspec.toml.decode(rendered)
    assert project["project"]["optional-dependencies"]["iree"] == ["iree==9"]
    assert [{"extra": "iree"}, {"extra": "max"}] in project["tool"]["uv"]["conflicts"]
    assert extras.render(rendered, environments) == PYPROJECT


def test_a_new_environment_gets_an_extra_and_a_removed_one_loses_it(
    environments: dict[str, Environment],
) -> None:
    new = Environment(kind="own", requirements=("new==1", "torch"), conflicts=("iree",))
    rendered = extras.render(PYPROJECT, {**environments, "new-stack": new})
    assert '\nnew-stack = [\n  "new==1",\n  "torch",\n]\n' in rendered
    assert '  [{ extra = "new-stack" }, { extra = "iree" }],\n' in rendered
    assert extras.render(rendered, environments) == PYPROJECT


def test_two_environments_that_name_each_other_conflict_once() -> None:
    named = {
        name: Environment(kind="own", conflicts=(other,))
        for name, other in (("one", "two"), ("two", "one"))
    }
    assert extras.conflicting_pairs(named) == [("one", "two")]
