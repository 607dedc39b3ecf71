"""What explains an answer: its grades and limits, the question and the machine."""

from __future__ import annotations

import pathlib
from typing import Any

import builders
import built_answers
import built_measurements
import pytest
import recorded_runs
from built_answers import run_answer, timed_cell, with_measurement, with_question, with_results
from golden_files import Expect
from kept.runs import EVIDENCE

from advisor.decide.answers import answer_from_state
from advisor.domain.answer import Answer
from advisor.domain.errors import UnknownCriterionError, UnknownWorkflowError
from advisor.domain.model import ExportedModel, FactoryModel, Model, OnnxModel, TransformersModel
from advisor.domain.plan import PLAIN_COMPILE
from advisor.domain.question import RequestLengths
from advisor.domain.results import MeasuredInputs
from advisor.report import advice_lines, cost, explanation, figures, markdown, text_report
from advisor.report.answer_files import answer_of_run, read_answer
from advisor.report.setup_facts import describe_lengths, describe_shapes, input_facts, setup_facts
from advisor.report.text_report import measured_line
from advisor.store.store import Store
from advisor.tui.answer_panes import render_pane
from probes.events import NewShapeResult
from probes.facts import InputSpec
from probes.shape import Shape

ANSWER = built_answers.answer()


def explain(answer: Answer, name: str, criterion: str = "") -> str:
    return explanation.render(answer, name, criterion, builders.shipped_catalogue().by_id)


@pytest.mark.parametrize(
    ("kept", "name", "status"),
    [("cpu-demo", "trt", "unsupported"), ("h100-minilm-float32", "torch-compile", "inductor")],
)
def test_a_workflow_is_explained_by_the_name_that_people_call_it(
    kept: str, name: str, status: str
) -> None:
    """One that does not apply, too."""
    assert status in explain(read_answer(str(EVIDENCE / f"{kept}.json")), name)


def test_threads_that_slow_pytorch_in_the_same_process_are_explained_alone() -> None:
    answer = read_answer(str(EVIDENCE / "cpu-demo.json"))
    spins = "session.intra_op.allow_spinning"
    assert spins in explain(answer, "onnxruntime-cpu")
    assert spins not in explain(answer, builders.BASELINE)
    assert spins not in text_report.render_summary(answer, 80)


@pytest.mark.parametrize(
    ("kept", "gain"),
    [
        ("cpu-resnet-50-float32", "ONNX Runtime, CPU (I/O binding) is 1.65x as fast"),
        ("h100-demo-bert-bfloat16", "PyTorch eager (CUDA graph) is 4.94x as fast"),
    ],
)
def test_what_limits_a_call_contradicts_no_measured_gain(kept: str, gain: str) -> None:
    limit, *_ = text_report.short_reasons(read_answer(str(EVIDENCE / f"{kept}.json")))
    assert gain in limit
    assert "hardly" not in limit


@pytest.mark.parametrize("named", [(), (PLAIN_COMPILE,), ("aotinductor",)])
def test_the_short_answer_says_why_an_expected_arm_failed(named: tuple[str, ...]) -> None:
    failed = builders.unmeasured(
        PLAIN_COMPILE, option="default", status="not-engaged", reason="no compiled region ran"
    )
    answer = builders.replace(
        ANSWER,
        question=builders.replace(ANSWER.question, workflows=named),
        scores=tuple(each for each in ANSWER.scores if each.workflow != PLAIN_COMPILE),
        unmeasured=(failed, builders.replace(failed, option=None, title="not planned")),
    )
    reasons = " ".join(text_report.render_summary(answer, 80).split())
    assert (failed.reason in reasons) == (named != ("aotinductor",))
    assert ("not planned" in reasons) == (named == (PLAIN_COMPILE,))


@pytest.mark.parametrize(
    ("kept", "is_told"),
    [("h100-matmul-relu-llama2-7b-float16", True), ("h100-demo-bert-bfloat16", False)],
)
def test_an_answer_of_eager_pytorch_says_what_failed(kept: str, *, is_told: bool) -> None:
    failed = builders.unmeasured(
        "onnxruntime-cuda", option="default", status="unsupported", reason="ONNX has no operator"
    )
    answer = builders.replace(read_answer(str(EVIDENCE / f"{kept}.json")), unmeasured=(failed,))
    assert (failed.reason in text_report.render_summary(answer, 80)) is is_told


@pytest.mark.parametrize(
    "kept", ["h100-ffn-llama2-7b-float16", "h200-matmul-llama2-7b-float16-tensorrt-rtx"]
)
def test_launches_are_no_limit_that_other_figures_deny(kept: str) -> None:
    """A graph of them hardly gains, or memory is read for longer than the device seems busy."""
    answer = read_answer(str(EVIDENCE / f"{kept}.json"))
    assert "launch-bound" not in "".join(advice_lines.describe_bottlenecks(answer))


@pytest.mark.parametrize(
    ("shares", "is_told"),
    [
        ({"compute_share": 0.9}, True),
        ({"compute_share": 0.1}, False),
        ({"device_busy_share": 0.1}, False),
    ],
)
def test_a_limit_is_told_unless_a_measured_arm_denies_it(
    shares: dict[str, float], *, is_told: bool
) -> None:
    """A graph of all launches that hardly gains shows that they do not limit."""
    graph = builders.measurement(advice_lines.GRAPH, cells=(built_measurements.cell(1.05),))
    answer = with_results(ANSWER, measurements=(graph,), baseline="compiled")
    told = advice_lines.describe_bottleneck(answer, builders.call_diagnosis(**shares))
    assert (answer.titles["compiled"] in told) == bool(told) == is_told


@pytest.mark.parametrize(
    ("name", "arm", "criterion"),
    [
        ("recommended", "", ""),
        ("one-criterion", "compiled", "input-flexibility"),
        ("next-letter", builders.BASELINE, ""),
        ("unmeasured", "broken", ""),
    ],
)
def test_an_arm_is_explained_from_its_calls_to_its_score(
    name: str, arm: str, criterion: str, expect: Expect
) -> None:
    expect(f"explanation-{name}", explain(ANSWER, arm, criterion).splitlines())


def test_a_grade_of_an_unfit_machine_is_that_of_a_range() -> None:
    noisy = with_results(ANSWER, noise_floor=1.54)
    for answer, is_unfit in ((ANSWER, False), (noisy, True)):
        told = explain(answer, "compiled", "performance")
        assert "certainty " in told
        assert ("grade of the middle of a range" in told) == is_unfit
        assert ("speedup is between " in told and "not measured well enough" in told) == is_unfit


def test_shapes_that_were_not_built_are_explained_and_in_the_pane_of_the_reasons() -> None:
    stalled = NewShapeResult(
        shape=Shape(3), handling="stalled", first_call_seconds=2.5, steady_seconds=0.01, reason=None
    )
    refused = builders.replace(
        stalled, shape=Shape(1, 48), handling="refused", reason="it takes [b]fixed[/b] lengths"
    )
    answer = with_measurement(ANSWER, "compiled", new_shape_results=(stalled, refused))
    explained = explain(answer, "compiled")
    pane = render_pane(answer, "why")
    for each in (stalled, refused):
        line = cost.describe_new_shape(each)
        assert line in explained
        assert markdown.escape(line) in pane


def test_the_memory_of_a_shape_is_explained_and_a_figure() -> None:
    cells = [
        builders.replace(cell, kept_bytes=size)
        for cell, size in zip(
            ANSWER.results.by_arm["compiled"].cells, (3 << 20, 11 << 20), strict=False
        )
    ]
    answer = with_measurement(ANSWER, "compiled", cells=tuple(cells))
    lines = explain(answer, "compiled").splitlines()
    assert [line for line in lines if " keeps 3 MiB " in line or " keeps 11 MiB " in line] == [
        line for line in lines if "a typical call takes" in line
    ]
    found = [row["kept_bytes"] for row in figures.rows(answer) if row["arm"] == "compiled"]
    assert found == [each.kept_bytes for each in cells]
    assert "keeps" not in explain(ANSWER, "compiled")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownWorkflowError) as unknown:
        explain(ANSWER, "nonsense")
    assert "compiled" in unknown.value.next_step
    with pytest.raises(UnknownWorkflowError) as misspelt:
        explain(ANSWER, "Brokn")
    assert misspelt.value.next_step.startswith("did you mean broken")
    with pytest.raises(UnknownCriterionError):
        explain(ANSWER, "", "speed")
    with pytest.raises(UnknownWorkflowError):
        explain(builders.replace(ANSWER, recommendation=None), "")


LIBRARY = TransformersModel(name="org/model", weights="hub")


def test_a_machine_without_gpus_has_none_and_no_message_of_a_library() -> None:
    told = dict(setup_facts(run_answer()))["GPUs"]
    assert told.startswith("none: ")
    assert builders.known(run_answer().machine.gpu_problem) not in told


@pytest.mark.parametrize(
    ("model", "unit", "expected"),
    [
        (LIBRARY, "tokens/s", True),
        (LIBRARY, "samples/s", False),
        (OnnxModel(name="net.onnx"), "samples/s", False),
        (FactoryModel(name="net.py:build"), "samples/s", False),
        (ExportedModel(name="net.pt2"), "samples/s", False),
    ],
)
def test_images_and_example_inputs_have_no_tokens(model: Model, unit: Any, expected: bool) -> None:
    timed = timed_cell(throughput=builders.replace(timed_cell().throughput, unit=unit))
    answer = with_measurement(run_answer(question=builders.question(model=model)), cells=(timed,))
    assert bool(describe_lengths(answer)) == expected
    assert ("input tokens" in measured_line(answer)[0]) == expected
    assert ("input tokens" in dict(setup_facts(answer))["model"]) == expected


IMAGE = InputSpec(name="pixel_values", shape=(3, 224, 224), dtype="float32")
TOKEN = InputSpec(name="", shape=(1,), dtype="int64")
SCALE = InputSpec(name="scale", shape=(), dtype="float32")
FLAG = InputSpec(name="flag", shape=(), dtype="bool", batched=False)
PIXELS = "pixel_values float32 [batch, 3, 224, 224]"


@pytest.mark.parametrize(
    ("inputs", "shapes"),
    [
        ((IMAGE,), f"input {PIXELS}"),
        ((TOKEN, SCALE), "inputs int64 [batch, 1] and scale float32 [batch]"),
        ((FLAG, SCALE), "inputs flag bool [] and scale float32 [batch]"),
        ((IMAGE,) * 5, f"inputs {PIXELS}; {PIXELS}; {PIXELS}; and 2 others"),
        ((), ""),
    ],
)
def test_the_shapes_of_inputs_without_tokens_are_named(
    inputs: tuple[InputSpec, ...], shapes: str, home: pathlib.Path
) -> None:
    facts = builders.snippet_facts(inputs=inputs)
    baseline = builders.BASELINE
    run = recorded_runs.make_run(
        Store(home),
        finished=True,
        workload=recorded_runs.WITH_BATCH,
        question=builders.question(model=FactoryModel(name="net.py:build"), batch_sizes=(1,)),
    )
    state = run.state()
    process = builders.replace(state.processes[baseline][0], snippet_facts=facts)
    processes = {**state.processes, baseline: (process,)}
    answer = answer_from_state(run.header(), builders.replace(state, processes=processes))
    assert builders.known(answer.results.inputs).shapes == tuple(each.shape for each in inputs)
    for line in (measured_line(answer)[0], dict(setup_facts(answer))["model"]):
        assert ("input" in line) == bool(shapes)
        assert shapes in line
    with_tokens = builders.replace(answer, question=builders.question())
    assert "input tokens" in measured_line(with_tokens)[0]
    assert not shapes or shapes not in measured_line(with_tokens)[0]


@pytest.mark.parametrize("has_length", [True, False, None])
def test_a_file_has_the_length_if_a_dimension_is_free(has_length: bool | None) -> None:
    answer = with_results(
        run_answer(question=builders.question(model=OnnxModel(name="net.onnx"))),
        inputs=MeasuredInputs(fixed=0, has_batch=None, has_length=has_length),
    )
    lengths = describe_lengths(answer)
    assert (str(answer.question.input_tokens) in lengths) == bool(has_length)
    assert "tokens" not in lengths


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (FactoryModel(name="net.py:build"), "the examples' own shapes"),
        (OnnxModel(name="net.onnx"), "the file's own shapes"),
    ],
)
def test_inputs_without_a_batch_are_not_called_batch_size_one(
    model: Model, shapes: str, home: pathlib.Path
) -> None:
    run = recorded_runs.make_run(
        Store(home),
        finished=True,
        workload=recorded_runs.WITHOUT_BATCH,
        question=builders.question(model=model, batch_sizes=(1,)),
    )
    answer = answer_of_run(run)
    assert builders.known(answer.results.inputs).has_batch is False
    assert describe_shapes(answer, [Shape(1)]) == shapes
    assert shapes in dict(setup_facts(answer))["batch sizes"]
    assert shapes in measured_line(answer)[0]
    assert "batch size" not in measured_line(answer)[0]
    assert any(shapes in line for line in built_answers.headline(answer))


@pytest.mark.parametrize("inputs", [None, MeasuredInputs(fixed=0, has_batch=None, has_length=None)])
def test_inputs_that_are_not_known_have_batch_sizes(inputs: MeasuredInputs | None) -> None:
    answer = with_results(run_answer(), inputs=inputs)
    assert describe_shapes(answer, [Shape(1), Shape(4)]) == "batch sizes 1 and 4"
    assert dict(setup_facts(answer))["batch sizes"].partition(";")[0] == ", ".join(
        map(str, answer.question.batch_sizes)
    )


@pytest.mark.parametrize("field", ["fixed", "reordered"])
def test_inputs_with_values_or_a_layout_of_their_own_are_stated(field: str) -> None:
    inputs = MeasuredInputs(fixed=0, has_batch=None, has_length=None)
    inputs = builders.replace(inputs, **{field: 2})
    answer = with_results(run_answer(), inputs=inputs)
    assert input_facts(answer)
    assert set(input_facts(answer)) <= {*setup_facts(answer)}
    assert len(measured_line(answer)) == len(measured_line(run_answer())) + 1
    assert not input_facts(run_answer())


@pytest.mark.parametrize(
    ("lengths", "tokens"),
    [
        (((128, 256),), ("128 input", "256 generated")),
        (((128, 256), (512, 16)), ("128 to 512 input", "16 to 256 generated")),
    ],
)
def test_a_run_of_servers_states_the_tokens_of_its_requests(
    lengths: tuple[tuple[int, int], ...], tokens: tuple[str, ...]
) -> None:
    load = built_measurements.load(
        name="mine.jsonl",
        lengths=tuple(RequestLengths(input_tokens=one, output_tokens=two) for one, two in lengths),
    )
    answer = run_answer(question=builders.question(task="serve", load=load))
    (line,) = measured_line(answer)
    assert all(part in line for part in (*tokens, load.name, "serve"))
    assert "batch size" not in line


def test_a_batch_size_without_a_race_is_not_among_the_measured_ones() -> None:
    answer = run_answer()
    (raced,) = {race.shape.batch_size for race in answer.results.races}
    (line,) = measured_line(with_question(answer, batch_sizes=(raced, raced + 15)))
    measured, _, missing = line.partition("Not measured")
    assert (f"batch size {raced}," in measured, str(raced + 15) in missing) == (True, True)
    assert "Not measured" not in measured_line(answer)[0]
