"""Workers and run directories that are hostile on purpose, and files that were changed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any
from unittest import mock

import msgspec
import program
import pytest
import recorded_runs
from hypothesis import given, note
from random_inputs import CHANCE, fresh, inputs, mutate, mutate_bytes
from worker_scripts import DEADLINES, WAIT, Clock, start

from advisor.probing import processes
from advisor.probing import supervisor as supervisor_module
from advisor.probing.supervisor import Supervisor
from advisor.probing.worker_process import NEVER, Worker
from advisor.store import export_file
from advisor.store.store import Store
from probes import protocol

pytestmark = pytest.mark.slow

#: Longest that a test waits for what should not take long.
PATIENCE_SECONDS = 20
#: What may stand in the place of a `file`.
KINDS = {
    "nothing": "",
    "fifo": "os.mkfifo(file)",
    "directory": "os.makedirs(file / 'a')",
    "endless": "os.symlink('/dev/zero', file)",
    "loop": "os.symlink(file, file)",
    "dangling": "os.symlink('/nowhere/at/all', file)",
    "own log": "os.symlink('log', file)",
    "socket": "with socket.socket(1) as made: os.chdir(file.parent); made.bind(file.name)",
    "terminal": "os.mknod(file, 0o20600, os.makedev(5, 0))",
    "sparse": "file.touch(); os.truncate(file, 6 << 30)",
    "long line": "file.write_text('x' * (5 << 20) + '\\n')",
    "bytes": "file.write_bytes(os.urandom(4096) + b'\\n')",
    "nested": "file.write_text('[' * 100000 + '\\n')",
    "number": "file.write_text('1e999999\\n')",
    "unreadable": "file.touch(0)",
}
REPLACE = """
import shutil, socket
def replace(file, kind):
    shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink(missing_ok=True)
    exec(kind, {"os": os, "socket": socket, "file": file})
"""
#: What a worker may put something else in the place of, its directory included.
CONTROL_FILES = (
    protocol.EVENTS,
    protocol.RESPONSE,
    protocol.LOG,
    protocol.REQUEST,
    protocol.SUSPENDED,
    processes.SKIPPED_FILE,
    ".",
)
LINES = (
    "send_event('ready')",
    "enter_phase('build')",
    "respond()",
    "write_events('{')",
    "os.close(1)",
    "print('x' * 70000, flush=True)",
    "os.kill(os.getpid(), 9)",
    "os._exit(0)",
    WAIT.strip(),
)


@inputs(10)
@given(chance=CHANCE)
def test_a_worker_that_replaces_its_control_files_is_ended(
    chance: random.Random, tmp_path: pathlib.Path
) -> None:
    pairs = [(chance.choice(CONTROL_FILES), chance.choice([*KINDS])) for _ in range(2)]
    lines = [f"replace(directory / {name!r}, {KINDS[kind]!r})" for name, kind in pairs]
    lines += chance.choices(LINES, k=chance.randrange(3))
    chance.shuffle(lines)
    acts = chance.choices(["skip", "suspend", "send", ""], k=2)
    note(f"{lines}, {acts}")
    clock = Clock()
    source = "\n".join([REPLACE, *lines, "notify()", "time.sleep(3600)"])
    with (
        mock.patch.object(supervisor_module, "EXIT_GRACE_SECONDS", 0.1),
        limited(PATIENCE_SECONDS),
        Supervisor(DEADLINES, clock=clock) as supervisor,
    ):
        worker = start(supervisor, fresh(tmp_path), source, token="build")
        for act in acts:
            list(supervisor.poll(0.05))
            if worker.outcome is None:
                do(supervisor, worker, act)
        while worker.outcome is None:
            if worker.deadline == NEVER:
                supervisor.send(worker, "stop")  # it waits for a token
            list(supervisor.poll(0.05))
            clock.now += 100


def do(supervisor: Supervisor, worker: Worker, act: str) -> None:
    match act:
        case "skip":
            processes.skip(worker.directory)
        case "suspend":
            worker.suspend()
            worker.go_on()
        case "send":
            supervisor.send(worker, "warm")
        case _:
            pass


@inputs(30)
@given(chance=CHANCE)
def test_nothing_of_a_run_outside_the_store_is_executed(
    chance: random.Random, tmp_path: pathlib.Path
) -> None:
    executing = (["verify"], ["resume"])
    command = chance.choice(executing if chance.random() < 0.5 else program.READING)
    name = chance.choice(["latest", "20261121-120001-0000", "2026", "clone.json", "a/b"])
    spelled = chance.choice([name, f"./{name}", f"../here/{name}", f"{name}/", "HERE/" + name])
    files = ("run.json", "events.jsonl", "note", "lock", "control", "arms")
    replaced = chance.choice(files) if chance.random() < 0.6 else ""
    kind = chance.choice([*KINDS])
    finished, stored = chance.random() < 0.5, chance.random() < 0.3
    words = [spelled if word == "latest" else word for word in command]
    words += [] if spelled in words else [spelled]
    note(f"{words}, {replaced!r} is {kind}, finished: {finished}, stored: {stored}")
    home = fresh(tmp_path)
    if stored:
        recorded_runs.make_run(Store(home / "store"), finished=True)
    run_outside(home, words, name, replaced, kind, finished=finished)


@pytest.mark.parametrize(
    ("words", "kind"),
    [(["explain", "HERE/a/b"], "sparse"), (["verify", "../here/a/b"], "fifo")],
    ids=["sparse", "fifo"],
)
def test_events_that_are_no_regular_or_a_huge_file_do_not_hang(
    words: list[str], kind: str, tmp_path: pathlib.Path
) -> None:
    run_outside(tmp_path, words, "a/b", "events.jsonl", kind, finished=True)


def run_outside(
    home: pathlib.Path, words: list[str], name: str, replaced: str, kind: str, *, finished: bool
) -> None:
    """Name a run outside the store, one of whose files is of another kind, to a command."""
    here, mark = home / "here", home / "mark"
    place = here / name
    place.parent.mkdir(parents=True)
    script = home / "python"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o700)
    made = recorded_runs.make_run(Store(home / "made"), finished=finished)
    text = (made.directory / "run.json").read_text().replace(sys.executable, str(script))
    header = msgspec.json.decode(text)
    header["question"]["python"] = str(script)
    (made.directory / "run.json").write_bytes(msgspec.json.encode(header))
    made.directory.rename(place)
    if replaced:
        names = {"os": os, "pathlib": pathlib, "file": place / replaced}
        with working_in(here), contextlib.suppress(PermissionError):
            exec(REPLACE + f"\nreplace(file, {KINDS[kind]!r})", names)
    words = [word.replace("HERE", str(here)) for word in words]
    words += ["-o", str(home / "out")] * (words[0] == "report")
    with working_in(here), limited(PATIENCE_SECONDS):
        program.run(words, home / "store")
    assert not mark.exists(), "something of a run outside the store was executed"


@contextlib.contextmanager
def working_in(directory: pathlib.Path) -> Iterator[None]:
    before = pathlib.Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """End a block that does not end by itself."""

    def end(*_: object) -> None:
        raise AssertionError(f"not ended after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


READING_A_DOCUMENT = (
    ["show", "FILE"],
    ["show", "FILE", "--json"],
    ["decide", "FILE", "--preset", "serving"],
    ["explain", "FILE"],
    ["compare", "FILE", "FILE"],
    ["report", "FILE", "-f", "html,md,csv,json", "-o", "OUT"],
)


@functools.cache
def recorded() -> tuple[list[Any], list[Any], Any]:
    """Return a finished run: header and events, the lines of its export, and its document."""
    with tempfile.TemporaryDirectory() as name:
        run = recorded_runs.make_run(Store(pathlib.Path(name)), finished=True)
        stored = [run.directory / "run.json", run.directory / "events.jsonl"]
        lines = [line for file in stored for line in file.read_bytes().splitlines()]
        exported = export_file.encode_run(run).splitlines()
        _, output, _ = program.run(["show", "--json"], pathlib.Path(name))
    return [*map(json.loads, lines)], [*map(json.loads, exported)], json.loads(output)


def encode(lines: list[Any], chance: random.Random) -> bytes:
    """Return lines of JSON, a tenth of which are damaged."""
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return mutate_bytes(content, chance) if chance.random() < 0.1 else content


@inputs(20)
@given(chance=CHANCE)
def test_a_changed_run_is_read_or_refused(chance: random.Random, tmp_path: pathlib.Path) -> None:
    (header, *events), _, _ = recorded()
    times = chance.choice((1, 1, 1, 2, 5))
    if chance.random() < 0.3:
        header = mutate(header, chance, times)
    else:
        events = mutate(events, chance, times)
    home = fresh(tmp_path)
    directory = home / "runs" / "20261121-120001-0000"
    directory.mkdir(parents=True)
    (directory / "run.json").write_bytes(json.dumps(header).encode())
    (directory / "events.jsonl").write_bytes(encode(events, chance))
    command = list(chance.choice(program.READING))
    if command[0] == "report":
        command += ["-o", str(home / "out")]
    note(f"{command}: {header}\n{events}")
    program.run(command, home)


@inputs(20)
@given(chance=CHANCE)
def test_a_changed_export_with_a_fitting_checksum_is_imported_or_refused(
    chance: random.Random, tmp_path: pathlib.Path
) -> None:
    _, (manifest, *lines), _ = recorded()
    for _ in range(chance.choice((1, 1, 3))):
        number = chance.choice((0, 1, chance.randrange(len(lines))))
        lines[number] = mutate(lines[number], chance)
    body = encode(lines, chance)
    manifest = manifest | {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    if chance.random() < 0.2:
        manifest = mutate(manifest, chance)
    home = fresh(tmp_path)
    file = home / f"sent{export_file.SUFFIX}"
    file.write_bytes(json.dumps(manifest).encode() + b"\n" + body)
    note(f"{manifest}\n{body!r}")
    code, _, _ = program.run(["import-run", str(file)], home)
    if code == 0:
        program.run(["show"], home)
        program.run(["show", "--json"], home)


@inputs(20)
@given(chance=CHANCE)
def test_a_changed_document_is_read_or_refused(
    chance: random.Random, tmp_path: pathlib.Path
) -> None:
    document = mutate(recorded()[2], chance, chance.choice((1, 1, 2, 5)))
    home = fresh(tmp_path)
    file = home / "document.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    names = {"FILE": str(file), "OUT": str(home / "out")}
    command = [names.get(word, word) for word in chance.choice(READING_A_DOCUMENT)]
    note(f"{command}: {document}")
    program.run(command, home)
