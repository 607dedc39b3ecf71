"""Recipes pin what was measured, and have the measured lines."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import types
from typing import Any

import builders
import built_answers
import msgspec
import pytest
from built_answers import without_advice
from packaging.requirements import Requirement

from advisor.domain.answer import Answer, Problem
from advisor.domain.model import FactoryModel
from advisor.domain.plan import Plan
from advisor.errors import NoRecipeError
from advisor.report import found_recipe, recipe_text
from advisor.report.answer import caveats
from advisor.report.found_recipe import pin
from advisor.text_format import format_interval
from probes.runtime.process import read_environment
from probes.wire.events import Imported, RecipeFacts
from probes.wire.facts import InterpreterFacts, StartLines
from probes.wire.shape import Shape

LINES = "import torch\n\n# Each call:\noutput = model(*inputs)\n"
RECIPE = found_recipe.FoundRecipe(
    requirements=("numpy==2.4.6", "torch==2.13.0"),
    python="==3.11.*",
    integration=LINES,
    serving_command=None,
    allowances={},
)


def render(document: Answer | None = None, arm: str = "compiled", **changes: Any) -> str:
    document = document or built_answers.answer()
    entry = next(each for each in document.ranked if each.arm == arm)
    return recipe_text.render_snippet(document, entry, dataclasses.replace(RECIPE, **changes))


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


ONNX = "torch.onnx.export(model, inputs, 'model.onnx')\n"
OPEN = "session = Session('model.onnx')\n# Each call:\noutput = session.run(inputs)\n"
FROM_FILE = {"onnx-file": StartLines(start=OPEN, write=ONNX)}


def test_a_file_that_the_snippet_writes_at_each_start_can_be_written_once() -> None:
    """Also where no start was timed."""
    document = built_answers.answer()
    entry = next(each for each in document.ranked if each.arm == "compiled")
    found = dataclasses.replace(RECIPE, integration=ONNX + OPEN, starts=FROM_FILE)
    snippet, write, start = (
        style(document, entry, found)
        for style in (
            recipe_text.render_snippet,
            recipe_text.render_write,
            recipe_text.render_start,
        )
    )
    assert recipe_text.ONCE in " ".join(snippet.split())
    assert [ONNX in each for each in (snippet, write, start)] == [True, True, False]
    assert OPEN in start
    assert OPEN not in write
    assert recipe_text.ONCE not in " ".join(render().split())
    for style in (recipe_text.render_write, recipe_text.render_start):
        with pytest.raises(NoRecipeError):
            style(document, entry, RECIPE)


def test_the_header_pins_what_was_measured() -> None:
    assert header_of(render()) == {
        "requires-python": "==3.11.*",
        "dependencies": ["numpy==2.4.6", "torch==2.13.0"],
    }


def test_a_requirement_may_have_extras() -> None:
    asked = ("jax[cuda13,k8s]==0.10.2", "max[serve]==26.7.0")
    assert header_of(render(requirements=asked))["dependencies"] == [*asked]
    found = dataclasses.replace(RECIPE, requirements=asked)
    assert recipe_text.shadows_import("max.py", "", found)


@pytest.mark.parametrize(
    ("name", "is_so"),
    [
        ("torch.py", True),
        ("numpy.py", True),
        ("onnx.py", True),
        ("json.py", True),
        ("serve.py", False),
        ("serve-torch.py", False),
        ("-", False),
    ],
)
def test_a_script_with_the_name_of_a_needed_module_shadows_it(name: str, is_so: bool) -> None:
    text = "import torch\nif torch:\n    from onnx.helper import make_node\n"
    assert recipe_text.shadows_import(name, text, RECIPE) == is_so


@pytest.mark.parametrize("name", ['"""\nimport os\n"""', "\\", "\u2028x", "a\nb", "# ///"])
def test_a_hostile_name_stays_in_the_description(name: str) -> None:
    answer = built_answers.answer()
    cpu = msgspec.structs.replace(answer.machine.cpu, model=name)
    hostile = msgspec.structs.replace(
        answer, machine=msgspec.structs.replace(answer.machine, cpu=cpu)
    )
    shown, expected = (
        [type(node) for node in ast.parse(render(each)).body] for each in (hostile, answer)
    )
    assert shown == expected


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


def measured(arm: str = "compiled", **changes: Any) -> Any:
    """Return a decision on a run of which a process of this arm reported everything."""
    environment = InterpreterFacts(
        python="3.11",
        interpreter="/usr/bin/python3",
        distributions={"torch": "2.13.0+cpu", "numpy": "2.4.6", "onnx": "1.23.2"},
        providers={"torch": ("torch",), "numpy": ("numpy",)},
    )
    facts = {
        "imported": Imported(versions={"onnx": "1.23.2"}, settings={}, environment=environment),
        "recipe_facts": RecipeFacts(
            allowances={"1": (1e-7,)}, serving_command=None, integration=LINES
        ),
        **changes,
    }
    arms = (builders.arm("compiled", extras={"torch": ("cpu",)}), builders.arm(builders.BASELINE))
    state = builders.run_state({arm: builders.process(**facts)}, plan=Plan(arms=arms, excluded=()))
    return types.SimpleNamespace(header=built_answers.finished_header, state=lambda: state)


def test_a_recipe_pins_what_its_lines_import_and_what_the_worker_named() -> None:
    document, run = built_answers.answer(), measured()
    entry, found = found_recipe.choose(document, run, "compiled")
    script = recipe_text.render_snippet(document, entry, found)
    assert header_of(script) == {
        "requires-python": "==3.11.*",
        "dependencies": ["onnx==1.23.2", "torch[cpu]==2.13.0"],
    }
    assert found.allowances == {"1": (1e-7,)}
    assert script.endswith("# Each call:\noutput = model(*inputs)\n")
    assert recipe_text.render_recommended(document, run) == script


def test_a_run_without_a_recipe_names_the_arms_that_have_one() -> None:
    run, answer = measured(builders.BASELINE), built_answers.answer()
    with_lines = [
        msgspec.structs.replace(each, integration=LINES * (each.arm == builders.BASELINE))
        for each in answer.results.measurements
    ]
    results = msgspec.structs.replace(answer.results, measurements=tuple(with_lines))
    with pytest.raises(NoRecipeError) as problem:
        found_recipe.choose(msgspec.structs.replace(answer, results=results), run, "")
    assert builders.BASELINE in problem.value.next_step
    assert recipe_text.render_recommended(built_answers.answer(), run) is None


def test_a_run_without_a_recommendation_gives_its_reason_and_no_step_of_a_measurement() -> None:
    refused = Problem(
        name="nothing-viable",
        what="the model does not open",
        next_step="use --batch-sizes 2",
        exit_code=1,
    )
    answer = without_advice(built_answers.answer(), refused)
    with pytest.raises(NoRecipeError) as problem:
        found_recipe.choose(answer, measured(recipe_facts=None), "")
    assert answer.run_id in problem.value.what
    assert refused.what in problem.value.what
    assert "--batch-sizes" not in problem.value.next_step


@pytest.mark.parametrize("coupled", [True, False, None])
def test_a_recipe_knows_whether_the_rows_of_its_model_are_coupled(coupled: bool | None) -> None:
    facts = RecipeFacts(allowances={}, serving_command=None, integration="", coupled_rows=coupled)
    run = measured(recipe_facts=facts)
    _, found = found_recipe.choose(built_answers.answer(), run, "compiled")
    assert found.coupled_rows is coupled


@pytest.mark.parametrize("arm", ["compiled", builders.BASELINE])
def test_a_snippet_has_the_speed_up_of_an_arm_but_the_baseline(arm: str) -> None:
    document = built_answers.answer(question=builders.question(model=FactoryModel(name="net.py:b")))
    entry = next(each for each in document.ranked if each.arm == arm)
    title = ast.get_docstring(ast.parse(render(document, arm)))
    speedup = format_interval(entry.cells[0].speedup)
    assert (speedup in " ".join((title or "").split())) == (arm != builders.BASELINE)


def test_a_snippet_has_the_batch_size_that_is_asked_for() -> None:
    document = built_answers.answer()
    entry = document.ranked[0]
    assert "torch.randn(1, " in recipe_text.render_snippet(document, entry, RECIPE)
    assert "torch.randn(7, " in recipe_text.render_snippet(document, entry, RECIPE, Shape(7))


@pytest.mark.parametrize("style", ["snippet", "server", "command"])
def test_a_recipe_states_that_its_run_has_no_answer(style: str) -> None:
    question = builders.question(model=FactoryModel(name="net.py:build"))
    answered = built_answers.answer(question=question)
    problem = Problem(name="machine-unfit", what="unsteady", next_step="measure again", exit_code=4)
    unanswered = without_advice(answered, problem)
    command = "vllm serve net" if style == "command" else None
    found = dataclasses.replace(RECIPE, serving_command=command)

    def render_style(document: Answer) -> str:
        entry = document.ranked[0]
        text = (
            recipe_text.render_snippet(document, entry, found)
            if style == "snippet"
            else recipe_text.render_server(document, entry, found)
        )
        return " ".join(text.replace("\n# ", " ").split())

    assert caveats(answered) == []
    assert len(caveats(unanswered)) == 2
    for line in caveats(unanswered):
        assert line in render_style(unanswered)
        assert line not in render_style(answered)
    if style == "snippet":
        figure = f"{answered.ranked[0].cells[0].speedup.value:.2f}x"
        assert figure in render_style(answered)
        assert figure not in render_style(unanswered), "a busy machine gives ranges"


@pytest.mark.parametrize("missing", ["imported", "recipe_facts"])
def test_a_process_that_did_not_report_everything_has_no_recipe(missing: str) -> None:
    absent: dict[str, Any] = {missing: None}
    assert found_recipe.find_recipe(measured(**absent), "compiled") is None


def environment(
    distributions: dict[str, str], providers: dict[str, tuple[str, ...]]
) -> InterpreterFacts:
    return InterpreterFacts(
        python="3.11",
        interpreter="python3",
        distributions=distributions,
        providers=providers,
    )


@functools.cache
def this_environment() -> InterpreterFacts:
    """Return the environment of the tests, as a worker in it reports it."""
    return msgspec.convert(dataclasses.asdict(read_environment()), InterpreterFacts)


def test_the_providers_of_imports_and_the_installed_versions_are_pinned() -> None:
    pins = [
        Requirement(each)
        for each in pin(
            {"msgspec", "packaging", "json"},
            {"psutil": "1", "cuda": "13.0"},
            this_environment(),
            {},
        )
    ]
    assert [each.name for each in pins] == ["msgspec", "packaging", "psutil"]
    assert all(
        str(each.specifier).startswith("==") and "+" not in str(each.specifier) for each in pins
    )


def test_the_extras_of_a_distribution_are_required() -> None:
    (found,) = map(
        Requirement,
        pin(
            {"msgspec"},
            {},
            this_environment(),
            {"msgspec": ("toml", "yaml"), "elsewhere": ("more",)},
        ),
    )
    assert (found.name, found.extras) == ("msgspec", {"toml", "yaml"})


@pytest.mark.parametrize("name", ["torch_xla", "Torch.XLA", "torch-xla"])
def test_names_are_compared_normalised_and_local_versions_left_out(name: str) -> None:
    found = environment({"torch-xla": "2.9.0+cpu"}, {})
    assert pin((), {name: "2.9.0"}, found, {}) == [f"{name}==2.9.0"]


def test_of_several_providers_the_first_is_pinned_and_a_broken_one_is_not() -> None:
    found = environment(
        {"onnxruntime": "1.0", "onnxruntime-gpu": "1.1"},
        {"onnxruntime": ("onnxruntime-gpu", "onnxruntime"), "broken": ("gone",)},
    )
    assert pin({"onnxruntime", "broken"}, {}, found, {}) == ["onnxruntime==1.0"]
