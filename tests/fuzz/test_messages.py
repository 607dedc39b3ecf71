"""Messages of workers, damaged ones and such that do not belong to their command."""

from __future__ import annotations

import functools
import json
import pathlib
import random
import subprocess
import tempfile
from typing import Any, cast

import msgspec
import pytest
import recorded_runs
from hypothesis import given, note
from random_inputs import CHANCE, fresh, inputs, mutate, mutate_bytes
from worker_scripts import BUILD_SECONDS, DEADLINES, SECONDS, VISIT, Clock

from advisor.domain.event_folding import fold
from advisor.domain.run_events import LoggedEvent, WorkerReported
from advisor.probing.supervisor import DAMAGED
from advisor.probing.worker_process import Worker
from advisor.store.store import Store
from probes import commands, protocol
from probes.shape import Shape

ARM = "exported"
#: What an honest worker does for a command: phases, and the event with which it answers.
HONEST: dict[commands.Command, list[str]] = {
    commands.Start(): ["import", "imported"],
    commands.Build(): ["open", "build", "correctness", "warmup", "measure", "ready"],
    commands.Prepare(): ["open", "build", "correctness", "prepared"],
    commands.WarmUp(): ["warmup", "measure", "ready"],
    commands.MeasurePeaks(): ["measure", "ready"],
    commands.Visit(Shape(1), 0): ["visited"],
    commands.Sustain(Shape(1), 1): ["sustain", "ready"],
    commands.RunClosedLoop(1, 1): ["sustain", "ready"],
    commands.Diagnose(): ["diagnose", "ready"],
    commands.Allocate(0): ["measure", "ready"],
    commands.Check(): ["done", "ready"],
}
ANSWERS: dict[str, dict[str, Any]] = {"prepared": {}, "ready": {}, "visited": VISIT}
ANSWERS["imported"] = {"versions": {}, "settings": {}}
PHASES = [*SECONDS, "queued", "", "\x1b[2J"]


def make_worker(directory: pathlib.Path, clock: Clock) -> Worker:
    """Return a worker without a process, whose messages are in the directory."""
    return Worker(
        arm=ARM,
        process=0,
        directory=directory,
        popen=cast("subprocess.Popen[bytes]", None),
        notify_fd=-1,
        pidfd=-1,
        deadlines=DEADLINES,
        clock=clock,
        max_build_seconds=BUILD_SECONDS,
    )


@functools.cache
def recorded() -> list[LoggedEvent]:
    with tempfile.TemporaryDirectory() as name:
        return recorded_runs.make_run(Store(pathlib.Path(name)), finished=True).events()


def read(directory: pathlib.Path, events: bytes, response: bytes) -> bool:
    """Read and fold the messages of a worker, as the advisor does; return whether it takes them."""
    (directory / protocol.EVENTS).write_bytes(events)
    (directory / protocol.RESPONSE).write_bytes(response)
    worker = make_worker(directory, Clock())
    try:
        received = worker.read_events()
        for event in received:
            worker.apply_event(event)
        worker.read_response()
    except DAMAGED:
        return False
    logged = [
        LoggedEvent(
            seq=number, at=0.0, run_event=WorkerReported(arm=ARM, process=0, worker_event=event)
        )
        for number, event in enumerate(received, start=len(recorded()) + 1)
    ]
    fold([*recorded(), *logged])
    return True


@inputs(100)
@given(chance=CHANCE)
def test_damaged_messages_are_refused_or_read(
    chance: random.Random, tmp_path: pathlib.Path
) -> None:
    reported = [
        msgspec.to_builtins(each.run_event.worker_event)
        for each in recorded()
        if isinstance(each.run_event, WorkerReported)
    ]
    lines = [mutate(chance.choice(reported), chance) for _ in range(chance.randrange(4))]
    events = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    failure = {"failure": {"status": "build-failed", "phase": "build", "reason": "none"}}
    response = json.dumps(mutate(failure, chance)).encode()
    if chance.random() < 0.3:
        events = mutate_bytes(events, chance)
    if chance.random() < 0.3:
        response = mutate_bytes(response, chance)
    note(f"{events!r}\n{response!r}")
    read(fresh(tmp_path), events, response)


@pytest.mark.parametrize(
    ("events", "response"),
    [
        (b'{"event": "vi\xff\xfeited"}\n', b"{}"),
        (b"", b'{"failure": {"status": "crashed", "phase": "build", "reason": "n\xefj"}}'),
    ],
)
def test_messages_that_are_no_text_are_refused(
    events: bytes, response: bytes, tmp_path: pathlib.Path
) -> None:
    assert not read(tmp_path, events, response)


@inputs(100)
@given(chance=CHANCE)
def test_what_does_not_belong_to_its_command_is_refused_and_nothing_else(
    chance: random.Random, tmp_path: pathlib.Path
) -> None:
    start, *others = HONEST
    sent = [start, *chance.choices(others, k=chance.randrange(5))]
    steps = [(command, list(HONEST[command])) for command in sent]
    mischief = None
    if chance.random() < 0.6:
        place = chance.randrange(len(steps))
        command, messages = steps[place]
        foreign = [each for each in [*PHASES, *ANSWERS] if each not in HONEST[command]]
        wrong = chance.randrange(len(messages))
        messages.insert(wrong, chance.choice(foreign))
        mischief = (place, wrong)
    late = chance.random() < 0.2
    note(f"{steps}, wrong: {mischief}, late: {late}")
    clock = Clock()
    worker = make_worker(fresh(tmp_path), clock)
    if late:  # The messages come after all commands.
        for command, _ in steps:
            worker.begin(command)
    for place, (command, messages) in enumerate(steps):
        if not late:
            worker.begin(command)
        for number, message in enumerate(messages):
            assert clock.now < worker.deadline <= clock.now + max(SECONDS.values())
            clock.now += 0.5
            refused = is_refused(worker, message)
            assert refused == ((place, number) == mischief)
            if refused:
                return


def is_refused(worker: Worker, message: str) -> bool:
    event = (
        {"event": message, **ANSWERS[message]}
        if message in ANSWERS
        else {"event": "phase_started", "phase": message, "shape": None}
    )
    with (worker.directory / protocol.EVENTS).open("a", encoding="utf-8") as events:
        events.write(json.dumps(event) + "\n")
    try:
        for received in worker.read_events():
            worker.apply_event(received)
    except DAMAGED:
        return True
    return False
