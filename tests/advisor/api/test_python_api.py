"""The Python interface, on simulated workflows; live modules are saved and opened by workers."""

from __future__ import annotations

import html
import json
import pathlib
import subprocess
import sys
import types
from typing import Any

import builders
import jsonschema
import pytest
from builders import replace
from kept.runs import EVIDENCE

import advisor
from advisor.api import make_options
from advisor.ask.context import Context
from advisor.cli import schemas
from advisor.domain import errors
from advisor.domain.run_events import Finished, LoggedEvent, WorkerEnded
from advisor.report import notebook, recipe_text
from advisor.report.answer_files import SUFFIXES
from advisor.report.headline import first_line
from advisor.report.notebook import Report
from advisor.store.runs import Run
from probes.outcome import Failure, Outcome

FILE = EVIDENCE / "cpu-demo.json"
DOCUMENTATION = pathlib.Path(__file__).parents[3] / "docs" / "python.md"
ONE_ARM: dict[str, Any] = {"gpu": "cpu", "batch_sizes": (1,), "budget": "1s"}
ONE_ARM |= {"workflows": ["quick"], "all_arms": True}


@pytest.fixture
def simulated(
    monkeypatch: pytest.MonkeyPatch,
    home: pathlib.Path,
    fake_probes: pathlib.Path,
    fake_catalogue: pathlib.Path,
) -> None:
    """Make the interface use simulated workflows and a store of this test."""
    monkeypatch.setenv("P3_ADVISOR_HOME", str(home))
    real = Context.of_process

    def context() -> Context:
        return replace(real(), probes=fake_probes, catalogue_directory=fake_catalogue)

    monkeypatch.setattr(Context, "of_process", context)


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_a_question_is_measured_silently_and_the_run_is_loaded_again(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[LoggedEvent] = []
    run = advisor.recommend(
        "demo",
        priorities={"performance": 60, "productivity": 25, "portability": 15},
        on_event=events.append,
        progress=False,
        **ONE_ARM,
    )
    assert (*capsys.readouterr(),) == ("", "")
    assert isinstance(events[-1].run_event, Finished)
    assert run.recommendation is not None or run.problem is not None
    assert run.answer.question.priorities.performance == 60
    assert advisor.load(run.run_id).answer == run.answer
    file = run.save(tmp_path / "run.json")
    jsonschema.Draft202012Validator(schemas.generate("run")).validate(json.loads(file.read_text()))
    assert first_line(run.answer) in repr(run)
    assert run.save(tmp_path / "run.HTML").read_text().startswith("<!DOCTYPE html>")


def test_a_document_is_decided_again_without_a_measurement() -> None:
    run = advisor.load(FILE)
    other = run.decide(priorities={"performance": 100, "productivity": 0, "portability": 0})
    assert other.answer.question.priorities.performance == 100
    assert run.answer.question.priorities.performance != 100
    assert other.recommendation is not None
    preset = run.catalogue.presets.priorities["serving"].priorities
    assert run.decide(priorities="serving").answer.question.priorities == preset
    assert f"p3-advisor recipe {FILE}" in repr(run)
    assert run.compare(other).conclusion == "same-run"


def test_only_a_saved_page_has_the_recipe_without_its_control_characters(
    made_run: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_text, "render_recommended", lambda _, run: f"{run.directory}\x1b")
    run = advisor.load(made_run.directory).decide()  # with the workflows of its run
    files = {each: run.save(tmp_path / f"run{each}").read_bytes() for each in SUFFIXES}
    recipe = f"<code>{made_run.directory}".encode()
    assert [each for each, content in files.items() if recipe in content] == [".html"]
    assert b"\x1b" not in files[".html"]
    for name in ("run.pdf", "absent/run.md"):
        with pytest.raises(errors.UserError, match=r"format|written"):
            run.save(tmp_path / name)


def test_the_documented_lines_work_without_advice(here: pathlib.Path) -> None:
    run = advisor.load(FILE).decide(require="speedup>=1000")
    assert run.recommendation is None
    assert run.problem is not None
    _, block, _ = DOCUMENTATION.read_text().split("```", 2)
    *_, lines = block.partition("\n)\n")
    assert "run.recommendation" in lines
    exec(lines, {"run": run})
    assert (here / "report.html").exists()


def test_a_notebook_shows_the_headline_and_the_arms_escaped() -> None:
    run = advisor.load(FILE)
    scored, results = run.answer.scores[0], run.answer.results
    measured = run.answer.results.by_arm[scored.arm]
    hostile = [replace(each, arm="<script>alert(1)</script>") for each in (scored, measured)]
    answer = replace(
        run.answer,
        scores=(hostile[0], *run.answer.scores[1:]),
        results=replace(results, measurements=(*results.measurements, hostile[1])),
    )
    shown = Report(answer, run.catalogue)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert shown.count("<tr>") == 1 + len(answer.scores)
    assert html.escape(first_line(answer)) in shown


def test_a_line_of_progress_is_escaped_in_a_notebook_and_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crashed = Outcome(Failure("crashed", "build", "<b>\x1b[31m"))
    (event,) = builders.events(WorkerEnded(arm="quick", process=0, outcome=crashed))
    notebook.show_progress(builders.plan(), wanted=True)(event)
    assert capsys.readouterr().err.endswith("<b>\\u001b[31m\n")
    shown: list[str] = []
    handle = types.SimpleNamespace(update=shown.append)
    display = types.SimpleNamespace(HTML=str, display=lambda *_, **__: handle)
    monkeypatch.setattr(notebook, "_notebook_display", lambda: display)
    notebook.show_progress(builders.plan(), wanted=None)(event)
    assert "<b>" not in shown[0]


def test_a_dataframe_has_a_row_for_each_arm_and_batch_size() -> None:
    run = advisor.load(FILE)
    frame = run.to_dataframe()
    assert len(frame) == sum(len(each.cells) or 1 for each in run.answer.ranking) + len(
        run.answer.unmeasured
    )
    best = run.answer.ranking[0]
    assert frame[(frame.arm == best.arm)].iloc[0].seconds_median == best.cells[0].seconds.median


def test_a_dataframe_without_pandas_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(errors.MissingExtraError) as refusal:
        advisor.load(FILE).to_dataframe()
    assert (refusal.value.exit_code, "notebook" in refusal.value.next_step) == (3, True)


@pytest.mark.usefixtures("simulated")
def test_a_user_error_has_its_next_step() -> None:
    with pytest.raises(advisor.UserError) as raised:
        advisor.recommend("no-such-model", **ONE_ARM)
    assert raised.value.next_step
    if sys.version_info >= (3, 11):
        assert any(raised.value.next_step in note for note in raised.value.__notes__)


@pytest.mark.parametrize("model", [object(), None, 3])
@pytest.mark.usefixtures("simulated")
def test_what_is_no_model_is_refused(model: object) -> None:
    with pytest.raises(errors.ModelRefusedError):
        advisor.recommend(model, inputs=(1,))


def test_python_values_become_the_texts_of_the_command_line() -> None:
    made = make_options(
        "demo",
        {"performance": 60, "productivity": 25, "portability": 15},
        {"batch_sizes": (1, 16), "budget": "30s", "require": ["speedup>=1.2", "portability>=B"]},
    )
    assert made.batch_sizes == "1,16"
    made_elsewhere = make_options("demo", None, {"precision": "bf16", "device": "cpu"})
    assert (made_elsewhere.dtype, made_elsewhere.gpu) == ("bfloat16", "cpu")
    numbers = make_options("demo", None, {"batch_sizes": 4, "input_tokens": 32})
    assert (numbers.batch_sizes, numbers.input_tokens) == ("4", "32")
    assert made.budget == "30s"
    assert made.require == "speedup>=1.2,portability>=B"
    assert made.priority == "performance=60,productivity=25,portability=15"
    assert make_options("demo", "serving", {}).preset == "serving"
    limits = make_options("demo", None, {"max_build_times": {"tensorrt": "1h", "iree": "5min"}})
    assert limits.max_build_times == "tensorrt=1h,iree=5min"
    mix = {"input_tokens": (32, 512), "length_mix": {32: 70, (512, 16): 30.5}}
    made = make_options("demo", None, mix)
    assert (made.input_tokens, made.length_mix) == ("32,512", "32:70,512/16:30.5")


def test_a_wrong_option_is_refused() -> None:
    with pytest.raises(TypeError, match=r"did you mean batch_sizes\?"):
        make_options("demo", None, {"batch_size": 1})
    number: Any = 5
    for priorities, options in ((None, {"rate": -1}), (number, {})):
        with pytest.raises(errors.OptionValueError):
            make_options("demo", priorities, options)
    with pytest.raises(errors.UnknownRunError):
        advisor.load(number)


def test_the_import_is_cheap_and_loads_no_stack() -> None:
    code = (
        "import sys, advisor; before = set(sys.modules); advisor.__version__;"
        "assert not {'numpy', 'msgspec', 'torch', 'pandas'} & set(sys.modules);"
        "advisor.recommend, advisor.load;"
        "assert callable(advisor.recommend);"
        "assert not {'torch', 'pandas', 'textual', 'IPython'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("batch_sizes", [0, (0,), "0", True])
def test_a_batch_size_out_of_range_is_refused(batch_sizes: int | str | tuple[int]) -> None:
    with pytest.raises(errors.OptionValueError) as problem:
        advisor.recommend("demo", gpu="cpu", batch_sizes=batch_sizes)
    assert "--batch-sizes" in problem.value.what


@pytest.mark.slow
@pytest.mark.usefixtures("simulated")
def test_several_lengths_are_one_run_with_a_mix_and_progress_is_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = {**ONE_ARM, "input_tokens": (8, 32), "length_mix": {8: 3, 32: 1}}
    found = advisor.recommend("demo", progress=True, **options)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert " s: quick: build" in printed.err
    assert [each.share for each in found.answer.question.lengths] == [0.75, 0.25]
    table = found.to_dataframe()
    assert list(table[table["arm"] == "quick"]["input_tokens"]) == [8, 32]
