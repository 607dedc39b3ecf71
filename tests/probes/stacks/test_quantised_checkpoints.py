"""vLLM's arms whose quantised checkpoint another interpreter writes, with fakes of both stacks."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys

import pytest
import workers
from engine_requests import ENGINES, worker_request

from probes import protocol
from probes.commands import Build, Stop

pytestmark = pytest.mark.slow

QUANTISER = pathlib.Path(__file__).parents[2] / "fakes" / "quantiser"


def scheme_request(
    directory: pathlib.Path, scheme: str, fault: str = "", device: protocol.Device = "cpu"
) -> protocol.Request:
    """Write an interpreter that has the fake of llm-compressor, and counts its runs."""
    file = directory / "quantiser"
    file.write_text(
        f"#!/bin/sh\necho run >> {directory}/runs\nexport PYTHONPATH={QUANTISER}\n"
        f'exec {sys.executable} "$@"\n'
    )
    file.chmod(0o755)
    return dataclasses.replace(
        worker_request("vllm", directory, fault),
        options={"scheme": scheme},
        device=device,
        quantiser=str(file),
    )


def start(
    request: protocol.Request, control: pathlib.Path, **variables: str
) -> workers.WorkerResult:
    environment = {**os.environ, "PYTHONPATH": str(ENGINES), **variables}
    return workers.run_worker(request, control, Build(), Stop(), environment=environment)


@pytest.mark.parametrize(
    ("scheme", "fault", "weights", "status"),
    [
        ("W8A8", "", "int8", "completed"),
        ("W8A8", "not quantised", "bfloat16", "not-engaged"),
        ("FP8_DYNAMIC", "another format", "int8", "not-engaged"),
    ],
)
def test_the_engine_loads_what_the_other_interpreter_wrote(
    scheme: str, fault: str, weights: str, status: str, tmp_path: pathlib.Path
) -> None:
    """Weights of another format than the scheme's are not engaged."""
    answer = start(scheme_request(tmp_path, scheme, fault), tmp_path / "control")
    assert (answer.failure["status"] if answer.failure else "completed") == status, answer.log
    (engaged,) = answer.events_of("engagement")
    assert engaged["share"] == (status == "completed")
    assert engaged["facts"]["weights"] == {weights: 2 * 64}
    assert "a line of the library" in answer.log


def test_another_process_of_the_arm_does_not_write_again(tmp_path: pathlib.Path) -> None:
    request = scheme_request(tmp_path, "W8A8")
    for process in ("first", "second"):
        assert start(request, tmp_path / process).failure is None
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("no scheme", "ValueError: the scheme is unknown: W0A0"), ("ends", "status 7")],
)
def test_a_quantiser_that_fails_is_a_failed_build_with_its_reason(
    fault: str, reason: str, tmp_path: pathlib.Path
) -> None:
    answer = start(scheme_request(tmp_path, "W8A8", fault), tmp_path / "control")
    assert (answer.failure["status"], answer.failure["phase"]) == ("build-failed", "build")
    assert reason in answer.failure["reason"]
    assert list((tmp_path / "shared").glob("checkpoint-*")) == [], "a part is not reused"


@pytest.mark.parametrize(
    ("capability", "status"), [("8.9", "completed"), ("9.0", "completed"), ("8.6", "unsupported")]
)
def test_activations_in_float8_need_a_gpu_with_such_products(
    capability: str, status: str, tmp_path: pathlib.Path
) -> None:
    request = scheme_request(tmp_path, "FP8_DYNAMIC", device="cuda")
    answer = start(request, tmp_path / "control", FAKE_COMPUTE_CAPABILITY=capability)
    assert (answer.failure["status"] if answer.failure else "completed") == status, answer.log
    assert (tmp_path / "runs").exists() == (status == "completed"), "nothing is written for it"


def test_rows_that_cannot_be_divided_into_groups_are_unsupported(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("transformers")
    request = scheme_request(tmp_path, "W4A16")
    config = {**workers.LLAMA, "hidden_size": 128, "intermediate_size": 200}
    workers.random_weights(config, tmp_path / "shared" / "checkpoint")
    answer = start(request, tmp_path / "control")
    assert answer.failure["status"] == "unsupported", answer.log
    assert "model.layers.0.mlp.down_proj have 200" in answer.failure["reason"]
