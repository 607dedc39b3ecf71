"""Execute one assignment of a fleet on a node with the pipeline of a single machine."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator

import msgspec

from advisor.ask.answers import Answers
from advisor.ask.devices import VISIBLE_DEVICES
from advisor.context import Context
from advisor.domain.answer import CPU
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import Header
from advisor.domain.wire import snake_case
from advisor.errors import UserError
from advisor.execute.drafts import prepare
from advisor.execute.execution import execute
from advisor.execute.starts import ComposeStarts
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.system import read_tail
from advisor.version import __version__

#: Only the end of a log is sent; a whole log may have megabytes.
LOG_BYTES = 64 * 1024

Publish = Callable[[Header | LoggedEvent], None]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One assignment with its options, as it is sent to a node."""

    number: int
    kind: str
    answers: Answers
    #: Version of the caller; a node with another version refuses the task.
    advisor_version: str = __version__


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=snake_case):
    """An assignment has ended on a node, or the cluster has given it up for the `reason`."""

    number: int
    #: Identifies the attempt; empty where none was started.
    token: str = ""
    #: The whole run: events that were sent while it was executed may have come in another order.
    events: tuple[LoggedEvent, ...] = ()
    #: Ends of the workers' logs by path relative to the run's directory.
    logs: dict[str, bytes] = {}
    reason: str | None = None
    next_step: str | None = None


def make_context(home: pathlib.Path) -> Context:
    """Return the context of a run on this node, with its runs stored in `home`."""
    # The cluster sets the variable to the GPU that it has chosen. The pipeline must see all GPUs,
    # because that GPU is named to it by index or UUID.
    environment = {name: value for name, value in os.environ.items() if name != VISIBLE_DEVICES}
    return Context(environment=environment, store=Store(home))


def run_assignment(
    task: Task,
    node: str,
    gpu: str,
    publish: Publish,
    make_context: Callable[[pathlib.Path], Context] = make_context,
    compose: ComposeStarts | None = None,
) -> Ended:
    """Execute the task on this machine and return the run, or the reason of a `UserError`.

    `compose` is that of `advisor.execute.execution.execute`.
    `gpu` is an index or UUID, and is ignored when the task is for the CPU.
    """
    if task.advisor_version != __version__:
        return Ended(
            number=task.number,
            reason=f"node {node} has p3-advisor {__version__}, the caller {task.advisor_version}",
            next_step="install the same version on every node",
        )
    with tempfile.TemporaryDirectory(prefix="p3-advisor-") as home, lock_host():
        context = make_context(pathlib.Path(home))
        device = CPU if task.kind == CPU else gpu
        try:
            run = prepare(msgspec.structs.replace(task.answers, gpu=device), context)
        except UserError as problem:
            return Ended(number=task.number, reason=problem.what, next_step=problem.next_step)
        publish(run.header())
        return _execute(task.number, run, execute(run, context, compose=compose), publish)


def _execute(number: int, run: Run, events: Iterator[LoggedEvent], publish: Publish) -> Ended:
    reason = next_step = None
    try:
        for event in itertools.chain(run.events(), events):
            publish(event)
    except UserError as problem:
        reason, next_step = problem.what, problem.next_step
    logs = {}
    for file in sorted(run.arms.rglob("log")):
        with contextlib.suppress(OSError):  # a worker may have put anything there
            logs[str(file.relative_to(run.directory))] = read_tail(file, LOG_BYTES)
    return Ended(
        number=number, events=tuple(run.events()), logs=logs, reason=reason, next_step=next_step
    )


@contextlib.contextmanager
def lock_host(file: pathlib.Path | None = None) -> Iterator[None]:
    """Hold this machine for one run of this user: runs at the same time would slow each other."""
    file = file or pathlib.Path(tempfile.gettempdir()) / f"p3-advisor-{os.getuid()}.lock"
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
