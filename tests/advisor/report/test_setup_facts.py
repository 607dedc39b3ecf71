"""The length of a question is stated for models whose inputs have it."""

from __future__ import annotations

import pathlib
from typing import Any

import builders
import built_measurements
import msgspec
import pytest
import recorded_runs
from built_answers import run_answer, timed_cell, with_measurement, with_results

from advisor.decide.decision import decide, evaluate
from advisor.domain.model import (
    ExportedModel,
    FactoryModel,
    Model,
    OnnxModel,
    TransformersModel,
    name_own_shapes,
)
from advisor.domain.question import RequestLengths
from advisor.domain.results import MeasuredInputs
from advisor.report.setup_facts import describe_lengths, describe_shapes, input_facts, setup_facts
from advisor.report.text_report import measured_line
from advisor.store.store import Store
from probes.wire.events import RecipeFacts
from probes.wire.facts import InputFacts
from probes.wire.shape import Shape

LIBRARY = TransformersModel(name="org/model", weights="hub")


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
    timed = timed_cell(throughput=msgspec.structs.replace(timed_cell().throughput, unit=unit))
    answer = with_measurement(run_answer(question=builders.question(model=model)), cells=(timed,))
    assert bool(describe_lengths(answer)) == expected
    assert ("input tokens" in measured_line(answer)[0]) == expected
    assert ("input tokens" in dict(setup_facts(answer))["model"]) == expected


IMAGE = InputFacts(name="pixel_values", shape=(3, 224, 224), dtype="float32")
TOKEN = InputFacts(name="", shape=(1,), dtype="int64")
SCALE = InputFacts(name="scale", shape=(), dtype="float32")
FLAG = InputFacts(name="flag", shape=(), dtype="bool", batched=False)
PIXELS = "pixel_values float32 [batch, 3, 224, 224]"


@pytest.mark.parametrize(
    ("inputs", "shapes"),
    [
        ((IMAGE,), f"input {PIXELS}"),
        ((TOKEN, SCALE), "inputs int64 [batch, 1] and scale float32 [batch]"),
        ((FLAG, SCALE), "inputs flag bool [] and scale float32 [batch]"),
        ((IMAGE,) * 5, f"inputs {PIXELS}; {PIXELS}; {PIXELS}; and 2 more"),
        ((), ""),
    ],
)
def test_the_shapes_of_inputs_without_tokens_are_named(
    inputs: tuple[InputFacts, ...], shapes: str, home: pathlib.Path
) -> None:
    facts = RecipeFacts(allowances={}, serving_command=None, integration="", inputs=inputs)
    baseline = builders.BASELINE
    run = recorded_runs.make_run(
        Store(home),
        finished=True,
        workload=recorded_runs.WITH_BATCH,
        question=builders.question(model=FactoryModel(name="net.py:build"), batch_sizes=(1,)),
    )
    state = run.state()
    process = msgspec.structs.replace(state.processes[baseline][0], recipe_facts=facts)
    processes = {**state.processes, baseline: (process,)}
    answer = evaluate(run.header(), msgspec.structs.replace(state, processes=processes))
    assert builders.known(answer.results.inputs).shapes == tuple(each.shape for each in inputs)
    for line in (measured_line(answer)[0], dict(setup_facts(answer))["model"]):
        assert ("input" in line) == bool(shapes)
        assert shapes in line
    with_tokens = msgspec.structs.replace(answer, question=builders.question())
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


@pytest.mark.parametrize("model", [FactoryModel(name="net.py:build"), OnnxModel(name="net.onnx")])
def test_inputs_without_a_batch_are_not_called_batch_size_one(
    model: Model, home: pathlib.Path
) -> None:
    run = recorded_runs.make_run(
        Store(home),
        finished=True,
        workload=recorded_runs.WITHOUT_BATCH,
        question=builders.question(model=model, batch_sizes=(1,)),
    )
    answer = decide(run)
    assert builders.known(answer.results.inputs).has_batch is False
    shapes = name_own_shapes(model)
    assert describe_shapes(answer, [Shape(1)]) == shapes
    assert shapes in dict(setup_facts(answer))["batch sizes"]
    assert shapes in measured_line(answer)[0]
    assert "batch size" not in measured_line(answer)[0]
    assert any(shapes in line.text for line in answer.headline)


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
    inputs = msgspec.structs.replace(inputs, **{field: 2})
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
    question = msgspec.structs.replace(answer.question, batch_sizes=(raced, raced + 15))
    (line,) = measured_line(msgspec.structs.replace(answer, question=question))
    measured, _, missing = line.partition("Not measured")
    assert (f"batch size {raced}," in measured, str(raced + 15) in missing) == (True, True)
    assert "Not measured" not in measured_line(answer)[0]
