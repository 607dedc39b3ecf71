"""Explanations from raw figures to tiers and scores."""

from __future__ import annotations

import dataclasses
import pathlib

import builders
import built_answers
import built_measurements
import msgspec
import pytest
from built_answers import with_measurement
from golden_files import Expect

from advisor.errors import UnknownCriterionError, UnknownWorkflowError
from advisor.report import explanation, figures, markdown, shortcomings, text_report
from advisor.report.answer_files import read_answer
from advisor.tui.answer import render_pane
from probes.wire.events import NewShapeResult
from probes.wire.shape import Shape

EVIDENCE = pathlib.Path(__file__).parents[2] / "stacks" / "evidence"
ANSWER = built_answers.answer()


@pytest.mark.parametrize(
    ("kept", "name", "status"),
    [("cpu-demo", "trt", "unsupported"), ("h100-minilm-float32", "torch-compile", "inductor")],
)
def test_a_workflow_is_explained_by_the_name_that_people_call_it(
    kept: str, name: str, status: str
) -> None:
    """One that does not apply, too."""
    assert status in explanation.render(read_answer(str(EVIDENCE / f"{kept}.json")), name, "")


def test_threads_that_slow_pytorch_in_the_same_process_are_explained_alone() -> None:
    answer = read_answer(str(EVIDENCE / "cpu-demo.json"))
    spins = "session.intra_op.allow_spinning"
    assert spins in explanation.render(answer, "onnxruntime-cpu", "")
    assert spins not in explanation.render(answer, builders.BASELINE, "")
    assert spins not in text_report.summarise(answer, 80)


@pytest.mark.parametrize(
    ("kept", "gain"),
    [
        ("cpu-resnet-50-float32", "ONNX Runtime, CPU (I/O binding) gains 1.65x"),
        ("h100-demo-bert-bfloat16", "torch.compile, Inductor (reduce overhead) gains 5.47x"),
    ],
)
def test_what_limits_a_call_contradicts_no_measured_gain(kept: str, gain: str) -> None:
    limit, *_ = explanation.short_reasons(read_answer(str(EVIDENCE / f"{kept}.json")))
    assert gain in limit
    assert "hardly" not in limit


def test_launches_are_no_limit_where_a_graph_of_them_hardly_gains() -> None:
    answer = read_answer(str(EVIDENCE / "h200-ffn-llama2-7b-float16.json"))
    calls = [call for call in builders.known(answer.baseline).diagnosis if call.bound == "launch"]
    assert calls
    assert not any(explanation.describe_limit(answer, call) for call in calls)


@pytest.mark.parametrize(
    ("bound", "is_told"), [("compute", True), ("mixed", False), ("launch", False)]
)
def test_a_limit_is_told_unless_a_measured_arm_denies_it(bound: str, *, is_told: bool) -> None:
    """A graph of all launches that hardly gains shows that they do not limit."""
    graph = builders.measurement(explanation.GRAPH, cells=(built_measurements.cell(1.05),))
    results = msgspec.structs.replace(ANSWER.results, measurements=(graph,))
    answer = msgspec.structs.replace(ANSWER, results=results)
    assert bool(explanation.describe_limit(answer, builders.call_diagnosis(bound=bound))) == is_told


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
    text = explanation.render(ANSWER, arm, criterion)
    expect(f"explanation-{name}", text.splitlines())


def test_shapes_that_were_not_built_are_explained_and_in_the_pane_of_the_reasons() -> None:
    stalled = NewShapeResult(
        shape=Shape(3),
        outcome="stalled",
        first_call_seconds=2.5,
        steady_seconds=0.01,
        reason=None,
    )
    refused = dataclasses.replace(
        stalled, shape=Shape(1, 48), outcome="refused", reason="it takes [b]fixed[/b] lengths"
    )
    answer = with_measurement(ANSWER, "compiled", new_shape_results=(stalled, refused))
    explained = explanation.render(answer, "compiled", "")
    pane = render_pane(answer, "why")
    for each in (stalled, refused):
        line = shortcomings.describe_new_shape(each)
        assert line in explained
        assert markdown.escape(line) in pane


def test_the_memory_of_a_shape_is_explained_and_a_figure() -> None:
    cells = [
        msgspec.structs.replace(cell, kept_bytes=size)
        for cell, size in zip(
            ANSWER.measurements["compiled"].cells, (3 << 20, 11 << 20), strict=False
        )
    ]
    answer = with_measurement(ANSWER, "compiled", cells=tuple(cells))
    lines = explanation.render(answer, "compiled", "").splitlines()
    assert [line for line in lines if " keeps 3 MiB " in line or " keeps 11 MiB " in line] == [
        line for line in lines if "a typical call takes" in line
    ]
    found = [row["kept_bytes"] for row in figures.rows(answer) if row["arm"] == "compiled"]
    assert found == [each.kept_bytes for each in cells]
    assert "keeps" not in explanation.render(ANSWER, "compiled", "")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownWorkflowError) as unknown:
        explanation.render(ANSWER, "nonsense", "")
    assert "compiled" in unknown.value.next_step
    with pytest.raises(UnknownWorkflowError) as misspelt:
        explanation.render(ANSWER, "Brokn", "")
    assert misspelt.value.next_step.startswith("did you mean broken")
    with pytest.raises(UnknownCriterionError):
        explanation.render(ANSWER, "", "speed")
    with pytest.raises(UnknownWorkflowError):
        explanation.render(msgspec.structs.replace(ANSWER, recommendation=None), "", "")
