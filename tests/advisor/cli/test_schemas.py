"""The schemas of documents."""

from __future__ import annotations

import functools
import json
import pathlib
import re
from typing import Any

import jsonschema
import msgspec
import pytest
from generate import schema_file
from kept.runs import EVIDENCE, NAMES

from advisor.ask import rubric_files
from advisor.cli import schemas
from advisor.domain.answer import encode
from advisor.report.answer_files import decide
from advisor.store.runs import Run

RUBRIC_FILES = ("criteria", "gpus", "guidelines", "models", "presets")


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(schema_file(name).read_bytes()))


@pytest.fixture(scope="module")
def specification() -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(schemas.describe_program())
    return decoded


def test_the_page_for_scripts_lists_the_exit_codes() -> None:
    page = (EVIDENCE.parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
    table = page.split("## Exit status", 1)[1].split("##", 1)[0]
    assert dict(re.findall(r"\| (\d+) \| (.*) \|", table)) == schemas.EXIT_CODES


def test_every_shipped_schema_file_is_generated() -> None:
    shipped = {file.name for file in schema_file("run").parent.iterdir()}
    assert shipped == {schema_file(name).name for name in schemas.SHIPPED}


@pytest.mark.parametrize("name", schemas.SHIPPED)
def test_a_shipped_schema_is_a_json_schema(name: str) -> None:
    validator(name).check_schema(validator(name).schema)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_answer_of_a_real_run_is_valid(name: str) -> None:
    validator("run").validate(json.loads((EVIDENCE / f"{name}.json").read_text()))


@pytest.mark.slow
def test_the_files_and_the_answer_of_a_new_run_are_valid(recorded_home: pathlib.Path) -> None:
    (run,) = map(Run, (recorded_home / "runs").glob("*-*"))
    validator("run-header").validate(json.loads((run.directory / "run.json").read_text()))
    for line in (run.directory / "events.jsonl").read_text().splitlines():
        validator("event").validate(json.loads(line))
    validator("run").validate(json.loads(encode(decide(run))))


@pytest.mark.parametrize("name", RUBRIC_FILES)
def test_a_rubric_file_is_valid(name: str) -> None:
    file = rubric_files.rubric_directory() / f"{name}.toml"
    validator(name).validate(msgspec.toml.decode(file.read_bytes()))


def test_the_specification_is_valid_against_its_own_schemas(specification: dict[str, Any]) -> None:
    own = {
        name: jsonschema.Draft202012Validator(schema)
        for name, schema in specification["schemas"].items()
    }
    assert set(own) == set(schemas.SHIPPED)
    for name, key in (("criteria", "rubric"), ("presets", "presets"), ("models", "models")):
        own[name].validate(specification[key])
    assert specification["workflows"]
    for workflow in specification["workflows"]:
        own["workflow"].validate(workflow)
