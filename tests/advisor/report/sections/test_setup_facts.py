"""The length of a question is stated for models whose inputs have it."""

from __future__ import annotations

import dataclasses
import pathlib

import builders
import msgspec
import pytest
import recorded_runs
from advisor.report.documents import measured_document
from advisor.report.documents.document import MeasuredInputs
from report_runs import run_document

from advisor.domain.model import (
    ExportedModel,
    FactoryModel,
    Model,
    OnnxModel,
    TransformersModel,
    name_own_shapes,
)
from advisor.domain.question import LoadQuestion, RequestLengths
from advisor.domain.recipe_facts import InputFacts, RecipeFacts
from advisor.pipeline.decision import decide
from advisor.report.sections.setup_facts import (
    describe_lengths,
    describe_sizes,
    input_facts,
    setup_facts,
)
from advisor.report.text_report import measured_line
from advisor.store.store import Store

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
def test_images_and_example_inputs_have_no_tokens(model: Model, unit: str, expected: bool) -> None:
    document = run_document()
    question = builders.question(model=model)
    entries = [
        msgspec.structs.replace(
            entry,
            cells=tuple(
                msgspec.structs.replace(
                    cell, throughput=msgspec.structs.replace(cell.throughput, unit=unit)
                )
                for cell in entry.cells
            ),
        )
        for entry in document.workflows
    ]
    document = msgspec.structs.replace(document, question=question, workflows=tuple(entries))
    assert bool(describe_lengths(document)) == expected
    assert ("input tokens" in measured_line(document)[0]) == expected
    assert ("input tokens" in dict(setup_facts(document))["model"]) == expected


IMAGE = InputFacts(name="pixel_values", shape=(3, 224, 224), dtype="float32")
TOKEN = InputFacts(name="", shape=(1,), dtype="int64")
SCALE = InputFacts(name="", shape=(), dtype="float32")


@pytest.mark.parametrize(
    ("inputs", "shapes"),
    [
        ((IMAGE,), "input 3x224x224"),
        ((IMAGE, TOKEN), "inputs 3x224x224 and 1"),
        ((IMAGE, TOKEN, SCALE), "inputs 3x224x224, 1 and scalar"),
        ((IMAGE,) * 5, "inputs 3x224x224, 3x224x224, 3x224x224 and 2 more"),
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
    decision = decide(run)
    process = msgspec.structs.replace(decision.state.processes[baseline][0], recipe_facts=facts)
    processes = {**decision.state.processes, baseline: (process,)}
    state = msgspec.structs.replace(decision.state, processes=processes)
    document = measured_document.compose(dataclasses.replace(decision, state=state))
    assert document.inputs is not None
    assert document.inputs.shapes == tuple(each.shape for each in inputs)
    for line in (measured_line(document)[0], dict(setup_facts(document))["model"]):
        assert ("input" in line) == bool(shapes)
        assert shapes in line
    with_tokens = msgspec.structs.replace(document, question=builders.question())
    assert "input tokens" in measured_line(with_tokens)[0]
    assert not shapes or shapes not in measured_line(with_tokens)[0]


@pytest.mark.parametrize("has_length", [True, False, None])
def test_a_file_has_the_length_if_a_dimension_is_free(has_length: bool | None) -> None:
    document = msgspec.structs.replace(
        run_document(),
        question=builders.question(model=OnnxModel(name="net.onnx")),
        inputs=MeasuredInputs(fixed=0, has_length=has_length),
    )
    lengths = describe_lengths(document)
    assert (str(document.question.input_tokens) in lengths) == bool(has_length)
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
    document = measured_document.compose(decide(run))
    assert document.inputs is not None
    assert document.inputs.has_batch is False
    shapes = name_own_shapes(model)
    assert describe_sizes(document, [1]) == shapes
    assert shapes in dict(setup_facts(document))["batch sizes"]
    assert shapes in measured_line(document)[0]
    assert "batch size" not in measured_line(document)[0]
    assert document.recommendation is not None
    assert any(shapes in line for line in document.recommendation.headline)


@pytest.mark.parametrize("inputs", [None, MeasuredInputs(fixed=0, has_length=None)])
def test_runs_of_earlier_versions_have_batch_sizes(inputs: MeasuredInputs | None) -> None:
    document = msgspec.structs.replace(run_document(), inputs=inputs)
    assert describe_sizes(document, [1, 4]) == "batch sizes 1 and 4"
    assert dict(setup_facts(document))["batch sizes"].partition(";")[0] == ", ".join(
        map(str, document.question.batch_sizes)
    )


def test_inputs_that_do_not_change_are_stated() -> None:
    document = msgspec.structs.replace(
        run_document(), inputs=MeasuredInputs(fixed=2, has_length=None)
    )
    assert input_facts(document)
    assert set(input_facts(document)) <= {*setup_facts(document)}
    assert len(measured_line(document)) == len(measured_line(run_document())) + 1
    assert not input_facts(run_document())


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
    load = LoadQuestion(
        name="mine.jsonl",
        lengths=tuple(RequestLengths(input_tokens=one, output_tokens=two) for one, two in lengths),
        ttft_seconds=0.5,
        itl_seconds=0.05,
    )
    document = msgspec.structs.replace(
        run_document(), question=builders.question(task="serve", load=load)
    )
    (line,) = measured_line(document)
    assert all(part in line for part in (*tokens, load.name, "serve"))
    assert "batch size" not in line


def test_a_batch_size_without_a_race_is_not_among_the_measured_ones() -> None:
    document = run_document()
    assert document.race is not None
    (raced,) = {race.batch_size for race in document.race.by_batch_size}
    question = msgspec.structs.replace(document.question, batch_sizes=(raced, raced + 15))
    (line,) = measured_line(msgspec.structs.replace(document, question=question))
    measured, _, missing = line.partition("Not measured")
    assert (f"batch size {raced}," in measured, str(raced + 15) in missing) == (True, True)
    assert "Not measured" not in measured_line(document)[0]
