"""Servers that were under load, as a user starts them."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shlex
import subprocess
import types
from typing import Any

import builders
import built_answers
import built_measurements
import pytest
from built_answers import with_results

from advisor.decide.serving import started_command
from advisor.domain.answer import Answer
from advisor.domain.model import TransformersModel
from advisor.domain.plan import Plan
from advisor.domain.question import RequestLengths
from advisor.errors import NoRecipeError
from advisor.recipes.server import REQUEST, user_words
from advisor.report import found_recipe, recipe_text
from advisor.report.answer import code_lines
from probes.wire.events import Imported, RecipeFacts, Serving
from probes.wire.facts import InterpreterFacts

MODEL = TransformersModel(name="org/model", config={"model_type": "llama"}, weights="hub")
LOAD = built_measurements.load(
    lengths=(RequestLengths(input_tokens=48, output_tokens=9),),
)
QUESTION = builders.question(task="serve", model=MODEL, load=LOAD, output_tokens=4)
SERVING = Serving(
    url="http://127.0.0.1:52605",
    model="model",
    command="",
    settings={"batching": "continuous"},
    fields={},
    tokenizer="/runs/1/scratch/checkpoint",
    vocabulary=10,
    word="t{:07d}",
    separator=" ",
    variables={"CACHE_GIB": "4; echo hacked"},
)


def measured(serving: Serving, **facts: Any) -> Any:
    environment = InterpreterFacts(
        python="3.12",
        interpreter="/envs/engine/bin/python",
        distributions={"engine": "1.2+cu130", "torch": "2.13.0", "transformers": "5.17.0"},
        providers={"torch": ("torch",), "transformers": ("transformers",)},
    )
    process = builders.process(
        imported=Imported(versions={"engine": "1.2"}, settings={}, environment=environment),
        recipe_facts=RecipeFacts(allowances={}, **facts),
        serving=serving,
    )
    arm = builders.arm("compiled", workflow="engine")
    state = builders.run_state({"compiled": process}, plan=Plan(arms=(arm,), excluded=()))
    return types.SimpleNamespace(
        header=lambda: builders.header(question=QUESTION), state=lambda: state
    )


def answered() -> Answer:
    served = built_measurements.serving(
        built_measurements.served_arm("compiled", goodput=built_measurements.interval(26.5))
    )
    return with_results(built_answers.answer(question=QUESTION), serving=served)


def short(run: Any) -> str:
    entry, found = found_recipe.choose(answered(), run, "compiled")
    return recipe_text.render_short(answered(), entry, found)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -m engine --port 52605 --seed 1", "python -m engine --seed 1"),
        ("engine serve /home/me/checkpoint --port", "engine serve ./checkpoint --port"),
    ],
)
def test_a_users_command_has_no_port_and_no_directory(command: str, words: str) -> None:
    assert user_words(command, "/home/me/checkpoint") == words.split()


def test_a_stored_command_that_is_no_command_line_is_refused() -> None:
    with pytest.raises(NoRecipeError):
        user_words("serve 'open", "org/model")


def test_an_answer_hands_out_the_server_that_was_under_load() -> None:
    """Not the lines of a batch, and as it was started: on both GPUs, with the name of requests."""
    command = (
        "/envs/engine/bin/python -m engine --model /runs/1/scratch/checkpoint --port 52605 "
        "--served-model-name model --tensor-parallel-size 2 --max-model-len 78"
    )
    run = measured(
        dataclasses.replace(SERVING, command=command), serving_command="", integration=""
    )
    process = run.state().processes["compiled"][0]
    served = built_measurements.served_arm(
        "compiled",
        goodput=built_measurements.interval(26.5),
        command=started_command(process, QUESTION),
    )
    answer = with_results(
        built_answers.answer(question=QUESTION), serving=built_measurements.serving(served)
    )
    lines = code_lines(answer)
    start, request = "\n".join(lines).replace("\\\n", "").split(REQUEST)
    assert "# --max-model-len" in start
    assert shlex.split(start, comments=True) == [
        *("env", "CACHE_GIB=4; echo hacked", "python", "-m", "engine", "--model", "org/model"),
        *("--served-model-name", "model", "--tensor-parallel-size", "2"),
        *("--max-model-len", "78", "--port", "8000"),
    ]
    assert json.loads(shlex.split(request)[-1])["model"] == "model"
    entry, found = found_recipe.choose(answer, None, "compiled")
    script = recipe_text.render_short(answer, entry, found)
    assert "--tensor-parallel-size 2" in script
    assert "# --max-model-len is" in script


def test_an_engine_is_started_with_its_variables_and_the_users_port(tmp_path: pathlib.Path) -> None:
    """A value of a run from another machine stays one word of the shell."""
    command = "printenv CACHE_GIB"
    script = tmp_path / "server.sh"
    script.write_text(short(measured(SERVING, serving_command=command, integration="")))
    answer = subprocess.run(["sh", script], capture_output=True, text=True, check=True)
    assert answer.stdout == "4; echo hacked\n"
    (last,) = [line for line in script.read_text().splitlines() if line.startswith("exec ")]
    assert shlex.split(last)[-1] == "$@"
    comments = [line for line in script.read_text().splitlines() if line.startswith("# ")]
    assert any("engine==1.2" in line for line in comments)
    assert any("26.5" in line for line in comments)


def test_the_recipe_of_a_run_under_load_is_its_server() -> None:
    run = measured(SERVING, serving_command="engine", integration="")
    assert recipe_text.render_recommended(answered(), run) == short(run)
