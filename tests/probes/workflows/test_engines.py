"""The probes of engines, run by real workers with fake engines, correct and faulty ones."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex

import msgspec
import pytest
import workers
from engine_requests import ENGINES, MODEL, NEW, SETS, SIZES, worker_request

from advisor.recipes.snippet import imported_packages
from probes.commands import Build, Diagnose, Stop, TryNewShapes, Visit
from probes.events import SnippetFacts
from probes.facts import EACH_CALL
from probes.shape import Shape

pytestmark = pytest.mark.slow


def ask(
    workflow: str,
    directory: pathlib.Path,
    fault: str = "",
    architecture: str = "LlamaForCausalLM",
    **options: str,
) -> workers.WorkerResult:
    request = worker_request(workflow, directory, fault, architecture)
    request = dataclasses.replace(request, options=options)
    environment = {**os.environ, "PYTHONPATH": str(ENGINES)}
    sent = Build(), Visit(Shape(3), 1), Diagnose(), TryNewShapes(), Stop()
    return workers.run_worker(request, directory / "control", *sent, environment=environment)


@pytest.mark.parametrize("workflow", ["vllm", "sglang", "tensorrt_llm"])
def test_an_engine_is_checked_timed_and_called_with_new_shapes(
    workflow: str, tmp_path: pathlib.Path
) -> None:
    answer = ask(workflow, tmp_path)
    assert answer.failure is None, answer.log
    for checked in answer.events_of("checked"):
        assert checked["accuracy_class"] == "exact"
        agreement = checked["agreement"]
        assert agreement["sequences"] == SETS * checked["shape"]["batch_size"]
        assert agreement["identical_sequences"] == agreement["sequences"]
        assert ("likeliest" in agreement["method"]) == (workflow != "tensorrt_llm")
        assert (agreement["positions"] > 0) == (workflow != "tensorrt_llm")
    (engaged,) = answer.events_of("engagement")
    assert engaged["share"] == 1.0
    (reported,) = answer.events_of("snippet_facts")
    facts = msgspec.convert(reported, SnippetFacts, str_keys=True)
    assert [*facts.allowances] == [*map(str, SIZES)]
    assert workflow in imported_packages(facts.integration)
    assert EACH_CALL.search(facts.integration)
    assert facts.serving_command
    assert MODEL in shlex.split(facts.serving_command)
    (loaded,) = answer.events_of("opened")
    assert (loaded["unit"], loaded["units_per_sample"]) == ("tokens", NEW)
    assert loaded["parameter_bytes"] == 2000
    assert len(answer.events_of("visited")) == 1
    for visit in answer.events_of("visited"):
        assert 1 <= len(visit["first_token_seconds"]) <= 3
    assert {result["handling"] for result in answer.events_of("new_shape_result")} == {"served"}


@pytest.mark.parametrize(
    ("fault", "architecture", "status", "reason"),
    [
        ("wrong", "LlamaForCausalLM", "incorrect", "diverges"),
        # The engine would hang while it loads.
        ("hangs", "OddForCausalLM", "unsupported", "OddForCausalLM"),
    ],
)
@pytest.mark.parametrize("workflow", ["vllm", "sglang", "tensorrt_llm"])
def test_an_engine_with_wrong_probabilities_or_an_unknown_architecture_is_not_timed(
    workflow: str, fault: str, architecture: str, status: str, reason: str, tmp_path: pathlib.Path
) -> None:
    answer = ask(workflow, tmp_path, fault, architecture)
    assert answer.failure["status"] == status
    assert reason in answer.failure["reason"]
    assert answer.events_of("visited") == []


def test_a_quantised_engine_is_proven_by_the_types_of_its_weights(tmp_path: pathlib.Path) -> None:
    answer = ask("vllm", tmp_path, quantization="fp8")
    assert answer.failure is None, answer.log
    (engaged,) = answer.events_of("engagement")
    assert engaged["share"] == 1.0
    assert engaged["facts"]["weights"] == {"float8_e4m3fn": 2 * 64}
    assert engaged["weight_bytes"] == 2 * 64 + 2 * 128


def test_a_format_that_the_engine_accepts_and_ignores_is_not_engaged(
    tmp_path: pathlib.Path,
) -> None:
    answer = ask("vllm", tmp_path, quantization="int8_per_channel_weight_only")
    assert answer.failure["status"] == "not-engaged"
    (engaged,) = answer.events_of("engagement")
    assert engaged["share"] == 0.0
