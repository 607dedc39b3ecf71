"""Servers and images of arms: pins, commands of engines, and text of runs that stays data."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import shlex
import subprocess
from typing import Any

import builders
import built_answers
import msgspec
import pytest
from built_answers import with_measurement

from advisor.ask import rubric_files
from advisor.domain.answer import Answer
from advisor.domain.model import ExportedModel, FactoryModel, Model, TransformersModel
from advisor.errors import NoRecipeError
from advisor.report import recipe_text
from advisor.report.found_recipe import FoundRecipe
from advisor.report.recipe_text import render_dockerfile, render_server
from probes.wire.facts import EACH_CALL, InputFacts
from probes.wire.shape import Shape

PROBES = rubric_files.probes_directory()
INTEGRATION = "import torch\n\n# Each call:\noutput = model(*inputs)\n"


def answer_to(model: Model | None = None, **changes: Any) -> Answer:
    chosen: dict[str, Any] = {"model": model} if model else {}
    question = builders.question(**chosen, **changes)
    return built_answers.answer(question=question)


def found(**changes: Any) -> FoundRecipe:
    fields: dict[str, Any] = {
        "requirements": ("numpy==2.4.6", "torch==2.13.0"),
        "python": "==3.11.*",
        "integration": INTEGRATION,
        "serving_command": None,
        "allowances": {},
    }
    return FoundRecipe(**{**fields, **changes})


def server(answer: Answer, recipe: FoundRecipe) -> str:
    return render_server(answer, answer.ranked[0], recipe)


def dockerfile(answer: Answer, recipe: FoundRecipe) -> str:
    return render_dockerfile(answer, answer.ranked[0], recipe)


def test_a_server_needs_what_was_measured_and_its_own_libraries() -> None:
    script = server(answer_to(), found())
    wanted = re.findall(r'^#     "([^"]+)",$', script, re.MULTILINE)
    assert wanted[:2] == ["numpy==2.4.6", "torch==2.13.0"]
    assert [re.split("[<>=]", each)[0] for each in wanted[2:]] == ["mosec"]


@pytest.mark.parametrize("coupled", [True, False, None])
def test_only_requests_for_independent_rows_share_a_call(coupled: bool | None) -> None:
    answer = answer_to()
    slow, *_ = answer.ranked[0].cells
    throughput = msgspec.structs.replace(slow.throughput, value=2 * slow.throughput.value)
    fast = msgspec.structs.replace(slow, shape=Shape(8), throughput=throughput)
    answer = with_measurement(answer, cells=(slow, fast))
    inputs = (InputFacts(name="", shape=(4,), dtype="float32"),)
    recipe = dataclasses.replace(found(), coupled_rows=coupled, inputs=inputs)
    script = server(answer, recipe)
    limits = [
        ast.literal_eval(each.value)
        for each in ast.walk(ast.parse(script))
        if isinstance(each, ast.keyword) and each.arg == "max_batch_size"
    ]
    assert limits == [8 if coupled is False else 1]


def test_generated_text_and_a_command_that_is_none_have_no_server_and_so_no_image() -> None:
    texts = answer_to(TransformersModel(name="org/m", weights="hub"), task="generate")
    nested = answer_to(FactoryModel(name="nets.py:build"))
    for render, answer, recipe in (
        (server, texts, found()),
        (server, answer_to(), found(serving_command="serve 'open")),
        (dockerfile, nested, found(inputs=())),
    ):
        with pytest.raises(NoRecipeError):
            render(answer, recipe)


@pytest.mark.parametrize("name", ["org/model", "/secret/place/model", "a; touch x", "$(touch x)"])
def test_an_engine_is_served_by_its_own_command(name: str, tmp_path: Any) -> None:
    answer = answer_to(TransformersModel(name=name, weights=name), task="generate")
    recipe = found(serving_command=f"echo serve {shlex.quote(name)} --dtype float16")
    script = tmp_path / "server.sh"
    script.write_text(server(answer, recipe))
    printed = subprocess.run(
        ["sh", script, "--port", "1"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    expected = name.replace("/secret/place/", "./")
    assert printed.stdout == f"serve {expected} --dtype float16 --port 1\n"
    assert [*tmp_path.iterdir()] == [script]


@pytest.mark.parametrize("name", ["a\ntouch x", "\u2028touch x", "a\rtouch x"])
def test_a_hostile_name_stays_in_the_comment(name: str, tmp_path: Any) -> None:
    answer = answer_to(TransformersModel(name=name, weights="random"), task="generate")
    script = tmp_path / "server.sh"
    script.write_text(server(answer, found(serving_command="true")))
    subprocess.run(["sh", script], check=True, cwd=tmp_path)
    assert [*tmp_path.iterdir()] == [script]


@pytest.mark.parametrize("render", [server, dockerfile])
@pytest.mark.parametrize("command", [None, "serve"])
def test_requirements_that_are_not_pins_are_refused(render: Any, command: str | None) -> None:
    with pytest.raises(NoRecipeError):
        render(answer_to(), found(requirements=("x; touch y",), serving_command=command))


def instructions(text: str) -> dict[str, list[str]]:
    """Return the arguments of the instructions of a Dockerfile by their name."""
    by_name: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, arguments = line.partition(" ")
            by_name.setdefault(name, []).append(arguments)
    return by_name


@pytest.mark.parametrize(
    ("model", "files"),
    [
        (None, []),
        (ExportedModel(name="/secret/net.pt2"), ["net.pt2"]),
        (FactoryModel(name="/secret/net.py:build"), ["net.py"]),
        (FactoryModel(name="package.net:build"), []),
    ],
)
def test_an_image_has_the_server_and_the_users_files(model: Model | None, files: list[str]) -> None:
    made = instructions(dockerfile(answer_to(model), found()))
    assert made["FROM"] == ["python:3.11-slim"]
    assert [json.loads(each)[0] for each in made["COPY"]] == ["server.py", *files]
    assert json.loads(made["ENTRYPOINT"][0]) == ["python", "server.py"]
    assert made["RUN"][-1].endswith("-r server.py")
    assert [each for each in made["RUN"][1].split() if "uv" in each] == [recipe_text.UV]
    assert made["USER"] == ["server"]


def test_the_image_of_an_engine_runs_its_command() -> None:
    answer = answer_to(TransformersModel(name="org/m", weights="hub"), task="generate")
    made = instructions(dockerfile(answer, found(serving_command="engine serve org/m")))
    assert json.loads(made["ENTRYPOINT"][0]) == ["engine", "serve", "org/m"]
    assert made["RUN"][-1].endswith("numpy==2.4.6 torch==2.13.0")
    assert "COPY" not in made


@pytest.mark.parametrize(
    ("version", "backend"),
    [("2.13.0+cpu", "cpu"), ("2.13.0+cu130", "cu130"), ("2.13.0+x; touch y", ""), ("2.13.0", "")],
)
def test_an_image_installs_the_measured_build_of_torch(version: str, backend: str) -> None:
    answer = answer_to()
    answer = with_measurement(answer, versions={"torch": version})
    text = dockerfile(answer, found())
    assert re.findall(r"--torch-backend (\S+)", text) == ([backend] if backend else [])
    assert "touch" not in text


def test_every_workflow_for_modules_has_the_lines_of_each_call() -> None:
    for workflow in builders.shipped_catalogue().workflows:
        if workflow.has_probe and "forward" in workflow.tasks and workflow.integration:
            assert EACH_CALL.search(workflow.integration.source), workflow.id
