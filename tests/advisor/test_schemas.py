"""The schemas of documents, and errors."""

from __future__ import annotations

import functools
import json
import pathlib
import re
from typing import Any

import jsonschema
import msgspec
import pytest

from advisor import errors, schemas, settings
from advisor.ask import rubric_files
from advisor.ask.run_options import RunOptions
from advisor.decide.decision import decide
from advisor.domain.answer import encode
from advisor.errors import SettingsError, UserError
from advisor.store.runs import Run
from probes.wire.outcome import Failure

TESTS = pathlib.Path(__file__).parents[1]
#: Answers that were written on real machines.
EVIDENCE = sorted((TESTS / "stacks" / "evidence").glob("*.json"))
RUBRIC_FILES = (
    "criteria",
    "gpus",
    "guidelines",
    "models",
    "presets",
)


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return a validator with the schema file that ships."""
    return jsonschema.Draft202012Validator(json.loads(schemas.schema_file(name).read_bytes()))


def read_toml(name: str) -> Any:
    return msgspec.toml.decode((rubric_files.rubric_directory() / f"{name}.toml").read_bytes())


@pytest.fixture(scope="module")
def specification() -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(schemas.describe_program())
    return decoded


@pytest.mark.parametrize("name", schemas.SHIPPED)
def test_a_shipped_schema_is_current(name: str) -> None:
    assert schemas.schema_file(name).read_bytes() == schemas.render(name), (
        "run python -m advisor.schemas"
    )


def test_every_shipped_schema_file_is_generated() -> None:
    shipped = {file.name for file in schemas.schema_file("run").parent.iterdir()}
    assert shipped == {schemas.schema_file(name).name for name in schemas.SHIPPED}


@pytest.mark.parametrize("name", schemas.SHIPPED)
def test_a_shipped_schema_is_a_json_schema(name: str) -> None:
    validator(name).check_schema(validator(name).schema)


@pytest.mark.slow
@pytest.mark.parametrize("file", EVIDENCE, ids=lambda file: file.stem)
def test_the_answer_of_a_real_run_is_valid(file: pathlib.Path) -> None:
    validator("run").validate(json.loads(file.read_text()))


@pytest.mark.slow
def test_the_files_and_the_answer_of_a_new_run_are_valid(recorded_home: pathlib.Path) -> None:
    (run,) = map(Run, (recorded_home / "runs").glob("*-*"))
    validator("run-header").validate(json.loads((run.directory / "run.json").read_text()))
    for line in (run.directory / "events.jsonl").read_text().splitlines():
        validator("event").validate(json.loads(line))
    validator("run").validate(json.loads(encode(decide(run))))


@pytest.mark.parametrize("name", RUBRIC_FILES)
def test_a_rubric_file_is_valid(name: str) -> None:
    validator(name).validate(read_toml(name))


@pytest.mark.parametrize(
    "options",
    [{}, {"model": "demo", "gpu": "cpu", "batch_sizes": "1,4", "offline": True}],
    ids=["none", "some"],
)
def test_options_are_valid(options: dict[str, object]) -> None:
    validator("options").validate(options)
    msgspec.convert(options, RunOptions)


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


def subclasses_of(parent: type[UserError]) -> list[type[UserError]]:
    return [kind for child in parent.__subclasses__() for kind in (child, *subclasses_of(child))]


KINDS = subclasses_of(UserError)


def test_names_are_unique() -> None:
    names = [kind.name for kind in KINDS]
    assert len(names) > 10
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_has_its_own_name_and_a_meaning(kind: type[UserError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.name)
    assert "name" in vars(kind), "the name is inherited from another error"
    assert kind.__doc__
    assert kind.__module__ == errors.__name__


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.NothingViableError, 1),
        (errors.SizeError, 2),
        (errors.UnknownModelError, 2),
        (errors.NoStackError, 3),
        (errors.NotWritableError, 3),
        (errors.InterpreterError, 3),
        (errors.BudgetSpentError, 4),
    ],
)
def test_exit_codes_are_stable(kind: type[UserError], code: int) -> None:
    assert kind.exit_code == code


def test_a_baseline_that_was_not_reached_is_no_failure_of_it() -> None:
    late = Failure("skipped", "build", "not built", "allow more", skip_cause="out-of-time")
    found = errors.error_of("pytorch-eager", late)
    assert (type(found), found.next_step) == (errors.BudgetSpentError, "allow more")
    assert type(errors.error_of("pytorch-eager", None)) is errors.NothingViableError


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("servin", "did you mean serving?"),
        ("SERV", "did you mean serving?"),
        ("balnced", "did you mean balanced?"),
        ("xyz", "use one of balanced, serving"),
        ("", "use one of balanced, serving"),
    ],
)
def test_a_misspelt_name_gets_the_nearest_or_all(name: str, step: str) -> None:
    assert errors.choose_among(name, ["balanced", "serving"]) == step


def test_a_settings_file_is_read_or_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config.toml"
    assert settings.read(file) == settings.Settings()
    file.write_text('theme = "p3-high-contrast"\n[keys]\nexport = "ctrl+e"\n')
    assert settings.read(file).keys == {"export": "ctrl+e"}
    file.write_text("colour = 3\n")
    with pytest.raises(SettingsError, match="colour"):
        settings.read(file)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'theme = "dusk"\n'),
        ('theme = "dawn"\n', 'theme = "dusk"\n'),
        (
            '# mine\ntheme = "dawn"  # bright\n\n[keys]\nexport = "x"\n',
            '# mine\ntheme = "dusk"\n\n[keys]\nexport = "x"\n',
        ),
        ('[keys]\nsort = "theme = 3"\n', 'theme = "dusk"\n[keys]\nsort = "theme = 3"\n'),
        ('# only keys\n[keys]\nsort = "s"\n', 'theme = "dusk"\n# only keys\n[keys]\nsort = "s"\n'),
    ],
)
def test_saving_a_theme_keeps_the_rest_of_the_file(
    before: str, after: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "new" / "config.toml"
    if before:
        file.parent.mkdir()
        file.write_text(before)
    settings.save_theme(file, "dusk")
    assert file.read_text() == after
    assert settings.read(file).theme == "dusk"
