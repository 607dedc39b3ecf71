"""Targets of the campaign that are hostile on purpose: workers and directories."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, ClassVar, cast
from unittest import mock

import msgspec
import program
import recorded_runs
from targets import READING, Target
from worker_scripts import BLOCK, DEADLINES, SECONDS, WAIT, Clock, start

from advisor.probing import processes
from advisor.probing import supervisor as supervisor_module
from advisor.probing.supervisor import DAMAGED, Supervisor
from advisor.probing.worker_process import NEVER, Worker
from advisor.store.store import Store
from probes import protocol

#: What an honest worker does for a token: phases, and the event with which it answers.
HONEST: dict[str, list[str]] = {
    "start": ["import", "imported"],
    "build": ["load", "build", "correctness", "warmup", "measure", "ready"],
    "build hold": ["load", "build", "correctness", "prepared"],
    "warm": ["warmup", "measure", "ready"],
    "peaks": ["measure", "ready"],
    "visit 1 0": ["block_timed"],
    "sustain 1 1": ["sustain", "ready"],
    "probe 1 1": ["sustain", "ready"],
    "diagnose": ["diagnose", "ready"],
    "allocate 0": ["measure", "ready"],
    "check": ["done", "ready"],
}
ANSWERS: dict[str, dict[str, Any]] = {
    "imported": {"versions": {}, "settings": {}},
    "prepared": {},
    "ready": {},
    "block_timed": BLOCK,
}
PHASES = [*SECONDS, "queued", "", "\x1b[2J"]
#: Longest that a test waits for what should not take long.
PATIENCE_SECONDS = 20


class Conversations(Target):
    """Tokens and messages of a worker by grammar, some of which do not belong there."""

    name = "conversations"

    def make_input(self, chance: random.Random) -> Any:
        tokens = ["start", *chance.choices([*HONEST][1:], k=chance.randrange(5))]
        steps = [(token, list(HONEST[token])) for token in tokens]
        mischief = None
        if chance.random() < 0.6:
            place = chance.randrange(len(steps))
            token, messages = steps[place]
            foreign = [each for each in [*PHASES, *ANSWERS] if each not in HONEST[token]]
            wrong = chance.randrange(len(messages))
            messages.insert(wrong, chance.choice(foreign))
            mischief = [place, wrong]
        return {"steps": steps, "mischief": mischief, "late": chance.random() < 0.2}

    def try_input(self, value: Any) -> None:
        directory, now = self.fresh(), 0.0
        worker = Worker(
            arm="arm",
            process=0,
            directory=directory,
            popen=cast("subprocess.Popen[bytes]", None),
            notify_fd=-1,
            pidfd=-1,
            max_build_seconds=SECONDS["build"],
        )
        if value["late"]:  # all tokens come before the first message
            for token, _ in value["steps"]:
                worker.begin(token, DEADLINES, now)
        for place, (token, messages) in enumerate(value["steps"]):
            if not value["late"]:
                worker.begin(token, DEADLINES, now)
            for number, message in enumerate(messages):
                if not now < worker.deadline <= now + max(SECONDS.values()):
                    raise program.DefectError(f"no deadline before {message} of {token}")
                now += 0.5
                refused = self._is_refused(worker, message, now)
                if refused != ([place, number] == value["mischief"]):
                    raise program.DefectError(f"{message} of {token}: refused: {refused}")
                if refused:
                    return

    def _is_refused(self, worker: Worker, message: str, now: float) -> bool:
        event = (
            {"event": message, **ANSWERS[message]}
            if message in ANSWERS
            else {"event": "phase_started", "phase": message, "shape": None}
        )
        with (worker.directory / protocol.EVENTS).open("a", encoding="utf-8") as events:
            events.write(json.dumps(event) + "\n")
        try:
            for received in worker.read_events():
                worker.apply_event(received, DEADLINES, now)
        except DAMAGED:
            return True
        return False


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


class ControlFiles(Target):
    """Workers that put something else into the place of their control files."""

    name = "control-files"
    FILES: ClassVar[list[str]] = [
        protocol.EVENTS,
        protocol.RESPONSE,
        protocol.LOG,
        protocol.REQUEST,
        protocol.SUSPENDED,
        processes.SKIPPED_FILE,
        ".",
    ]
    LINES: ClassVar[list[str]] = [
        "send_event('ready')",
        "enter_phase('build')",
        "respond()",
        "write_events('{')",
        "os.close(1)",
        "print('x' * 70000, flush=True)",
        "os.kill(os.getpid(), 9)",
        "os._exit(0)",
        WAIT.strip(),
    ]

    def make_input(self, chance: random.Random) -> Any:
        pairs = [(chance.choice(self.FILES), chance.choice([*KINDS])) for _ in range(2)]
        lines = [f"replace(directory / {name!r}, {KINDS[kind]!r})" for name, kind in pairs]
        lines += chance.choices(self.LINES, k=chance.randrange(3))
        chance.shuffle(lines)
        acts = chance.choices(["skip", "suspend", "send", ""], k=2)
        return {"source": REPLACE + "\n".join(lines), "acts": acts}

    def try_input(self, value: Any) -> None:
        home, clock = self.fresh(), Clock()
        source = f"{value['source']}\nnotify()\ntime.sleep(3600)\n"
        with (
            mock.patch.object(supervisor_module, "EXIT_GRACE_SECONDS", 0.1),
            limited(PATIENCE_SECONDS),
            Supervisor(DEADLINES, clock=clock) as supervisor,
        ):
            worker = start(supervisor, home, source, token="build")
            for act in value["acts"]:
                list(supervisor.poll(0.05))
                if worker.outcome is None:
                    self._act(supervisor, worker, act)
            while worker.outcome is None:
                if worker.deadline == NEVER:
                    supervisor.send(worker, "stop")  # it waits for a token
                list(supervisor.poll(0.05))
                clock.now += 100

    def _act(self, supervisor: Supervisor, worker: Worker, act: str) -> None:
        match act:
            case "skip":
                processes.skip(worker.directory)
            case "suspend":
                supervisor.suspend([worker])
                supervisor.go_on([worker])
            case "send":
                supervisor.send(worker, "warm")
            case _:
                pass


class OutsideRuns(Target):
    """Run directories outside the store, with files of every kind, whose recipe leaves a mark."""

    name = "outside-runs"
    COMMANDS: ClassVar[list[list[str]]] = [["verify"], ["resume"]]
    FILES: ClassVar[list[str]] = ["run.json", "events.jsonl", "note", "lock", "control", "arms"]

    def make_input(self, chance: random.Random) -> Any:
        executes = chance.random() < 0.5
        command = chance.choice(self.COMMANDS if executes else [*READING])
        name = chance.choice(["latest", "20261121-120001-0000", "2026", "clone.json", "a/b"])
        spelled = chance.choice([name, f"./{name}", f"../here/{name}", f"{name}/", "HERE/" + name])
        replaced = chance.choice(self.FILES) if chance.random() < 0.6 else ""
        words = [spelled if word == "latest" else word for word in command]
        return {
            "command": words if spelled in words else [*words, spelled],
            "name": name,
            "replaced": replaced,
            "kind": chance.choice([*KINDS]),
            "finished": chance.random() < 0.5,
            "is_stored": chance.random() < 0.3,
        }

    def try_input(self, value: Any) -> None:
        home = self.fresh()
        here, mark = home / "here", home / "mark"
        place = here / value["name"]
        place.parent.mkdir(parents=True)
        script = home / "python"
        script.write_text(f"#!/bin/sh\ntouch {mark}\n")
        script.chmod(0o700)
        made = recorded_runs.make_run(Store(home / "made"), finished=value["finished"])
        text = (made.directory / "run.json").read_text().replace(sys.executable, str(script))
        header = msgspec.json.decode(text)
        header["question"]["python"] = str(script)
        (made.directory / "run.json").write_bytes(msgspec.json.encode(header))
        made.directory.rename(place)
        if value["replaced"]:
            names = {"os": os, "pathlib": pathlib, "file": place / value["replaced"]}
            with working_in(here), contextlib.suppress(PermissionError):
                exec(REPLACE + f"\nreplace(file, {KINDS[value['kind']]!r})", names)
        if value["is_stored"]:
            recorded_runs.make_run(Store(home / "store"), finished=True)
        words = [word.replace("HERE", str(here)) for word in value["command"]]
        words += ["-o", str(home / "out")] * (words[0] == "report")
        with working_in(here), limited(PATIENCE_SECONDS):
            program.run(words, home / "store")
        if mark.exists():
            raise program.DefectError("something of a run outside the store was executed")


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
        raise program.DefectError(f"not ended after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
