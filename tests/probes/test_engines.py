"""The probes of engines, run by real workers with fake engines, correct and faulty ones."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
import sys
from collections.abc import Iterator

import msgspec
import pytest
import workers
from engine_requests import ENGINES, MODEL, NEW, SETS, SIZES, events, worker_request
from sessions import expect_failure
from worker_scripts import DEADLINES, Clock, messages_until_end

from advisor.ask import rubric_files
from advisor.probing.supervisor import Supervisor
from advisor.probing.worker_process import Worker
from advisor.report.recipes.snippet import EACH_CALL, imported_packages
from probes.wire.events import RecipeFacts

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
    return workers.run_worker(
        request,
        directory / "control",
        "build\nvisit 3 1\ndiagnose\nnew-shapes\n",
        environment=environment,
    )


@pytest.mark.parametrize("workflow", ["vllm", "sglang", "tensorrt_llm"])
def test_an_engine_is_checked_timed_and_called_with_new_shapes(
    workflow: str, tmp_path: pathlib.Path
) -> None:
    answer = ask(workflow, tmp_path)
    assert answer.failure is None, answer.log
    for checked in events(answer, "checked"):
        assert checked["accuracy_class"] == "exact"
        agreement = checked["agreement"]
        assert (
            agreement["identical_sequences"]
            == agreement["sequences"]
            == SETS * checked["shape"]["batch_size"]
        )
        assert ("likeliest" in agreement["method"]) == (workflow != "tensorrt_llm")
        assert (agreement["positions"] > 0) == (workflow != "tensorrt_llm")
    (engaged,) = events(answer, "engagement")
    assert engaged["share"] == 1.0
    assert engaged["facts"]["preallocates"] is True
    (reported,) = events(answer, "recipe_facts")
    facts = msgspec.convert(reported, RecipeFacts, str_keys=True)
    assert [*facts.allowances] == [*map(str, SIZES)]
    assert workflow in imported_packages(facts.integration)
    assert EACH_CALL.search(facts.integration)
    assert facts.serving_command
    assert MODEL in shlex.split(facts.serving_command)
    (loaded,) = events(answer, "loaded")
    assert (loaded["unit"], loaded["units_per_sample"], loaded["parameter_bytes"]) == (
        "tokens",
        NEW,
        2000,
    )
    assert len(events(answer, "block_timed")) == 1
    for visit in events(answer, "block_timed"):
        assert 1 <= len(visit["first_token_seconds"]) <= 3
    assert {result["outcome"] for result in events(answer, "new_shape_result")} == {"served"}


@pytest.mark.parametrize("workflow", ["vllm", "sglang", "tensorrt_llm"])
def test_an_engine_with_wrong_probabilities_is_not_timed(
    workflow: str, tmp_path: pathlib.Path
) -> None:
    answer = ask(workflow, tmp_path, "wrong")
    assert answer.failure["status"] == "incorrect"
    assert "diverges" in answer.failure["reason"]
    assert events(answer, "block_timed") == []


@pytest.mark.parametrize("workflow", ["vllm", "sglang", "tensorrt_llm"])
def test_an_unknown_architecture_is_unsupported_before_the_engine_loads(
    workflow: str, tmp_path: pathlib.Path
) -> None:
    answer = ask(workflow, tmp_path, "hangs", "OddForCausalLM")
    assert answer.failure["status"] == "unsupported"
    assert "OddForCausalLM" in answer.failure["reason"]


def test_an_engine_without_memory_ends_as_out_of_memory(tmp_path: pathlib.Path) -> None:
    assert ask("vllm", tmp_path, "out-of-memory").failure["status"] == "out-of-memory"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def supervisor(clock: Clock) -> Iterator[Supervisor]:
    with Supervisor(DEADLINES, clock=clock) as supervisor:
        yield supervisor


def start(
    supervisor: Supervisor, directory: pathlib.Path, fault: str, mark: dict[str, str]
) -> Worker:
    worker = supervisor.start(
        worker_request("vllm", directory, fault),
        directory / "control",
        process=0,
        interpreter=sys.executable,
        script=rubric_files.probes_directory() / "worker.py",
        environment={**mark, "PYTHONPATH": str(ENGINES)},
        max_build_seconds=30,
    )
    assert isinstance(worker, Worker)
    supervisor.send(worker, "build")
    return worker


def test_the_processes_of_an_engine_that_dies_at_its_start_are_killed(
    supervisor: Supervisor, tmp_path: pathlib.Path
) -> None:
    with workers.mark_processes("engine-dies") as mark:
        crashed = messages_until_end(supervisor, start(supervisor, tmp_path, "dies", mark))[-1]
        failure = expect_failure(crashed, "crashed")
        assert (failure.phase, failure.signal) == ("build", "SIGKILL")
        workers.wait_until(lambda: not workers.find_marked("engine-dies"))


def test_an_engine_that_hangs_at_its_start_is_killed_at_its_deadline_with_its_processes(
    supervisor: Supervisor, clock: Clock, tmp_path: pathlib.Path
) -> None:
    with workers.mark_processes("engine-hangs") as mark:
        worker = start(supervisor, tmp_path, "hangs", mark)
        workers.wait_until(
            lambda: any(
                process.name() == "sleep" for process in workers.find_marked("engine-hangs")
            )
        )
        list(supervisor.poll(timeout=0.0))
        clock.now += 31
        timed_out = messages_until_end(supervisor, worker)[-1]
        failure = expect_failure(timed_out, "timed-out")
        assert failure.phase == "build"
        workers.wait_until(lambda: not workers.find_marked("engine-hangs"))


def test_a_quantised_engine_is_proven_by_the_types_of_its_weights(tmp_path: pathlib.Path) -> None:
    answer = ask("vllm", tmp_path, quantization="fp8")
    assert answer.failure is None, answer.log
    (engaged,) = events(answer, "engagement")
    assert engaged["share"] == 1.0
    assert engaged["facts"]["weights"] == {"float8_e4m3fn": 2 * 64}
    assert engaged["weight_bytes"] == 2 * 64 + 2 * 128


def test_a_format_that_the_engine_accepts_and_ignores_is_not_engaged(
    tmp_path: pathlib.Path,
) -> None:
    answer = ask("vllm", tmp_path, quantization="int8_per_channel_weight_only")
    assert answer.failure["status"] == "not-engaged"
    (engaged,) = events(answer, "engagement")
    assert engaged["share"] == 0.0
