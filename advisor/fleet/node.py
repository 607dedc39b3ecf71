"""What is done on a node: one race, from the same pipeline as on a machine of one's own, told as it goes and returned whole."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator

import msgspec

import advisor
from advisor.context import Context
from advisor.domain.fleet import CPU
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent
from advisor.errors import UserError
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store import Run, Store
from advisor.system.host_lock import HostLock

#: The end of a log says why a stack failed; the whole of it may be megabytes.
LOG_BYTES = 64 * 1024
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One race, as a node is told of it."""

    number: int
    kind: str
    answers: Answers
    #: The program that asks: figures of another version are not mixed with its own.
    advisor_version: str = advisor.__version__
    #: Nodes on which a check has shown that races do not notice each other.
    beside: tuple[str, ...] = ()


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it travels; without a header none was begun, and the reason says why."""

    node: str
    device: str
    header: Header | None = None
    events: tuple[LoggedEvent, ...] = ()
    #: The ends of the workers' logs, by their place in the run's directory.
    logs: dict[str, bytes] = {}
    reason: str | None = None
    next_step: str | None = None


def world_at(home: pathlib.Path) -> Context:
    """Return the world of a race on this node, with a home of its own."""
    # A device that the cluster has chosen is named to the pipeline, which looks at all of them.
    environment = {name: value for name, value in os.environ.items() if name != VISIBLE_DEVICES}
    return Context(environment=environment, store=Store(home))


def race(
    task: Task,
    node: str,
    gpu: str,
    tell: Callable[[Header | LoggedEvent], None],
    world_at: Callable[[pathlib.Path], Context] = world_at,
) -> Packed:
    """Make one race on this machine, on `gpu` (an index or UUID) unless the task is for the CPU; what goes wrong is part of the answer."""
    device = CPU if task.kind == CPU else gpu
    if task.advisor_version != advisor.__version__:
        reason = (
            f"node {node} has p3-advisor {advisor.__version__}, the caller {task.advisor_version}"
        )
        return Packed(
            node=node,
            device=device,
            reason=reason,
            next_step="install the same version on every node",
        )
    shares = node in task.beside
    with tempfile.TemporaryDirectory(prefix="p3-advisor-") as home, hold_host(shares=shares):
        world = world_at(pathlib.Path(home))
        if shares:
            turns = HostLock(_host_file("turns"), world.clock)
            world = dataclasses.replace(world, turns=turns, clock=turns.clock)
        try:
            run = prepare(msgspec.structs.replace(task.answers, gpu=device), world)
        except UserError as problem:
            return Packed(
                node=node, device=device, reason=problem.what, next_step=problem.next_step
            )
        tell(run.header())
        return _execute(run, world, Packed(node=node, device=device), tell)


def _execute(
    run: Run, world: Context, blank: Packed, tell: Callable[[Header | LoggedEvent], None]
) -> Packed:
    reason = next_step = None
    for event in run.events():
        tell(event)
    try:
        for event in execute(run, world):
            tell(event)
    except UserError as problem:
        reason, next_step = problem.what, problem.next_step
    logs = {
        str(file.relative_to(run.directory)): _end_of(file)
        for file in sorted(run.arms.rglob("log"))
    }
    return msgspec.structs.replace(
        blank,
        header=run.header(),
        events=tuple(run.events()),
        logs=logs,
        reason=reason,
        next_step=next_step,
    )


def _end_of(file: pathlib.Path) -> bytes:
    with file.open("rb") as log:
        log.seek(max(0, file.stat().st_size - LOG_BYTES))
        return log.read()


@contextlib.contextmanager
def hold_host(file: pathlib.Path | None = None, *, shares: bool = False) -> Iterator[None]:
    """Wait until no other race of this user runs on this machine, or only such as share it too: two at once would measure each other."""
    with (file or _host_file("lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if shares else fcntl.LOCK_EX)
        yield


def _host_file(suffix: str) -> pathlib.Path:
    return pathlib.Path(tempfile.gettempdir()) / f"p3-advisor-{os.getuid()}.{suffix}"
