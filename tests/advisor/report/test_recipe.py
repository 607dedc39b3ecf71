from __future__ import annotations

import ast
import dataclasses
import pathlib
import re
import shlex
import subprocess
from typing import Any

import builders
import built_answers
import msgspec
import pytest
from built_answers import with_measurement, with_results, without_advice
from forks import run_command
from packaging.requirements import Requirement
from recorded_runs import UnstoredRun

from advisor.domain.answer import Answer
from advisor.domain.errors import MachineUnfitError, NoRecipeError, NothingViableError
from advisor.domain.model import FactoryModel, Model, TransformersModel
from advisor.domain.run_state import Header
from advisor.domain.text import format_interval, write_speedup
from advisor.recipes.arm_recipe import ArmRecipe, find_recipe, pin
from advisor.report import recipe_text
from advisor.report.answer_lines import caveats
from advisor.report.recipe_text import render_server
from probes.events import Imported
from probes.facts import EACH_CALL, InputSpec, InterpreterFacts, StartLines
from probes.runtime.process import read_environment
from probes.shape import Shape

LINES = "import torch\n\n# Each call:\noutput = model(*inputs)\n"
RECIPE = ArmRecipe(
    requirements=("numpy==2.4.6", "torch==2.13.0"),
    python="==3.11.*",
    integration=LINES,
    serving_command=None,
    allowances={},
)


def found(**changes: Any) -> ArmRecipe:
    return builders.replace(RECIPE, **changes)


def render(document: Answer | None = None, arm: str = "compiled", **changes: Any) -> str:
    document = document or built_answers.answer()
    entry = next(each for each in document.ranking if each.arm == arm)
    return recipe_text.render_snippet(document, entry, found(**changes))


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
    entry = next(each for each in document.ranking if each.arm == "compiled")
    recipe = found(integration=ONNX + OPEN, starts=FROM_FILE)
    snippet, write, start = (
        style(document, entry, recipe)
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


def test_a_requirement_may_have_extras() -> None:
    asked = ("jax[cuda13,k8s]==0.10.2", "max[serve]==26.7.0")
    assert header_of(render(requirements=asked))["dependencies"] == [*asked]
    assert recipe_text.shadows_import("max.py", "", found(requirements=asked))


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
    cpu = builders.replace(answer.machine.cpu, model=name)
    hostile = builders.replace(answer, machine=builders.replace(answer.machine, cpu=cpu))
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


def run_of(arm: str = "compiled", *, head: Header | None = None, **changes: Any) -> UnstoredRun:
    """Return a run of which a process of this arm reported everything."""
    own = builders.interpreter_facts({"torch": "2.13.0+cpu", "numpy": "2.4.6", "onnx": "1.23.2"})
    facts = {
        "imported": Imported(versions={"onnx": "1.23.2"}, settings={}, environment=own),
        "snippet_facts": builders.snippet_facts(integration=LINES),
        **changes,
    }
    arms = (builders.arm("compiled", extras={"torch": ("cpu",)}), builders.arm(builders.BASELINE))
    processes = {arm: builders.process(**facts)}
    return UnstoredRun(head or built_answers.finished_header(), arms, processes)


def test_a_recipe_pins_what_its_lines_import_and_what_the_worker_named() -> None:
    document, run = built_answers.answer(), run_of()
    entry, found = recipe_text.choose_recipe(document, run, "compiled")
    script = recipe_text.render_snippet(document, entry, found)
    assert header_of(script) == {
        "requires-python": "==3.11.*",
        "dependencies": ["onnx==1.23.2", "torch[cpu]==2.13.0"],
    }
    assert found.allowances == {"1": (1e-7,)}
    assert script.endswith("# Each call:\noutput = model(*inputs)\n")
    assert recipe_text.render_recommended(document, run) == script


def test_a_run_without_a_recipe_names_the_arms_that_have_one() -> None:
    run, answer = run_of(builders.BASELINE), built_answers.answer()
    with_lines = [
        builders.replace(each, integration=LINES * (each.arm == builders.BASELINE))
        for each in answer.results.measurements
    ]
    answer = with_results(answer, measurements=tuple(with_lines))
    for finished, step in ((True, builders.BASELINE), (False, f"resume {answer.run_id}")):
        with pytest.raises(NoRecipeError) as problem:
            recipe_text.choose_recipe(builders.replace(answer, finished=finished), run, "")
        assert step in problem.value.next_step
    assert recipe_text.render_recommended(built_answers.answer(), run) is None


def test_a_run_without_advice_gives_its_reason_and_no_step_of_a_measurement() -> None:
    refused = NothingViableError("the model does not open", "use --batch-sizes 2")
    answer = without_advice(built_answers.answer(), refused)
    with pytest.raises(NoRecipeError) as problem:
        recipe_text.choose_recipe(answer, run_of(snippet_facts=None), "")
    assert answer.run_id in problem.value.what
    assert refused.what in problem.value.what
    assert "--batch-sizes" not in problem.value.next_step


@pytest.mark.parametrize("coupled", [True, False, None])
def test_a_recipe_knows_whether_the_rows_of_its_model_are_coupled(coupled: bool | None) -> None:
    run = run_of(snippet_facts=builders.snippet_facts(coupled_rows=coupled))
    _, found = recipe_text.choose_recipe(built_answers.answer(), run, "compiled")
    assert found.coupled_rows is coupled


@pytest.mark.parametrize("arm", ["compiled", builders.BASELINE])
def test_a_snippet_has_the_speed_up_of_an_arm_but_the_baseline(arm: str) -> None:
    document = built_answers.answer(question=builders.question(model=FactoryModel(name="net.py:b")))
    entry = next(each for each in document.ranking if each.arm == arm)
    title = ast.get_docstring(ast.parse(render(document, arm)))
    speedup = format_interval(entry.cells[0].speedup)
    assert (speedup in " ".join((title or "").split())) == (arm != builders.BASELINE)


@pytest.mark.parametrize("value", ["refused", "served"])
def test_a_snippet_of_one_shape_says_that_the_others_need_a_build(value: str) -> None:
    document = built_answers.answer(question=builders.question(batch_sizes=(1, 8)))
    entry = document.ranking[0]
    fixed = builders.rating(fact="new_shapes", value=value)
    ratings = {**entry.scored.ratings, "input_flexibility": fixed}
    entry = entry._replace(scored=builders.replace(entry.scored, ratings=ratings))
    script = recipe_text.render_snippet(document, entry, RECIPE)
    assert ("takes this shape only" in script) == (value == "refused")


def test_a_snippet_has_the_batch_size_that_is_asked_for() -> None:
    document = built_answers.answer()
    entry = document.ranking[0]
    assert "torch.randn(1, " in recipe_text.render_snippet(document, entry, RECIPE)
    assert "torch.randn(7, " in recipe_text.render_snippet(document, entry, RECIPE, Shape(7))


@pytest.mark.parametrize("style", ["snippet", "server", "command"])
def test_a_recipe_states_that_its_run_has_no_answer(style: str) -> None:
    question = builders.question(model=FactoryModel(name="net.py:build"))
    answered = built_answers.answer(question=question)
    unanswered = without_advice(answered, MachineUnfitError("unsteady", "measure again"))
    command = "vllm serve net" if style == "command" else None
    recipe = found(serving_command=command)

    def render_style(document: Answer) -> str:
        entry = document.ranking[0]
        text = (
            recipe_text.render_snippet(document, entry, recipe)
            if style == "snippet"
            else recipe_text.render_server(document, entry, recipe)
        )
        return " ".join(text.replace("\n# ", " ").split())

    assert caveats(answered) == []
    assert len(caveats(unanswered)) == 2
    for line in caveats(unanswered):
        assert line in render_style(unanswered)
        assert line not in render_style(answered)
    if style == "snippet":
        figure = f"{answered.ranking[0].cells[0].speedup.value:.2f}x"
        assert figure in render_style(answered)
        assert figure not in render_style(unanswered), "a busy machine gives ranges"
        between = write_speedup(answered.ranking[0].cells[0].speedup, unfit=True, in_words=True)
        assert f"{between} as fast as" in render_style(unanswered)


def test_a_recipe_needs_what_the_file_of_the_user_imports(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("import numpy\nimport gone\n")
    question = builders.question(model=FactoryModel(name=f"{file}:build"))
    run = run_of(head=builders.header(question=question))
    assert "numpy==2.4.6" in builders.known(find_recipe(run, "compiled")).requirements


@pytest.mark.parametrize("missing", ["imported", "snippet_facts"])
def test_a_process_that_did_not_report_everything_has_no_recipe(missing: str) -> None:
    absent: dict[str, Any] = {missing: None}
    assert find_recipe(run_of(**absent), "compiled") is None


def test_the_providers_of_imports_and_the_installed_versions_are_pinned() -> None:
    own = msgspec.convert(dataclasses.asdict(read_environment()), InterpreterFacts)
    imports, versions = {"msgspec", "packaging", "json"}, {"psutil": "1", "cuda": "13.0"}
    pins = [Requirement(each) for each in pin(imports, versions, own, {})]
    assert [each.name for each in pins] == ["msgspec", "packaging", "psutil"]
    assert all(
        str(each.specifier).startswith("==") and "+" not in str(each.specifier) for each in pins
    )


@pytest.mark.parametrize("name", ["torch_xla", "Torch.XLA", "torch-xla"])
def test_names_are_compared_normalised_and_local_versions_left_out(name: str) -> None:
    found = builders.interpreter_facts({"torch-xla": "2.9.0+cpu"})
    assert pin((), {name: "2.9.0"}, found, {}) == [f"{name}==2.9.0"]


def test_of_several_providers_the_first_is_pinned_and_a_broken_one_is_not() -> None:
    found = builders.interpreter_facts(
        {"onnxruntime": "1.0", "onnxruntime-gpu": "1.1"},
        providers={"onnxruntime": ("onnxruntime-gpu", "onnxruntime"), "broken": ("gone",)},
    )
    assert pin({"onnxruntime", "broken"}, {}, found, {}) == ["onnxruntime==1.0"]


def answer_to(model: Model | None = None, **changes: Any) -> Answer:
    chosen: dict[str, Any] = {"model": model} if model else {}
    return built_answers.answer(question=builders.question(**chosen, **changes))


def server(answer: Answer, recipe: ArmRecipe) -> str:
    return render_server(answer, answer.ranking[0], recipe)


def test_a_server_needs_what_was_measured_and_its_own_libraries() -> None:
    wanted = re.findall(r'^#     "([^"]+)",$', server(answer_to(), found()), re.MULTILINE)
    assert wanted[:2] == ["numpy==2.4.6", "torch==2.13.0"]
    assert [re.split("[<>=]", each)[0] for each in wanted[2:]] == ["mosec"]


@pytest.mark.parametrize("coupled", [True, False, None])
def test_only_requests_for_independent_rows_share_a_call(coupled: bool | None) -> None:
    answer = answer_to()
    slow, *_ = answer.ranking[0].cells
    throughput = builders.replace(slow.throughput, value=2 * slow.throughput.value)
    fast = builders.replace(slow, shape=Shape(8), throughput=throughput)
    answer = with_measurement(answer, cells=(slow, fast))
    inputs = (InputSpec(name="", shape=(4,), dtype="float32"),)
    script = server(answer, found(coupled_rows=coupled, inputs=inputs))
    limits = [
        ast.literal_eval(each.value)
        for each in ast.walk(ast.parse(script))
        if isinstance(each, ast.keyword) and each.arg == "max_batch_size"
    ]
    assert limits == [8 if coupled is False else 1]


def test_generated_text_and_a_command_that_is_none_have_no_server() -> None:
    texts = answer_to(TransformersModel(name="org/m", weights="hub"), task="generate")
    for answer, recipe in ((texts, found()), (answer_to(), found(serving_command="serve 'open"))):
        with pytest.raises(NoRecipeError):
            server(answer, recipe)


@pytest.mark.parametrize("name", ["org/model", "/secret/place/model", "a; touch x", "$(touch x)"])
def test_an_engine_is_served_by_its_own_command(name: str, tmp_path: Any) -> None:
    answer = answer_to(TransformersModel(name=name, weights=name), task="generate")
    recipe = found(serving_command=f"echo serve {shlex.quote(name)} --dtype float16")
    script = tmp_path / "server.sh"
    script.write_text(server(answer, recipe))
    printed = run_command(["sh", script, "--port", "1"], directory=tmp_path)
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


@pytest.mark.parametrize("command", [None, "serve"])
def test_a_server_has_no_requirements_that_are_not_pins(command: str | None) -> None:
    with pytest.raises(NoRecipeError):
        server(answer_to(), found(requirements=("x; touch y",), serving_command=command))


def test_every_workflow_for_modules_has_the_lines_of_each_call() -> None:
    for workflow in builders.shipped_catalogue().workflows:
        if workflow.has_probe and "forward" in workflow.tasks and workflow.integration:
            assert EACH_CALL.search(workflow.integration.source), workflow.id
