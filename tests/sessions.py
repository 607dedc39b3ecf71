"""Start a session of resident workers and select its events."""

from __future__ import annotations

import os
import pathlib
import random
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import builders
import tomlkit

from advisor.ask import catalogue_files
from advisor.ask.context import Context
from advisor.ask.run_options import RunOptions
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import LoggedEvent, RunEvent, WorkerEnded, WorkerReported
from advisor.execute.drafts import create, draft_run
from advisor.execute.execution import execute
from advisor.probing import env_registry
from advisor.probing.run_config import RunConfig
from advisor.probing.session import WorkerSession
from advisor.store.runs import Run
from advisor.store.store import Store
from probes.events import Event, Prepared, Ready
from probes.outcome import Failure, FailureStatus, Outcome

Kind = TypeVar("Kind")
Reported = TypeVar("Reported")

QUICK = builders.arm("quick", options={"milliseconds": 1})
ALIKE = builders.arm("alike/slow", options={"milliseconds": 2})
BASELINE = builders.arm("pytorch-eager", options={"milliseconds": 1})


def run_config(
    directory: pathlib.Path,
    probes: pathlib.Path,
    *,
    environment: Mapping[str, str] = os.environ,
    asked: Mapping[str, Any] = types.MappingProxyType({}),
    **changes: Any,
) -> RunConfig:
    """Return what workers share whose files are in `directory`; `asked` is of the question.

    Further arguments are fields of the header. Visits and warm-ups are short.
    """
    question = builders.question(**{"python": sys.executable, **asked})
    header = builders.header(question=question, **changes)
    presets = builders.replace(
        header.catalogue.presets, visit_seconds=0.016, warmup_seconds={question.device: 0.01}
    )
    return RunConfig(
        header=builders.replace(
            header, catalogue=builders.replace(header.catalogue, presets=presets)
        ),
        arms_directory=directory / "arms",
        scratch_directory=directory / "scratch",
        probes_directory=probes,
        environment=dict(environment),
    )


def change_fields(file: pathlib.Path, changes: str) -> None:
    """Change fields of a TOML file to those of another TOML text; the file has each of them."""
    document = tomlkit.parse(file.read_text())
    _change_table(document, tomlkit.parse(changes).unwrap())
    file.write_text(tomlkit.dumps(document))


def _change_table(table: Any, changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        assert name in table
        if isinstance(value, dict):
            _change_table(table[name], value)
        else:
            table[name] = value


def fake_context(
    home: pathlib.Path, probes: pathlib.Path, catalogue: pathlib.Path, seed: int = 0, **changes: Any
) -> Context:
    """Return a context with fake workflows and a store in `home`."""
    fields = {"environment": dict(os.environ), "store": Store(home), "random": random.Random(seed)}
    return Context(**{**fields, "probes": probes, "catalogue_directory": catalogue, **changes})


def add_own_environment(
    home: pathlib.Path, name: str, catalogue: pathlib.Path, probes: pathlib.Path | None = None
) -> pathlib.Path:
    """Return the directory of an up-to-date environment of a workflow, without an interpreter."""
    known = catalogue_files.load(catalogue, probes=probes).workflows
    environment = env_registry.own_environments(known)[name]
    digest = env_registry.environment_digest(environment, env_registry.lock_file(catalogue, name))
    return builders.add_environment(home / "environments", name, digest)


def start_workers(session: WorkerSession, *arms: Arm) -> list[RunEvent]:
    """Start the reference and import the arms, as the pipeline does before the first build."""
    return [
        *session.start_reference(BASELINE, 0),
        *session.start((each, 0) for each in arms),
        *session.finish_reference(),
    ]


def worker_events_of(
    run_events: Iterable[RunEvent], kind: type[Any], arm: str | None = None
) -> list[Any]:
    """Return the events of this kind that workers reported, of one arm or of all."""
    return [
        each.worker_event
        for each in of_kind(run_events, WorkerReported)
        if isinstance(each.worker_event, kind) and arm in {None, each.arm}
    ]


def of_kind(events: Iterable[RunEvent | LoggedEvent], kind: type[Kind]) -> list[Kind]:
    run_events = (each.run_event if isinstance(each, LoggedEvent) else each for each in events)
    return [each for each in run_events if isinstance(each, kind)]


def outcomes_by_arm(run_events: Iterable[RunEvent]) -> dict[str, object]:
    return {each.arm: each.outcome for each in of_kind(run_events, WorkerEnded)}


def expect_failure(message: object, status: FailureStatus) -> Failure:
    """Return the failure with which a worker ended; it has this status."""
    assert isinstance(message, Outcome), message
    assert message.failure is not None
    assert message.failure.status == status, message.failure
    return message.failure


class LimitedMemory:
    """Stands for `MemoryHeadroom` on a machine with memory for a number of built workers."""

    def __init__(self, most_built: int) -> None:
        self.most_built = most_built
        self.built: set[str] = set()

    def update(self, run_event: RunEvent) -> None:
        if (
            isinstance(run_event, WorkerReported)
            and isinstance(run_event.worker_event, (Prepared, Ready))
            and run_event.arm != REFERENCE
        ):
            self.built.add(run_event.arm)
        elif isinstance(run_event, WorkerEnded):
            self.built.discard(run_event.arm)

    def update_from(self, pid: int) -> None:
        del pid

    def has_free(self, needed_bytes: float) -> bool:
        del needed_bytes
        return False

    def watch_half(self) -> Callable[[], bool]:
        return lambda: False

    def fits_another_worker(self, running_builds: int = 0) -> bool:
        return len(self.built) + running_builds < self.most_built


def exhaust(events: Iterable[object]) -> None:
    for _ in events:
        pass


def short_options(workflows: str, **changes: Any) -> RunOptions:
    """Return the answers for a short run of all arms of fake workflows, on the CPU."""
    short = {"gpu": "cpu", "batch_sizes": "2", "budget": "1s", "all_arms": True}
    return RunOptions(**{**short, "workflows": workflows, **changes})


def create_run(context: Context, run_options: RunOptions) -> Run:
    return create(draft_run(run_options, context), context)


def execute_run(context: Context, run_options: RunOptions) -> Run:
    """Return a new run of these answers, executed to its end."""
    run = create_run(context, run_options)
    exhaust(execute(run, context))
    return run


def worker_event_of(event: LoggedEvent) -> Event | None:
    """Return the worker event inside an event of the run; None if no worker reported it."""
    return event.run_event.worker_event if isinstance(event.run_event, WorkerReported) else None


def reports_of(
    events: Iterable[LoggedEvent], kind: type[Reported]
) -> list[tuple[WorkerReported, Reported]]:
    """Return the reports of one kind, each with the event that holds it."""
    return [
        (event.run_event, event.run_event.worker_event)
        for event in events
        if isinstance(event.run_event, WorkerReported)
        and isinstance(event.run_event.worker_event, kind)
    ]
