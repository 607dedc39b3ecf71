"""Targets of the campaign that are hostile on purpose: workers, directories and confined models."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import platform
import pty
import random
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast
from unittest import mock

import msgspec
import program
import psutil
import recorded_runs
from targets import READING, Target
from worker_scripts import BLOCK, DEADLINES, SECONDS, WAIT, Clock, start

from advisor.probing import supervisor as supervisor_module
from advisor.probing import termination
from advisor.probing.supervisor import DAMAGED, Supervisor
from advisor.probing.worker_process import NEVER, Worker
from advisor.store.store import Store
from probes import protocol
from probes.runtime import sandbox

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
    "imported": {"versions": {}, "settings": {}, "seconds": 0.0},
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
        termination.SKIPPED_FILE,
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
                termination.skip(worker.directory)
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
    COMMANDS: ClassVar[list[list[str]]] = [["verify"], ["resume"], ["build", "--target", "sm_89"]]
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


#: By family, what a confined process may not do, and what harms nobody where it can; names in `{}`
#: stand for random values.
FAMILIES = {
    "files": [
        "os.open({place}, {flags}, 0o600)",
        "os.open('kept', {flags}, dir_fd=os.open(outside, os.O_RDONLY))",
        "os.symlink({place}, own + '/link'); os.open(own + '/link', {flags}, 0o600)",
        "os.link({place}, own + '/hard')",
        "os.rename({place}, own + '/moved')",
        "os.rename(own + '/mine', {place})",
        "os.truncate({place}, {number})",
        "os.unlink({place})",
        "os.rmdir(outside + '/folder')",
        "os.mkdir(outside + '/{number}')",
        "os.mkfifo(outside + '/{number}')",
        "os.symlink('x', outside + '/{number}')",
        "os.mknod(own + '/{number}', 0o60600, {number})",
        "os.{chown}({place}, os.getuid(), os.getgid())",
        "os.setxattr({place}, 'user.{number}', b'x')",
        "os.removexattr({place}, 'user.kept')",
        "check(libc.mount(b'none', own.encode(), b'tmpfs', 0, None))",
        "check(libc.mount(outside.encode(), own.encode(), None, 4096, None))",
        "check(libc.unshare(0x10020000)); check(libc.mount(b'none', b'/', b'tmpfs', 0, None))",
    ],
    "sockets": [
        "socket.socket({number}, {number})",
        "socket.socket(socket.AF_UNIX, {kind}).connect(outside + '/socket')",
        "socket.create_connection(('127.0.0.1', port), 1)",
        "socket.socket(socket.AF_INET, {kind}).sendto(b'x', ('127.0.0.1', port))",
        "socket.socket(socket.AF_NETLINK, {kind}, {number})",
        "check(libc.syscall(0x40000000 + {call}, 1, 1, 0))",
        "check(libc.syscall(425, 8, ctypes.create_string_buffer(128)))",
    ],
    "processes": [
        "resource.prlimit(victim, {number} % 16, (0, 0))",
        "os.setpriority(os.PRIO_PROCESS, victim, 19)",
        "os.sched_setscheduler(victim, {number} % 7, os.sched_param({number} % 2))",
        "os.sched_setparam(victim, os.sched_param({number}))",
        "check(libc.syscall({own_call}, victim, {number}, {number}, {number}))",
        "check(libc.ptrace({trace}, victim, 0, 0))",
        "check(libc.process_vm_writev(victim, iovec, 1, iovec, 1, 0))",
        "os.setpgid(victim, 0)",
        "open(f'/proc/{{victim}}/{file}', 'r+b', 0).write(b'0')",
    ],
    "signals": ["os.kill(victim, {signal})", "os.killpg(os.getpgid(victim), {signal})"],
    "objects": [
        "check(libc.shmget({number}, 4096, 0o1600))",
        "check(libc.semget({number}, 1, 0o1600))",
        "check(libc.msgget({number}, 0o1600))",
        "check(libc.mq_open(b'/p3-{number}', 0o102, 0o600, None))",
        "check(libc.syscall({call}, {number}, {number}, {number}, {number}, {number}))",
        "open(terminal, 'w').write('x')",
        "open(f'/dev/{device}', 'wb', 0).write(b'x')",
        "check(libc.sethostname(host, len(host)))",
    ],
}
ARCHITECTURE = sandbox.ARCHITECTURES.get(platform.machine(), sandbox.ARCHITECTURES["x86_64"])
CHOICES: dict[str, Callable[[random.Random], str]] = {
    "place": lambda chance: f"outside + '/{chance.choice(['kept', 'new', 'folder/kept'])}'",
    "flags": lambda chance: str(
        chance.choice([os.O_WRONLY, os.O_RDWR])
        | chance.choice([0, os.O_CREAT, os.O_TRUNC, os.O_APPEND, os.O_CREAT | os.O_EXCL])
    ),
    "number": lambda chance: str(chance.choice([0, 1, 2, 3, 16, 17, chance.randrange(1 << 16)])),
    "chown": lambda chance: chance.choice(["chown", "lchown"]),
    "kind": lambda chance: f"socket.{chance.choice(['SOCK_STREAM', 'SOCK_DGRAM', 'SOCK_RAW'])}",
    "call": lambda chance: str(chance.choice(ARCHITECTURE.denied)),
    "own_call": lambda chance: str(chance.choice(ARCHITECTURE.own)),
    "trace": lambda chance: str(chance.choice([16, 0x4206])),
    "signal": lambda chance: str(chance.randrange(1, 65)),
    "file": lambda chance: chance.choice(["mem", "oom_score_adj", "comm", "timers"]),
    "device": lambda chance: chance.choice(["tty", "ptmx", "console"]),
}
PROBES = 12


class SandboxProbes(Target):
    """What a confined process tries by family, judged by what has changed outside."""

    name = "sandbox-probes"

    def make_input(self, chance: random.Random) -> Any:
        families = [*FAMILIES]
        if sandbox.landlock_version() < sandbox.SCOPES_VERSION:
            families.remove("signals")
        tries = [chance.choice(FAMILIES[chance.choice(families)]) for _ in range(PROBES)]
        return [
            each.format_map({name: choose(chance) for name, choose in CHOICES.items()})
            for each in tries
        ]

    def try_input(self, value: Any) -> None:
        if sandbox.find_obstacle() is not None:
            return
        home = self.fresh()
        outside, own = home / "outside", home / "own"
        for folder in (outside / "folder", own):
            folder.mkdir(parents=True)
        for file in (outside / "kept", outside / "folder" / "kept", own / "mine"):
            file.write_text("content")
        os.setxattr(outside / "kept", "user.kept", b"x")
        with contextlib.ExitStack() as stack:
            controller, terminal = pty.openpty()
            stack.callback(os.close, terminal)
            stack.callback(os.close, controller)
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            with working_in(outside):
                listener.bind("socket")
            listener.listen()
            command = [sys.executable, "-c", "import time; time.sleep(60)"]
            victim = subprocess.Popen(command, start_new_session=True)
            stack.callback(victim.wait)
            stack.callback(victim.kill)
            before = describe(outside, victim.pid)
            names = {
                "outside": str(outside),
                "own": str(own),
                "port": server.getsockname()[1],
                "victim": victim.pid,
                "terminal": os.ttyname(terminal),
            }
            done = [value[number] for number in attempt(value, names, own)]
            for descriptor in (controller, server.fileno(), listener.fileno()):
                os.set_blocking(descriptor, False)
            with contextlib.suppress(BlockingIOError):
                done.append(repr(os.read(controller, 10)))
            for each in (server, listener):
                with contextlib.suppress(BlockingIOError):
                    done.append(repr(each.accept()))
            if describe(outside, victim.pid) != before:
                done.append("changed: " + repr(value))
        if done:
            raise program.DefectError("not held: " + "; ".join(done))


def describe(outside: pathlib.Path, victim: int) -> Any:
    """Return what a confined process must not change."""
    process = psutil.Process(victim)
    files = [
        (str(each), each.lstat().st_mode, each.lstat().st_uid, each.lstat().st_size)
        for each in sorted(outside.rglob("*"))
    ]
    attributes = os.listxattr(outside / "kept")
    limits = [process.rlimit(each) for each in range(16)]
    scheduling = process.nice(), process.ionice(), os.sched_getscheduler(victim)
    has_ended = process.status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED}
    return files, attributes, has_ended, limits, scheduling, os.getpgid(victim)


def attempt(tries: list[str], names: dict[str, Any], own: pathlib.Path) -> list[int]:
    """Return the numbers of the tries that succeed in a confined process."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(PATIENCE_SECONDS)
            sandbox.enter([own], own / "tmp")
            exec(PRELUDE_OF_PROBES, names)
            done = [number for number, code in enumerate(tries) if succeeds(code, names)]
            os.write(send, json.dumps(done).encode())
        except BaseException:  # noqa: BLE001 - this process is a fork of the campaign
            traceback.print_exc()
        os._exit(0)
    os.close(send)
    with open(receive, "rb") as answer:  # noqa: PTH123 - a descriptor
        content = answer.read()
    os.waitpid(child, 0)
    return cast("list[int]", json.loads(content))


PRELUDE_OF_PROBES = """
import ctypes, os, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
host = os.uname().nodename.encode()
page = ctypes.create_string_buffer(4096)
iovec = (ctypes.c_size_t * 2)(ctypes.addressof(page), 8)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
"""


def succeeds(code: str, names: dict[str, Any]) -> bool:
    with contextlib.suppress(OSError, ValueError, OverflowError):
        exec(code, names)
        return True
    return False
