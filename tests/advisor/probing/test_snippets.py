from __future__ import annotations

import errno
import os
import pathlib
import re
import types
from collections.abc import Callable, Mapping
from typing import Any

import builders
import psutil
import pytest
import sessions
import workers
from built_answers import timed_cell
from worker_scripts import CALL, EAGER, LOADING, WITH_TORCH

from advisor.ask import catalogue_files
from advisor.domain.errors import NotWritableError, VerificationError
from advisor.domain.model import FactoryModel, OnnxModel, TransformersModel
from advisor.domain.plan import REFERENCE, arm_directory_name
from advisor.domain.run_events import WorkerSpawned
from advisor.domain.snippet import Snippet, SnippetPair
from advisor.probing.run_config import RunConfig
from advisor.probing.session import WorkerSession
from advisor.probing.snippets import PairedCalls, link_files, make_arm, run_pair
from advisor.probing.worker_process import Worker
from probes import protocol
from probes.events import Ready

pytestmark = pytest.mark.slow

PROBES = catalogue_files.probes_directory()
#: A language model that prefers the next number, by 5 nats.
COUNTING = """\
import types
import torch


def model(tokens):
    logits = 5.0 * torch.nn.functional.one_hot((tokens + 1) % 10, 10)
    return types.SimpleNamespace(logits=logits)


prompts = torch.randint(0, 10, (2, 3))
"""
WHOLE_TEXT = """\
# Each call:
tokens = (prompts[:, -1:] + 1 + torch.arange(4)) % 10
tokens = torch.cat([prompts, tokens], 1)
"""
NEW_TEXT = """\
if __name__ == "__main__":
    ahead = range(1, 5)
    # Each call:
    tokens = [[(prompt[-1] + step) % 10 for step in ahead] for prompt in prompts.tolist()]
"""
START_CHILD = "import subprocess\nsubprocess.Popen(['sleep', '3600'], start_new_session={})\n"


def run(
    text: str | Snippet,
    other: str = EAGER,
    asked: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
    tell: Callable[[str], None] = lambda _line: None,
    **changes: Any,
) -> PairedCalls:
    config = sessions.run_config(pathlib.Path(), PROBES, environment=environment, asked=asked or {})
    pair = SnippetPair(
        planned=builders.arm("compiled"),
        own=Snippet(text=text) if isinstance(text, str) else text,
        baseline=Snippet(text=other),
        allowed=changes.pop("allowed", [1e-7]),
        cell=timed_cell(),
        **changes,
    )
    return run_pair(pair, config, 0.01, tell)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_snippets_with_the_same_weights_agree_on_the_inputs_of_the_first(one_by_one: bool) -> None:
    slower = LOADING + CALL.format("time.sleep(0.005) or model.bias + inputs[0] @ model.weight.T")
    told: list[str] = []
    pair = run(slower, one_by_one=one_by_one, tell=told.append)
    assert len(told) == 3
    assert pair.problem is None
    assert builders.known(pair.error) < 1e-6
    assert len(pair.rounds) >= 5
    assert all(min(own) > 0.005 for own, _ in pair.rounds)
    assert min(min(other) for _, other in pair.rounds) < 0.005
    assert "torch" in pair.versions


@pytest.mark.stack
def test_the_error_of_another_precision_is_told_for_the_same_inputs() -> None:
    lower = WITH_TORCH + "model = model.bfloat16()\ninputs = (inputs[0].bfloat16(),)\n"
    check = "inputs[0].dtype == torch.bfloat16 and model(*inputs)"
    eager = WITH_TORCH + CALL.format("model(*inputs)")
    pair = run(eager, lower + CALL.format(check), allowed=[1e9])
    assert pair.problem is None
    assert 1e-4 < builders.known(pair.error) < 1e-1
    assert pair.rounds


@pytest.mark.stack
def test_a_text_is_read_by_the_baseline() -> None:
    assert run(COUNTING + NEW_TEXT, COUNTING + WHOLE_TEXT, allowed=0.1).problem is None


def test_a_snippet_is_a_main_program_without_input_and_leaves_no_child() -> None:
    main = (
        "import sys\n"
        "assert __name__ == '__main__'\n"
        "assert sys.modules['__main__'].__file__ == __file__\n"
        "assert not sys.stdin.read()\n"
    )
    children = START_CHILD.format("False") + START_CHILD.format("True")
    with workers.mark_processes("snippet") as environment:
        pair = run(
            main + children + LOADING + CALL.format("3 * model(*inputs)"),
            allowed=None,
            environment=environment,
        )
        workers.wait_until(lambda: not workers.find_marked("snippet"))
    assert pair.problem is None, "outputs that cannot be compared are not"


def test_the_error_of_a_failed_snippet_has_its_exception() -> None:
    for text in ("raise ValueError('no such operator')\n" + EAGER, "# Each call:\nno()\n"):
        with pytest.raises(VerificationError, match="the snippet failed") as problem:
            run(text)
        assert re.match(r"ValueError: no such|NameError: name 'no' is not", problem.value.reason)


def test_a_missing_interpreter_is_an_error(tmp_path: pathlib.Path) -> None:
    missing = Snippet(text=EAGER, python=str(tmp_path / "missing"))
    with pytest.raises(VerificationError, match="missing cannot be started: No such file"):
        run(missing)


def test_a_snippet_beyond_its_timeout_is_killed_with_its_children() -> None:
    text = START_CHILD.format("True") + "import time\ntime.sleep(3600)\n" + EAGER
    with workers.mark_processes("snippet") as environment:
        with pytest.raises(VerificationError, match="exceeded its deadline"):
            run(text, asked={"max_build_seconds": 1.0}, environment=environment)
        workers.wait_until(lambda: not workers.find_marked("snippet"))


def test_a_sandboxed_snippet_writes_next_to_itself_only(tmp_path: pathlib.Path) -> None:
    asked = {"sandbox": True}
    write = "import pathlib\npathlib.Path({!r}).write_text('')\n"
    run(write.format("model.onnx") + EAGER, asked=asked)
    with pytest.raises(VerificationError, match="PermissionError"):
        run(write.format(str(tmp_path / "elsewhere")) + EAGER, asked=asked)


@pytest.mark.parametrize("target", [".", "missing"], ids=["link", "dangling link"])
def test_no_link_of_a_worker_to_the_folder_of_a_snippet_is_followed(
    tmp_path: pathlib.Path, target: str
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "snippet").symlink_to(tmp_path / target)
    session: Any = types.SimpleNamespace(config=types.SimpleNamespace(scratch_directory=tmp_path))
    with pytest.raises(VerificationError, match="a worker replaced the folder"):
        make_arm(session, builders.arm("compiled"), "snippet", Snippet(text=""), {})
    assert {each.name for each in tmp_path.iterdir()} == {"shared"}


def test_a_snippet_finds_the_files_of_a_user_and_changes_none(here: pathlib.Path) -> None:
    (here / "llama.cpp").mkdir()
    (here / "unrelated").mkdir()
    place = here / "models"
    place.mkdir()
    for name in ("model.onnx", "model.onnx.data", "quantised.onnx", "net.py", "weights.pt"):
        (place / name).write_text("mine")
    folder = here / "files"
    folder.mkdir()
    reads = '"model.onnx", "llama.cpp/convert.py", "quantised.onnx"'
    environment = {"llm-compressor": here / "unrelated"}

    def linked(model: Any, text: str) -> set[str]:
        for each in folder.iterdir():
            each.unlink()
        link_files(Snippet(text=text, folders=environment), model, folder)
        assert {each.read_text() for each in place.iterdir()} == {"mine"}
        return {each.name for each in folder.iterdir()}

    model = OnnxModel(name=str(place / "model.onnx"))
    others = {"model.onnx.data", "net.py", "weights.pt"}
    assert linked(model, reads) == {"model.onnx", "llama.cpp", *others}
    factory = FactoryModel(name=f"{place / 'net.py'}:build")
    both = {"model.onnx", "quantised.onnx"}
    assert linked(factory, '"llm-compressor/bin/python"') == {"llm-compressor", *both, *others}
    # The external data of a file that it writes would be those of the user's file.
    assert linked(factory, '"model.onnx"') == {"quantised.onnx", "net.py", "weights.pt"}
    assert linked(FactoryModel(name="package.module:build"), "") == set()


def test_a_checkpoint_is_copied_where_the_snippet_writes_to_its_name(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    checkpoint = TransformersModel(name=str(tmp_path / "model"), weights=str(tmp_path / "model"))
    for text, is_link in (('"./model"', True), ('"./model", "model"', False)):
        folder = tmp_path / f"files-{is_link}"
        folder.mkdir()
        link_files(Snippet(text=text), checkpoint, folder)
        assert (folder / "model" / "config.json").is_file()
        assert (folder / "model").is_symlink() == is_link


def test_only_the_arm_with_a_missing_interpreter_ends(
    session: WorkerSession, tmp_path: pathlib.Path
) -> None:
    missing = builders.replace(sessions.ALIKE, python=str(tmp_path / "missing"))
    up = sessions.start_workers(session, missing, sessions.QUICK)
    assert WorkerSpawned(arm=missing.id, process=0, repeat=0) in up
    failure = sessions.expect_failure(sessions.outcomes_by_arm(up)[missing.id], "crashed")
    assert failure.phase == "start"
    assert failure.reason == f"{missing.python} cannot be started: No such file or directory"
    assert failure.fix
    assert not session.pool.is_running(missing.id)
    assert list(session.build(missing.id)) == []
    assert sessions.worker_events_of(session.build("quick"), Ready)


def test_no_arm_starts_when_the_reference_does_not(
    session: WorkerSession, tmp_path: pathlib.Path
) -> None:
    missing = builders.replace(sessions.BASELINE, python=str(tmp_path / "missing"))
    up = [*session.start_reference(missing, 0), *session.start([(sessions.QUICK, 0)])]
    assert list(sessions.outcomes_by_arm(up)) == [REFERENCE]
    assert not session.pool.is_running("quick")


def test_a_full_disk_of_the_scratch_directory_is_a_user_error(
    session: WorkerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pathlib.Path, "mkdir", refuse)
    with pytest.raises(NotWritableError, match="No space left on device"):
        list(session.start_reference(sessions.BASELINE, 0))


#: The path of a socket may have 107 bytes; this leaves room for the name that a stack chooses.
SHORT = 50


def temporary_folder_of(worker: Worker) -> pathlib.Path:
    """Return the folder for temporary files of a worker, which may not show its variables yet."""
    process = psutil.Process(worker.popen.pid)
    workers.wait_until(lambda: protocol.MARK_VARIABLE in process.environ())
    return pathlib.Path(process.environ()["TMPDIR"])


def test_a_worker_keeps_temporary_files_below_its_scratch_directory(run_config: RunConfig) -> None:
    scratch = run_config.scratch_directory.resolve()
    with WorkerSession(run_config) as session:
        list(session.start_reference(sessions.BASELINE, 0))
        list(session.start([(sessions.ALIKE, 0), (sessions.QUICK, 0)]))
        folders = {arm: temporary_folder_of(worker) for arm, worker in session.pool.workers.items()}
        assert {*folders} == {REFERENCE, sessions.ALIKE.id, sessions.QUICK.id}
        for arm, folder in folders.items():
            assert folder.resolve().is_relative_to(scratch / arm_directory_name(arm))
            assert folder.is_dir()
            assert len(str(folder)) < SHORT
        list(session.start([(sessions.QUICK, 1)], repeat=1, built={sessions.QUICK.id}))
        again = temporary_folder_of(session.pool.workers[sessions.QUICK.id])
        assert again == folders[sessions.QUICK.id], "a warm build finds the caches of the cold one"
    for folder in folders.values():
        assert not folder.parent.exists(), "the short names are removed with the workers"
