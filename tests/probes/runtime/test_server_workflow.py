"""A workflow's server as a workflow; the tests of `advisor.execute.servers` run real ones."""

from __future__ import annotations

import dataclasses
import http.server
import json
import pathlib
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
import workers

from probes import protocol
from probes.adapter import Server
from probes.protocol import Request
from probes.runtime.server_workflow import (
    REQUEST_ERRORS,
    ServedProgram,
    ServerEndedError,
    wait_until_ready,
)
from probes.subjects import checkpoint
from probes.subjects.checkpoint import CheckpointInfo, EngineSubject
from probes.workflows import sglang, vllm

LOAD: dict[str, Any] = {"most_tokens": 64, "input_tokens": 40}
LOAD |= {"start_seconds": 20.0, "request_seconds": 5.0}
SERVER = Server(command=[], model="m", settings={})


def make_request(directory: pathlib.Path, **changes: Any) -> Request:
    return workers.make_request(
        directory / "workflow.py", directory, role="serve", task="generate", load=LOAD, **changes
    )


def make_subject(request: Request, **config: int) -> EngineSubject:
    folder = checkpoint.folder_of(request)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    checkpoint.write_info(folder, CheckpointInfo("Fake", "float32", 1, 4, {}, 16, None))
    return EngineSubject(request)


def program(tmp_path: pathlib.Path, process: subprocess.Popen[bytes]) -> ServedProgram:
    server = dataclasses.replace(SERVER, separator=" ")
    return ServedProgram("http://127.0.0.1:1", server, process, make_request(tmp_path))


@pytest.mark.parametrize("body", [b'{"choices": []}', b"[]", b"{}", b'{"choices": null}', b"{"])
def test_an_answer_without_a_text_is_an_error_of_the_request(
    body: bytes, tmp_path: pathlib.Path
) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with (
        http.server.HTTPServer(("127.0.0.1", 0), Handler) as answering,
        subprocess.Popen([sys.executable, "-c", ""]) as process,
    ):
        threading.Thread(target=answering.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{answering.server_port}"
        made = ServedProgram(url, SERVER, process, make_request(tmp_path))
        with pytest.raises(REQUEST_ERRORS):
            made.complete("t0000001")


def test_prompts_and_texts_have_one_word_for_each_token(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        made = program(tmp_path, process)
    assert made.feed([np.array([[3, 12], [4, 5]])]) == ["t0000003 t0000012", "t0000004 t0000005"]
    (tokens,) = made.collect(["t0000001 t0000002", "t0000003t0000004"])
    assert tokens.tolist() == [[1, 2], [3, 4]]
    (ragged,) = made.collect(["t0000001 t0000002", "t0000003"])
    assert ragged.tolist() == [[1, 2], [3, -1]]


def test_a_server_that_has_ended_is_an_error_with_the_end_of_its_log(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(protocol.MARK_VARIABLE, str(tmp_path))
    (tmp_path / protocol.LOG).write_text("starting\nout of memory\n\n")
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"]) as process:
        pass
    with pytest.raises(ServerEndedError, match=r"status 7; its log ends: out of memory$"):
        program(tmp_path, process)(["t0000001"])
    with pytest.raises(ServerEndedError, match="status 7 before it answered"):
        wait_until_ready("http://127.0.0.1:1", process, 5.0)


def test_a_server_that_does_not_answer_in_time_is_an_error() -> None:
    idle = "import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", idle]) as process:
        try:
            with pytest.raises(ServerEndedError, match=r"within 0\.5 s"):
                wait_until_ready("http://127.0.0.1:1", process, 0.5)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("workflow", "option"), [(vllm, "--tensor-parallel-size"), (sglang, "--tp-size")]
)
def test_a_server_splits_its_model_over_as_many_devices_as_are_asked(
    workflow: Any, option: str, tmp_path: pathlib.Path
) -> None:
    one = make_request(tmp_path, subject={"kind": "transformers", "name": "model"})
    subject = make_subject(one)
    two = dataclasses.replace(one, devices_per_model=2)
    assert option not in workflow.server(subject, one, 1234).command
    command = workflow.server(EngineSubject(two), two, 1234).command
    assert command[command.index(option) + 1] == "2"
    assert f"{option} 2" in workflow.serving_command(two)
    assert option not in workflow.serving_command(one)


def test_vllms_server_takes_prompts_of_the_longest_requests_as_words(
    tmp_path: pathlib.Path,
) -> None:
    """vLLM 0.22 refuses a text with more characters than its tokens can have, without spaces."""
    longest_token = len(checkpoint.token_word(0))
    prompt = " ".join([checkpoint.token_word(3)] * LOAD["input_tokens"])
    reserved = LOAD["most_tokens"] - LOAD["input_tokens"]
    assert len(prompt) <= longest_token * (served_length(tmp_path) - reserved)


def test_vllms_server_keeps_to_the_positions_of_the_model(tmp_path: pathlib.Path) -> None:
    length = LOAD["most_tokens"]
    assert served_length(tmp_path, max_position_embeddings=length) == length


def served_length(directory: pathlib.Path, **config: int) -> int:
    request = make_request(directory)
    command = vllm.server(make_subject(request, **config), request, 1234).command
    return int(command[command.index("--max-model-len") + 1])


def test_gpus_are_named_by_the_index_that_the_driver_gives_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, GPU-a'\necho '1, GPU-b'\necho '2, GPU-c'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert vllm.devices_by_index("GPU-c,GPU-a")["CUDA_VISIBLE_DEVICES"] == "2,0"
    assert vllm.devices_by_index("GPU-b")["CUDA_VISIBLE_DEVICES"] == "1"
    assert vllm.devices_by_index("") == vllm.devices_by_index("GPU-x") == {}
