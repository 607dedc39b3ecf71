from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest
import workers

from advisor.ask import catalogue_files
from probes import events, protocol
from probes.commands import Build, Command, Stop, Visit, encode
from probes.facts import FREED_MEMORY
from probes.outcome import Failure, Outcome
from probes.runtime.channel import Channel
from probes.shape import Shape

FAKE_EAGER = pathlib.Path(__file__).parents[2] / "fakes/probes/workflows/pytorch_eager.py"
ROOT = catalogue_files.probes_directory().parent
#: A workflow that reports one value.
REPORTING = """
import importlib.util, json, subprocess, sys

def versions():
    return {{"answer": json.dumps({expression})}}

def settings(request):
    return {{}}
"""
SPAWNING = """
import concurrent.futures, multiprocessing, sys
from probes import protocol

def inspect():
    import probes
    return {"package": probes.__file__, "file": protocol.REQUEST, "path": sys.path}

def spawned():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(inspect).result()
"""
#: The fake baseline with a model of another precision.
PRECISE = """
import runpy

workflow = runpy.run_path({workflow!r})
versions, settings, open_subject = (
    workflow[name] for name in ("versions", "settings", "open_subject")
)
workflow["Subject"].dtype = {dtype!r}
"""
POISON = 'raise RuntimeError("the wrong module was imported")\n'


@pytest.fixture(autouse=True)
def default_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)


@pytest.fixture(scope="module")
def foreign_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter in an environment without our packages."""
    directory = tmp_path_factory.mktemp("foreign") / "environment"
    venv.create(directory, symlinks=True)
    return str(directory / "bin" / "python")


@pytest.fixture
def own_probes(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the core that a test may change."""
    probes = tmp_path / "own" / "probes"
    ignored = shutil.ignore_patterns("__pycache__", "subjects", "stacks")
    shutil.copytree(catalogue_files.probes_directory(), probes, ignore=ignored)
    return probes


def evaluate(expression: str, place: pathlib.Path, code: str = "", **how: Any) -> object:
    """Return the value of `expression` in a worker that has imported its workflow."""
    answer = run(code + REPORTING.format(expression=expression), place, **how)
    value: object = json.loads(answer.versions["answer"])
    return value


def run(code: str, place: pathlib.Path, **how: Any) -> workers.WorkerResult:
    """Run a worker of the workflow of this code, which does not fail."""
    workflow = place / "reporting.py"
    workflow.write_text(code)
    request = workers.make_request(workflow, place)
    answer = workers.run_worker(request, place / "control", Stop(), **how)
    assert answer.failure is None, answer.log
    return answer


def default_path(interpreter: str) -> list[str]:
    """Return the default path of `interpreter` without the entry for the current directory."""
    command = [interpreter, "-c", "import json, sys; print(json.dumps(sys.path[1:]))"]
    path: list[str] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return path


@pytest.mark.parametrize("name", ["advisor", "msgspec", "harness", "timing"])
def test_our_code_and_packages_cannot_be_imported(
    name: str, foreign_python: str, tmp_path: pathlib.Path
) -> None:
    expression = f"importlib.util.find_spec({name!r}) is None"
    assert evaluate(expression, tmp_path, interpreter=foreign_python) is True


def test_the_folder_of_the_script_is_removed_from_the_path_by_any_name(
    foreign_python: str, tmp_path: pathlib.Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(catalogue_files.probes_directory())
    environment = {**os.environ, "PYTHONPATH": str(link / "runtime")}
    assert evaluate(
        "sys.path", tmp_path, probes=link, interpreter=foreign_python, environment=environment
    ) == default_path(foreign_python)


def test_a_spawned_process_has_the_package_and_the_same_path(
    foreign_python: str, own_probes: pathlib.Path
) -> None:
    seen = evaluate(
        "spawned()",
        own_probes / "workflows",
        SPAWNING,
        probes=own_probes,
        interpreter=foreign_python,
    )
    expected = {
        "package": str(own_probes / "__init__.py"),
        "file": protocol.REQUEST,
        "path": default_path(foreign_python),
    }
    assert seen == expected


def test_memory_that_a_call_frees_is_kept(tmp_path: pathlib.Path) -> None:
    answer = run(workers.COUNT_FAULTS + REPORTING.format(expression="count_faults()"), tmp_path)
    assert int(answer.versions["answer"]) < workers.FAULTS_OF_A_BLOCK
    assert answer.events_of("imported")[0]["settings"] == {FREED_MEMORY: "kept"}


def test_modules_of_the_same_names_on_the_path_are_not_imported(tmp_path: pathlib.Path) -> None:
    poisoned = tmp_path / "poisoned"
    for folder in ("runtime", "workflows"):
        (poisoned / "probes" / folder).mkdir(parents=True)
    names = {name.rpartition(".")[2] for name in workers.CORE_MODULES}
    for name in ("probes/__init__", "probes/runtime/worker", *names):
        (poisoned / f"{name}.py").write_text(POISON)
    path = evaluate("sys.path", tmp_path, environment={**os.environ, "PYTHONPATH": str(poisoned)})
    assert isinstance(path, list)
    assert path[0] == str(poisoned), "the user's path is kept"


def test_no_file_beside_the_worker_shadows_the_standard_library(
    own_probes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    files = [own_probes / f"{name.replace('.', '/')}.py" for name in workers.CORE_MODULES]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    imported = {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    names = {each.partition(".")[0] for each in imported} & set(sys.stdlib_module_names)
    assert {"json", "pathlib", "statistics"} <= names
    for name in {*names, "queue", "warnings"} - {"__future__"}:
        (own_probes / "runtime" / f"{name}.py").write_text(POISON)
    assert evaluate("'fine'", tmp_path, probes=own_probes) == "fine"


def test_output_of_the_stack_goes_to_the_log_and_not_to_the_notifications(
    tmp_path: pathlib.Path,
) -> None:
    noise = (
        "[print('from Python', flush=True), subprocess.call(['echo', 'from a child']),"
        " sys.stderr.write('an error')]"
    )
    answer = run(REPORTING.format(expression=noise), tmp_path)
    for words in ("from Python", "from a child", "an error"):
        assert words in answer.log
    assert answer.notifications == b"." * (len(answer.events) + 1)
    assert answer.status == 0


@pytest.mark.parametrize(
    ("own", "asked", "supported", "kind", "status"),
    [
        ("bfloat16", "own", ["float32", "float16"], "factory", "unsupported"),
        ("bfloat16", "own", ["float32", "float16"], "exported", "unsupported"),
        ("float16", "own", ["float32", "float16"], "factory", "completed"),
        # It is not known which ones it supports.
        ("bfloat16", "own", [], "factory", "completed"),
        # The advisor has checked the precision to which a model is cast.
        ("bfloat16", "bfloat16", ["float32"], "factory", "completed"),
    ],
)
def test_an_arm_refuses_a_precision_of_the_model_that_it_does_not_support(
    tmp_path: pathlib.Path, own: str, asked: str, supported: list[str], kind: str, status: str
) -> None:
    workflow = tmp_path / "precise.py"
    workflow.write_text(PRECISE.format(workflow=str(FAKE_EAGER), dtype=own))
    request = workers.make_request(
        workflow,
        tmp_path,
        role="reference",
        dtype=asked,
        supported_dtypes=supported,
        subject={"kind": kind},
    )
    failure = workers.run_worker(request, tmp_path / "control", Build(), Stop()).failure
    assert (failure["status"] if failure else "completed") == status, failure
    if status == "unsupported":
        assert own in failure["reason"]
        assert ("--dtype float32" in failure["fix"]) is (kind == "factory")
        assert "float32" in failure["fix"]


def test_a_missing_workflow_is_reported(tmp_path: pathlib.Path) -> None:
    answer = workers.run_worker(
        workers.make_request(tmp_path / "no_such_file.py", tmp_path), tmp_path / "control"
    )
    assert (answer.failure["status"], answer.failure["phase"]) == ("unsupported", "import")
    assert "no_such_file.py" in answer.failure["reason"]


def test_the_log_of_a_crash_has_the_python_line(tmp_path: pathlib.Path) -> None:
    control = tmp_path / "control"
    workflow = tmp_path / "reporting.py"
    workflow.write_text("import ctypes\n\ndef versions():\n    ctypes.string_at(0)\n")
    with pytest.raises(FileNotFoundError, match=protocol.RESPONSE):
        workers.run_worker(workers.make_request(workflow, tmp_path), control)
    log = (control / protocol.LOG).read_text()
    assert "Segmentation fault" in log
    assert f'File "{workflow}", line 4 in versions' in log


@pytest.fixture
def stdin() -> Iterator[BinaryIO]:
    """The advisor's end of the worker's standard input."""
    read, write = os.pipe()
    kept = os.dup(0)
    os.dup2(read, 0)
    os.close(read)
    try:
        with os.fdopen(write, "wb", buffering=0) as advisor_end:
            yield advisor_end
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.fixture
def notifications() -> Iterator[tuple[int, int]]:
    """The pipe of the notifications: the end to read, the end to write."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    with os.fdopen(read_end, "rb"), os.fdopen(write_end, "wb"):
        yield read_end, write_end


@pytest.fixture
def channel(tmp_path: pathlib.Path, notifications: tuple[int, int]) -> Iterator[Channel]:
    with workers.open_channel(tmp_path, notifications[1]) as channel:
        yield channel


def test_a_partial_token_is_not_returned(channel: Channel, stdin: BinaryIO) -> None:
    commands: list[Command] = []
    reader = threading.Thread(target=lambda: commands.append(channel.read_command()))
    reader.start()
    visit, stop = encode(Visit(Shape(16), 3)), encode(Stop())
    for piece in (visit[:9], visit[9:-2], visit[-2:] + stop[:2]):
        assert commands == []
        stdin.write(piece)
        workers.wait_until(lambda: not select.select([0], [], [], 0)[0])
    reader.join()
    assert commands == [Visit(Shape(16), 3)]
    stdin.write(stop[2:])
    assert channel.read_command() == Stop()


@pytest.mark.parametrize("rest", [b"", encode(Visit(Shape(16), 3))[:-2]])
def test_the_end_of_standard_input_means_stop(
    channel: Channel, stdin: BinaryIO, rest: bytes
) -> None:
    stdin.write(rest)
    stdin.close()
    assert channel.read_command() == Stop()


def test_each_event_is_written_before_its_notification(
    channel: Channel,
    tmp_path: pathlib.Path,
    notifications: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines_at_notification: list[int] = []
    write = os.write

    def count_lines(descriptor: int, data: bytes) -> int:
        if descriptor == notifications[1]:
            lines_at_notification.append((tmp_path / protocol.EVENTS).read_bytes().count(b"\n"))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", count_lines)
    channel.send(events.Ready())
    channel.start_phase("build", Shape(16))
    assert lines_at_notification == [1, 2]
    assert os.read(notifications[0], 100) == b".."
    written = [json.loads(line) for line in (tmp_path / protocol.EVENTS).read_text().splitlines()]
    assert written == [
        {"event": "ready"},
        {"event": "phase_started", "phase": "build", "shape": dataclasses.asdict(Shape(16))},
    ]


def test_a_full_pipe_of_notifications_does_not_block(
    channel: Channel, tmp_path: pathlib.Path, notifications: tuple[int, int]
) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(notifications[1], bytes(4096))
    channel.send(events.Ready())
    channel.respond(Outcome())
    assert (tmp_path / protocol.EVENTS).read_text() == '{"event": "ready"}\n'
    assert (tmp_path / protocol.RESPONSE).exists()


def test_a_missing_advisor_is_no_error(tmp_path: pathlib.Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb"), workers.open_channel(tmp_path, write_end) as channel:
        channel.send(events.Ready())
        channel.respond(Outcome())
    assert (tmp_path / protocol.RESPONSE).exists()


def test_a_response_is_written_atomically(channel: Channel, tmp_path: pathlib.Path) -> None:
    response = tmp_path / protocol.RESPONSE
    response.write_text("an older one")
    with response.open() as open_file:
        channel.respond(Outcome(Failure("unsupported", "build", "no such operator")))
        assert open_file.read() == "an older one"
    failure = json.loads(response.read_text())["failure"]
    assert (failure["status"], failure["reason"]) == ("unsupported", "no such operator")
    assert sorted(file.name for file in tmp_path.iterdir()) == [protocol.EVENTS, protocol.RESPONSE]
