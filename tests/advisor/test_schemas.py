"""The JSON Schemas that ship are those of the types, and what the program writes fits them."""

from __future__ import annotations

import json
from typing import Any

import builders
import jsonschema
import msgspec
import pytest

from advisor import catalogue, schemas
from advisor.domain.run_events import Finished, Planned, Spawned, WorkerReported
from advisor.question.answers import Answers


@pytest.mark.parametrize("name", schemas.SHIPPED)
def test_a_shipped_schema_is_current(name: str) -> None:
    assert schemas.file_of(name).read_bytes() == schemas.render(name), (
        "run python -m advisor.schemas"
    )


def test_no_schema_ships_that_describes_nothing() -> None:
    shipped = {file.name for file in schemas.file_of("run").parent.iterdir()}
    assert shipped == {schemas.file_of(name).name for name in schemas.SHIPPED}


@pytest.mark.parametrize("name", schemas.SHIPPED)
def test_a_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schemas.generate(name))


def toml(name: str) -> Any:
    return msgspec.toml.decode((catalogue.rubric_directory() / name).read_bytes())


PLANNED, SPAWNED, HEARD, FINISHED = builders.events(
    Planned(plan=builders.plan("compiled", excluded=[builders.excluded()])),
    Spawned(arm="compiled", process=0),
    WorkerReported(arm="compiled", process=0, said=builders.visits([0.1])[0]),
    Finished(),
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run", builders.document()),
        ("run-header", builders.header()),
        (
            "run-header",
            builders.header(machine=builders.gpu_machine(), catalogue=builders.shipped_catalogue()),
        ),
        ("event", PLANNED),
        ("event", SPAWNED),
        ("event", HEARD),
        ("event", FINISHED),
        ("options", Answers()),
        ("criteria", toml("criteria.toml")),
        ("models", toml("models.toml")),
        ("presets", toml("presets.toml")),
        ("gpus", toml("gpus.toml")),
    ],
)
def test_what_the_program_writes_and_ships_fits_its_schema(name: str, value: object) -> None:
    jsonschema.validate(json.loads(msgspec.json.encode(value)), schemas.generate(name))


@pytest.mark.parametrize(
    "workflow", builders.shipped_catalogue().workflows, ids=lambda workflow: workflow.id
)
def test_every_shipped_workflow_fits_its_schema(workflow: object) -> None:
    jsonschema.validate(json.loads(msgspec.json.encode(workflow)), schemas.generate("workflow"))


def test_a_document_that_lacks_a_key_does_not_fit() -> None:
    told = json.loads(msgspec.json.encode(builders.document()))
    del told["workflows"][0]["status"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(told, schemas.generate("run"))
