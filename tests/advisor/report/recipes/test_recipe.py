"""The script of an arm: its pins, its measured figures and hostile input."""

from __future__ import annotations

import ast
import json
import os
import pathlib
import re
import subprocess
import sys
import types
from typing import Any

import builders
import built_answers
import msgspec
import pytest
from report_runs import without_advice

from advisor.catalogue import rubric_files
from advisor.domain.answer import Answer, Problem
from advisor.domain.measurement import CallSeconds
from advisor.domain.model import FactoryModel
from advisor.domain.plan import Plan
from advisor.domain.recipe_facts import RecipeFacts
from advisor.domain.run_state import RunState
from advisor.domain.worker_events import Environment, Imported, Recipe
from advisor.errors import NoRecipeError
from advisor.report.recipes import found_recipe, script_recipe, server_recipe, short_recipe
from advisor.report.sections.answer import caveats
from advisor.system.number_format import format_interval
from probes.runtime.source_digest import source_digest

PROBES = rubric_files.probes_directory()
#: As runs of earlier versions store it.
RECIPE = Recipe(
    imports=("import json",),
    source="print(json.dumps(MEASURED))",
    requirements=("numpy==2.4.6", "torch==2.13.0"),
    python="==3.11.*",
    interpreter="python3",
    serving_command=None,
)


def run_of(state: RunState) -> Any:
    """Return what a recipe reads of a stored run with this state."""
    return types.SimpleNamespace(header=built_answers.finished_header, state=lambda: state)


def stored(**recipes: Recipe | None) -> Any:
    """Return a run of an earlier version, which stores a recipe by arm."""
    processes = {arm: builders.process(recipe=each) for arm, each in recipes.items()}
    return run_of(builders.run_state(processes))


def render(answer: Answer | None = None, **changes: Any) -> str:
    answer = answer or built_answers.answer()
    run = stored(compiled=msgspec.structs.replace(RECIPE, **changes))
    return script_recipe.render(answer, *found_recipe.choose(answer, run, "", PROBES))


def header_of(script: str) -> dict[str, object]:
    """Read the header as PEP 723 specifies."""
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


def test_a_requirement_may_have_extras() -> None:
    asked = ("jax[cuda13,k8s]==0.10.2", "max[serve]==26.7.0")
    assert header_of(render(requirements=asked))["dependencies"] == [*asked]
    assert script_recipe.shadows_import(
        "max.py", msgspec.structs.replace(RECIPE, requirements=("max[serve]==26.7.0",))
    )


def test_the_script_has_the_measured_throughput() -> None:
    script = render()
    (cell,) = built_answers.answer().ranked[0].cells
    measured = next(node for node in ast.parse(script).body if isinstance(node, ast.Assign))
    interval = script_recipe.throughput_interval(cell)
    assert ast.literal_eval(measured.value) == {1: (interval.low, interval.value, interval.high)}
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
def test_a_script_with_the_name_of_a_needed_module_shadows_it(name: str, is_so: bool) -> None:
    assert script_recipe.shadows_import(name, RECIPE) == is_so


@pytest.mark.parametrize(
    ("own", "found"), [({}, ["3", "false"]), ({"P3_THREADS": "7"}, ["7", "false"])]
)
def test_variables_are_set_before_imports_unless_the_user_sets_them(
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


def test_hostile_variables_stay_values() -> None:
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


def test_the_bounds_of_a_throughput_follow_from_those_of_the_seconds() -> None:
    (cell,) = built_answers.answer().ranked[0].cells
    seconds = CallSeconds(median=0.1, low=0.05, high=0.2, samples=9)
    interval = script_recipe.throughput_interval(msgspec.structs.replace(cell, seconds=seconds))
    assert interval.low == pytest.approx(interval.value / 2)
    assert interval.high == pytest.approx(interval.value * 2)
    seconds = CallSeconds(median=0.1, low=None, high=None, samples=1)
    interval = script_recipe.throughput_interval(msgspec.structs.replace(cell, seconds=seconds))
    assert (interval.low, interval.high) == (None, None)


@pytest.mark.parametrize("name", ['"""\nimport os\n"""', "\\", "\u2028x", "a\nb", "# ///"])
def test_a_hostile_name_stays_in_the_description(name: str) -> None:
    model = msgspec.structs.replace(builders.question().model, name=name)
    script = render(built_answers.answer(question=builders.question(model=model)))
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
def test_requirements_that_are_not_pins_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(NoRecipeError):
        render(**changes)


def test_the_description_has_the_origin() -> None:
    assert script_recipe.RUN_IMPORTED in render(built_answers.answer(imported=True))
    assert script_recipe.RUN_IMPORTED not in render()


def test_a_run_without_a_recipe_names_the_arms_that_have_one() -> None:
    run = stored(compiled=None, **{builders.BASELINE: RECIPE})
    with pytest.raises(NoRecipeError) as problem:
        found_recipe.choose(built_answers.answer(), run, "", PROBES)
    assert builders.BASELINE in problem.value.next_step
    with pytest.raises(NoRecipeError):
        found_recipe.choose(built_answers.answer(), stored(), "compiled", PROBES)
    assert short_recipe.render_recommended(built_answers.answer(), run, PROBES) is None


def test_a_run_without_a_recommendation_gives_its_reason_and_no_step_of_a_measurement() -> None:
    refused = Problem(
        name="nothing-viable", what="the model does not open", next_step="use --batch-sizes 2"
    )
    answer = without_advice(built_answers.answer(), refused)
    with pytest.raises(NoRecipeError) as problem:
        found_recipe.choose(answer, stored(), "", PROBES)
    assert answer.run_id in problem.value.what
    assert refused.what in problem.value.what
    assert "--batch-sizes" not in problem.value.next_step


def measured(workflow: str, digest: str = "", **changes: Any) -> Any:
    """Return a run of this version, whose arm `compiled` ran `workflow`."""
    environment = Environment(
        python="3.11",
        interpreter="/usr/bin/python3",
        distributions={"torch": "2.13.0+cpu", "numpy": "2.4.6"},
        providers={"torch": ("torch",), "numpy": ("numpy",)},
        source_digest=digest,
    )
    facts = {
        "imported": Imported(
            versions={"torch": "2.13.0"}, settings={}, seconds=1.0, environment=environment
        ),
        "recipe_facts": RecipeFacts(allowances={1: (1e-7,)}, serving_command=None, integration=""),
        **changes,
    }
    arm = builders.arm("compiled", workflow=workflow, extras={"torch": ("cpu",)})
    plan = Plan(arms=(arm,), excluded=())
    return run_of(builders.run_state({"compiled": builders.process(**facts)}, plan=plan))


@pytest.mark.parametrize("coupled", [True, False, None])
def test_a_recipe_knows_whether_the_rows_of_its_model_are_coupled(coupled: bool | None) -> None:
    facts = RecipeFacts(allowances={}, serving_command=None, integration="", coupled_rows=coupled)
    run = measured("pytorch-eager", source_digest(PROBES), recipe_facts=facts)
    _, found = found_recipe.choose(built_answers.answer(), run, "compiled", PROBES)
    assert found.coupled_rows is coupled


def test_the_script_is_composed_from_the_source_of_the_measured_workflow() -> None:
    answer, run = built_answers.answer(), measured("pytorch-eager", source_digest(PROBES))
    script = script_recipe.render(answer, *found_recipe.choose(answer, run, "compiled", PROBES))
    assert header_of(script) == {
        "requires-python": "==3.11.*",
        "dependencies": ["numpy==2.4.6", "torch[cpu]==2.13.0"],
    }
    body = ast.parse(script).body
    assigned = {
        node.targets[0].id: node.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert ast.literal_eval(assigned["EAGER_ERRORS"]) == {1: [1e-7]}
    request = assigned["REQUEST"]
    assert isinstance(request, ast.Call)
    values = {each.arg: ast.literal_eval(each.value) for each in request.keywords}
    assert values["arm"] == "compiled"
    assert values["subject"] == msgspec.to_builtins(run.header().question.model)
    assert {"check_and_time", "time_block"} <= {
        node.name for node in body if isinstance(node, ast.FunctionDef)
    }
    assert found_recipe.SOURCE_CHANGED not in script
    assert short_recipe.render_recommended(answer, run, PROBES) == script


@pytest.mark.parametrize("arm", ["compiled", builders.BASELINE])
def test_the_short_recipe_has_the_speed_up_of_an_arm_but_the_baseline(arm: str) -> None:
    question = builders.question(model=FactoryModel(name="net.py:build"))
    answer = built_answers.answer(question=question)
    entry = next(each for each in answer.ranked if each.arm == arm)
    found = found_recipe.FoundRecipe(RECIPE, integration="outputs = model(*inputs)")
    title = ast.get_docstring(ast.parse(script_recipe.render_snippet(answer, entry, found)))
    speedup = format_interval(entry.cells[0].speedup)
    assert (speedup in " ".join((title or "").split())) == (arm != builders.BASELINE)


@pytest.mark.parametrize("style", ["snippet", "script", "server", "command"])
def test_a_recipe_states_that_its_run_has_no_answer(style: str) -> None:
    question = builders.question(model=FactoryModel(name="net.py:build"))
    answered = built_answers.answer(question=question)
    problem = Problem(name="machine-unfit", what="unsteady", next_step="measure again")
    unanswered = without_advice(answered, problem)
    recipe = msgspec.structs.replace(
        RECIPE, serving_command="vllm serve net" if style == "command" else None
    )
    lines = "import torch\n\n# Each call:\noutput = model(*inputs)\n"
    found = found_recipe.FoundRecipe(recipe, integration=lines)

    def render_style(answer: Answer) -> str:
        entry = answer.ranked[0]
        if style in {"server", "command"}:
            text = server_recipe.render_server(answer, entry, found)
        elif style == "snippet":
            text = script_recipe.render_snippet(answer, entry, found)
        else:
            text = script_recipe.render(answer, entry, found)
        return " ".join(text.replace("\n# ", " ").split())

    assert caveats(answered) == []
    assert len(caveats(unanswered)) == 2
    for line in caveats(unanswered):
        assert line in render_style(unanswered)
        assert line not in render_style(answered)


def test_the_path_of_the_quantiser_is_not_that_of_the_measuring_machine() -> None:
    made = measured("vllm", source_digest(PROBES))
    state = made.state()
    arm = msgspec.structs.replace(
        state.plan.arms[0], quantiser="/home/me/bin/python", options={"scheme": "W8A8"}
    )
    plan = msgspec.structs.replace(state.plan, arms=(arm,))
    run = run_of(msgspec.structs.replace(state, plan=plan))
    found = found_recipe.find_recipe(run, "compiled", PROBES)
    assert found is not None
    assert f"quantiser='{found_recipe.QUANTISER}'" in found.recipe.source.replace('"', "'")
    assert "/home/me" not in found.recipe.source
    # The lines that the adapter hands out name the same interpreter.
    assert f'"{found_recipe.QUANTISER}"' in (PROBES / "stacks" / "llm_compressor.py").read_text()


def test_the_recipe_of_an_engine_has_the_memory_that_it_had() -> None:
    found = found_recipe.find_recipe(measured("vllm"), "compiled", PROBES)
    assert found is not None
    shipped = rubric_files.read_shipped_engine_memory()["vllm"]
    assert f"'cache_factor': {shipped.cache_factor}" in found.recipe.source.replace('"', "'")


def test_the_head_notes_that_the_source_has_changed_since_the_measurement() -> None:
    answer, run = built_answers.answer(), measured("pytorch-eager", "another")
    entry, found = found_recipe.choose(answer, run, "", PROBES)
    assert found.is_source_changed
    assert found_recipe.SOURCE_CHANGED in (
        ast.get_docstring(ast.parse(script_recipe.render(answer, entry, found))) or ""
    )


@pytest.mark.parametrize("workflow", ["gone", "../protocol", "/etc/passwd", "__init__/x"])
def test_a_workflow_that_this_version_does_not_have_is_refused(workflow: str) -> None:
    with pytest.raises(NoRecipeError, match="this version has no workflow") as problem:
        found_recipe.choose(built_answers.answer(), measured(workflow), "compiled", PROBES)
    assert builders.header().advisor_version in problem.value.next_step


def test_a_workflow_without_the_functions_of_one_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "empty.py").write_text("")
    with pytest.raises(NoRecipeError, match="defines no versions"):
        found_recipe.choose(built_answers.answer(), measured("empty"), "compiled", tmp_path)


@pytest.mark.parametrize("missing", ["imported", "recipe_facts"])
def test_a_process_that_did_not_report_everything_has_no_recipe(missing: str) -> None:
    absent: dict[str, Any] = {missing: None}
    run = measured("pytorch-eager", **absent)
    assert found_recipe.find_recipe(run, "compiled", PROBES) is None
