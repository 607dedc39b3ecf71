"""What is said to have been run follows from the runs that are kept."""

from __future__ import annotations

import importlib.util
import pathlib
import types

from advisor.catalogue import rubric_directory

STACKS = pathlib.Path(__file__).parent / "stacks"


def load(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, STACKS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_what_was_run_are_those_of_the_kept_runs() -> None:
    table = load("table")
    for page in table.PAGES:
        assert table.insert(page) == page.read_text(encoding="utf-8"), page


def test_what_counts_as_verified_is_what_the_kept_runs_completed() -> None:
    assert load("verified").render() == (rubric_directory() / "verified.toml").read_text(
        encoding="utf-8"
    )
