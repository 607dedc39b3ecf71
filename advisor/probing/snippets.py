"""Run the snippets of two arms, as they are pasted, and time their calls in turns."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from advisor.domain.model import FactoryModel, Model
from advisor.domain.question import Question
from advisor.domain.worker_settings import BLOCK_SECONDS
from advisor.errors import VerificationError
from advisor.probing.environments.variables import worker_environment
from advisor.probing.termination import kill_worker
from advisor.probing.worker_log import failure_reason
from probes import protocol

#: Least number of blocks of each snippet.
MIN_ROUNDS = 5
#: In the folder of a process: what `probes.runtime.snippet` reads, the snippet, the folder in which
#: it runs, and its first call, which the process of the other snippet reads.
REQUEST, SNIPPET, FILES, CALL = "request.json", "snippet.py", "files", "call.pt"

Reply = TypeVar("Reply")


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A snippet, and where it runs."""

    text: str
    interpreter: str
    #: Whether p3-advisor created the interpreter's environment.
    own_environment: bool
    #: Folders next to the snippet, by the name in its text.
    folders: Mapping[str, pathlib.Path] = {}


class FirstCall(msgspec.Struct, frozen=True, kw_only=True):
    """What a process reports after its first call and the warm-up."""

    #: What is wrong with the outputs that were compared; null for nothing.
    problem: str | None
    #: Their largest error as a share of the allowed one; null without a comparison.
    error: float | None
    #: Installed versions by distribution.
    versions: dict[str, str]


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """The median duration of the calls of one block."""

    seconds: float


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """How the first of two snippets compares with the second."""

    call: FirstCall
    #: Seconds of a call of both, by block.
    rounds: tuple[tuple[float, float], ...]
    #: Installed versions in the first one's interpreter, by distribution.
    versions: dict[str, str]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a pair is run."""

    question: Question
    threads: int
    #: Environment variables of this process.
    environment: Mapping[str, str]
    #: The thresholds of a request, and what a comparison with eager PyTorch allows by output; null
    #: for outputs that are not compared.
    accuracy: Mapping[str, Any]
    allowed: Any
    #: Seconds of timing of each snippet.
    seconds: float
    timeout_seconds: float
    #: Whether the first one ends before the second starts: an engine takes the GPU's memory.
    one_by_one: bool
    probes: pathlib.Path


def run_pair(first: Snippet, second: Snippet, settings: Settings) -> Pair:
    """Run both snippets, the second with the inputs of the first, and time them in turns.

    Raise `VerificationError` with the reason if one fails.
    """
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        folders = pathlib.Path(home, "first"), pathlib.Path(home, "second")
        running = [stack.enter_context(start(first, folders[0], None, settings))]
        versions = running[0].read(FirstCall).versions
        alone: Iterable[tuple[float, ...]] = itertools.repeat(())
        if settings.one_by_one:
            alone = time_in_turns(running, settings.seconds)
            stack.close()
            running.clear()
        running.append(stack.enter_context(start(second, folders[1], folders[0], settings)))
        call = running[-1].read(FirstCall)
        timed = time_in_turns(running, settings.seconds)
    rounds = [(*one, *other) for one, other in zip(alone, timed, strict=False)]
    return Pair(
        call=call,
        rounds=msgspec.convert(rounds, tuple[tuple[float, float], ...]),
        versions=versions,
    )


def time_in_turns(processes: Sequence[Process], seconds: float) -> list[tuple[float, ...]]:
    rounds: list[tuple[float, ...]] = []
    end = time.monotonic() + seconds * len(processes)
    while len(rounds) < MIN_ROUNDS or time.monotonic() < end:
        rounds.append(tuple(each.time_block() for each in processes))
    return rounds


class Process:
    """A process that runs a snippet; it times a block of calls each time it is asked."""

    def __init__(self, popen: subprocess.Popen[bytes], folder: pathlib.Path, end: float) -> None:
        self._popen, self._folder, self._end = popen, folder, end

    def time_block(self) -> float:
        assert self._popen.stdin is not None  # noqa: S101 - for the type checker: stdin=PIPE
        with contextlib.suppress(BrokenPipeError):  # `read` finds the reason
            self._popen.stdin.write(b"block\n")
            self._popen.stdin.flush()
        return self.read(Block).seconds

    def read(self, kind: type[Reply]) -> Reply:
        """Return the next reply; raise `VerificationError` with the reason if there is none."""
        output = self._popen.stdout
        assert output is not None  # noqa: S101 - for the type checker: stdout=PIPE
        # A subprocess of the stack may hold the pipe open, so the exit is watched separately.
        exited = os.pidfd_open(self._popen.pid)
        descriptors, seconds = [output.fileno(), exited], max(self._end - time.monotonic(), 0)
        ready, _, _ = select.select(descriptors, [], [], seconds)
        os.close(exited)
        if not ready:
            raise VerificationError(
                "a snippet took longer than its limit",
                "run what p3-advisor recipe prints by hand to see what it waits for",
            )
        line = output.readline() if output.fileno() in ready else b""
        if not line:
            raise VerificationError(
                f"the snippet failed: {failure_reason(self._folder / protocol.LOG)}",
                "repair the environment, or measure again",
            )
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.MsgspecError as problem:
            raise VerificationError(
                f"the reply of the snippet's process cannot be read: {problem}", "measure again"
            ) from problem


@contextlib.contextmanager
def start(
    snippet: Snippet, folder: pathlib.Path, compared: pathlib.Path | None, settings: Settings
) -> Iterator[Process]:
    """Yield a process of the snippet in `folder`, which is made; kill everything it started.

    `compared` is the folder of the snippet whose call is compared with this one's.
    """
    question = settings.question
    temporary = folder / protocol.TEMPORARY_FOLDER
    temporary.mkdir(parents=True)
    (folder / FILES).mkdir()
    link_files(snippet, question.model, folder / FILES)
    (folder / SNIPPET).write_text(snippet.text, encoding="utf-8")
    request = {
        "snippet": str(folder / SNIPPET),
        "files": str(folder / FILES),
        "call": str((compared or folder) / CALL),
        "compare": compared is not None,
        "allowed": settings.allowed,
        "accuracy": settings.accuracy,
        "dtype": question.dtype,
        "sandbox": question.sandbox,
        "block_seconds": BLOCK_SECONDS,
        "warmup_seconds": settings.seconds / MIN_ROUNDS,
    }
    (folder / REQUEST).write_bytes(msgspec.json.encode(request))
    variables = worker_environment(
        settings.environment,
        question,
        settings.threads,
        folder,
        temporary=temporary,
        own_environment=snippet.own_environment,
    )
    worker = settings.probes / "worker.py"
    with (folder / protocol.LOG).open("wb") as log:
        try:
            popen = subprocess.Popen(  # noqa: S603 - an argument list, no shell; the snippet is one that this machine stored
                [snippet.interpreter, str(worker), "snippet", str(folder / REQUEST)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**variables, protocol.MARK_VARIABLE: str(folder)},
                start_new_session=True,
            )
        except OSError as problem:
            raise VerificationError(
                f"{snippet.interpreter} cannot be started: {problem.strerror}", "measure again"
            ) from problem
    with popen:
        try:
            yield Process(popen, folder, time.monotonic() + settings.timeout_seconds)
        finally:
            kill_worker(popen, folder)


def link_files(snippet: Snippet, model: Model, folder: pathlib.Path) -> None:
    """Put into `folder` what the snippet finds there if the user runs it as its comments say.

    These are the model's file and the files around it, a checkpoint's directory, and folders such
    as a clone of another project. What the snippet may write is copied or left out.
    """
    here = {each.name: each for each in pathlib.Path.cwd().iterdir() if each.is_dir()}
    for name, place in {**here, **snippet.folders}.items():
        if f'"{name}/' in snippet.text:
            (folder / name).symlink_to(place)
    path = pathlib.Path(
        model.name.rpartition(":")[0] if isinstance(model, FactoryModel) else model.name
    )
    if not path.is_absolute():
        return
    for place in path.parent.iterdir() if path.is_file() else [path]:
        is_named = place == path
        is_read = is_named and path.is_file()
        if snippet.text.count(f'"{place.name}"') <= is_read:
            (folder / place.name).symlink_to(place)
        elif is_named:
            (shutil.copy if path.is_file() else shutil.copytree)(place, folder / place.name)
