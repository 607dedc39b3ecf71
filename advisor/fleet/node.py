"""Execute one run of a fleet on a node with the pipeline of a single machine."""

from __future__ import annotations

import contextlib
import fcntl
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
from advisor.errors import UserError
from advisor.execute.drafts import prepare
from advisor.execute.execution import execute
from advisor.execute.starts import ComposeStarts
from advisor.store.store import Store
from advisor.version import __version__


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One run with its options, as it is sent to a node."""

    #: Index of the cell in the fleet.
    number: int
    kind: str
    answers: Answers
    #: Version of the caller; a node with another version refuses the task.
    advisor_version: str = __version__


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A run has ended on a node, or the cluster has given it up for the `reason`."""

    number: int
    node: str | None = None
    device: str | None = None
    attempts: int = 0
    #: The run; null where none was started.
    header: Header | None = None
    events: tuple[LoggedEvent, ...] = ()
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
    make_context: Callable[[pathlib.Path], Context] = make_context,
    compose: ComposeStarts | None = None,
) -> Ended:
    """Execute the task on this machine and return the run, or the reason of a `UserError`.

    `compose` is that of `advisor.execute.execution.execute`.
    `gpu` is an index or UUID, and is ignored when the task is for the CPU.
    """
    device = CPU if task.kind == CPU else gpu
    ended = Ended(number=task.number, node=node, device=device)
    if task.advisor_version != __version__:
        return msgspec.structs.replace(
            ended,
            reason=f"node {node} has p3-advisor {__version__}, the caller {task.advisor_version}",
            next_step="install the same version on every node",
        )
    with tempfile.TemporaryDirectory(prefix="p3-advisor-") as home, lock_host():
        context = make_context(pathlib.Path(home))
        run = None
        try:
            run = prepare(msgspec.structs.replace(task.answers, gpu=device), context)
            for _ in execute(run, context, compose=compose):
                pass
        except UserError as problem:
            ended = msgspec.structs.replace(ended, reason=problem.what, next_step=problem.next_step)
        if run is None:
            return ended
        return msgspec.structs.replace(ended, header=run.header(), events=tuple(run.events()))


@contextlib.contextmanager
def lock_host(file: pathlib.Path | None = None) -> Iterator[None]:
    """Hold this machine for one run of this user: runs at the same time would slow each other."""
    file = file or pathlib.Path(tempfile.gettempdir()) / f"p3-advisor-{os.getuid()}.lock"
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
