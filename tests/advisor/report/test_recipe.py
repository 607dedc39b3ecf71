"""The recipe's head pins what was measured, and nothing that a run holds can break out of it."""

from __future__ import annotations

import ast
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import builders
import msgspec
import pytest

from advisor.domain.measurement import Seconds
from advisor.domain.run_state import RunState
from advisor.domain.worker_events import Recipe
from advisor.errors import NoRecipeError
from advisor.report import recipe
from advisor.report.document import RunDocument

RECIPE = Recipe(
    imports=("import json",),
    source="print(json.dumps(MEASURED))",
    requirements=("numpy==2.4.6", "torch==2.13.0"),
    python="==3.11.*",
    interpreter="python3",
    serving_command=None,
)


def state(**recipes: Recipe | None) -> RunState:
    return builders.run_state({arm: builders.process(recipe=each) for arm, each in recipes.items()})


def render(document: RunDocument | None = None, **changes: Any) -> str:
    document = document or builders.document()
    entry, found = recipe.choose(
        document, state(compiled=msgspec.structs.replace(RECIPE, **changes)), ""
    )
    return recipe.render(document, entry, found)


def header_of(script: str) -> dict[str, object]:
    """Read the header as PEP 723 says."""
    match = re.search(
        r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$", script
    )
    assert match is not None
    lines = match["content"].splitlines(keepends=True)
    made: dict[str, object] = msgspec.toml.decode(
        "".join(line[2:] if line.startswith("# ") else line[1:] for line in lines).encode()
    )
    return made


def test_the_header_pins_what_was_measured() -> None:
    assert header_of(render()) == {
        "requires-python": "==3.11.*",
        "dependencies": ["numpy==2.4.6", "torch==2.13.0"],
    }


def test_the_header_may_ask_for_an_extra() -> None:
    asked = ("jax[cuda13,k8s]==0.10.2", "max[serve]==26.7.0")
    assert header_of(render(requirements=asked))["dependencies"] == [*asked]
    assert recipe.is_in_the_way(
        "max.py", msgspec.structs.replace(RECIPE, requirements=("max[serve]==26.7.0",))
    )


def test_the_script_knows_what_it_has_to_reach() -> None:
    script = render()
    (cell,) = builders.document().workflows[0].cells
    measured = next(node for node in ast.parse(script).body if isinstance(node, ast.Assign))
    assert ast.literal_eval(measured.value) == {1: recipe.throughput_bounds(cell)}
    assert (ast.get_docstring(ast.parse(script)) or "").startswith(
        "synthetic/ffn@8x16 with compiled on Fancy CPU"
    )


@pytest.mark.parametrize(
    ("name", "is_so"),
    [
        ("torch.py", True),
        ("numpy.py", True),
        ("json.py", True),
        ("serve.py", False),
        ("serve-torch.py", False),
        ("-", False),
    ],
)
def test_a_script_that_python_would_import_in_place_of_a_module_is_in_the_way(
    name: str, is_so: bool
) -> None:
    assert recipe.is_in_the_way(name, RECIPE) == is_so


@pytest.mark.parametrize(
    ("own", "found"), [({}, ["3", "false"]), ({"P3_THREADS": "7"}, ["7", "false"])]
)
def test_variables_are_set_before_a_stack_is_imported_unless_the_user_has(
    own: dict[str, str], found: list[str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "stack.py").write_text(
        "import os\nSEEN = [os.environ['P3_THREADS'], os.environ['P3_MEMORY']]\n"
    )
    variables = {"P3_THREADS": "3", "P3_MEMORY": "false"}
    imports = ("import json", "import os", "import stack")
    script = render(variables=variables, imports=imports, source="print(json.dumps(stack.SEEN))")
    assert script.count("import os\n") == 1
    (tmp_path / "serve.py").write_text(script)
    answer = subprocess.run(
        [sys.executable, tmp_path / "serve.py"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **own},
    )
    assert json.loads(answer.stdout) == found


def test_variables_that_say_more_than_values_stay_values() -> None:
    body = ast.parse(render(variables={"A": '"})\nimport this\n({"', "it's": "\\"})).body
    assert [type(node) for node in body] == [
        ast.Expr,
        ast.ImportFrom,
        ast.Import,
        ast.Expr,
        ast.Expr,
        ast.Import,
        ast.Assign,
        ast.Expr,
    ]


def test_a_throughput_has_the_ends_that_its_seconds_have() -> None:
    (cell,) = builders.document().workflows[0].cells
    bounded = msgspec.structs.replace(
        cell, seconds=Seconds(median=0.1, low=0.05, high=0.2, samples=9)
    )
    low, value, high = recipe.throughput_bounds(bounded)
    assert low == pytest.approx(value / 2)
    assert high == pytest.approx(value * 2)
    assert (
        recipe.throughput_bounds(
            msgspec.structs.replace(
                cell, seconds=Seconds(median=0.1, low=None, high=None, samples=1)
            )
        )[0]
        is None
    )


@pytest.mark.parametrize("name", ['"""\nimport os\n"""', "\\", "\u2028x", "a\nb", "# ///"])
def test_a_hostile_name_stays_in_the_description(name: str) -> None:
    model = msgspec.structs.replace(builders.question().model, name=name)
    script = render(builders.document(question=builders.question(model=model)))
    kinds = [type(node) for node in ast.parse(script).body]
    assert kinds == [ast.Expr, ast.ImportFrom, ast.Import, ast.Assign, ast.Expr]


@pytest.mark.parametrize(
    "changes",
    [
        {"python": '"\nx'},
        {"requirements": ("torch @ file:///x",)},
        {"requirements": ('x==1"\n# ]',)},
    ],
)
def test_a_header_that_says_more_than_pins_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(NoRecipeError):
        render(**changes)


def test_the_serving_command_of_an_engine_and_the_origin_of_a_run_are_told() -> None:
    assert "engine serve --port 80" in render(serving_command="engine serve --port 80")
    assert "read this script before you run it" in render(builders.document(imported=True))
    assert "imported" not in render()


def test_a_run_without_recipes_names_those_that_there_are() -> None:
    with pytest.raises(NoRecipeError) as problem:
        recipe.choose(builders.document(), state(compiled=None, **{builders.BASELINE: RECIPE}), "")
    assert builders.BASELINE in problem.value.next_step
    with pytest.raises(NoRecipeError):
        recipe.choose(builders.document(), state(), "compiled")
