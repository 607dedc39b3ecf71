"""Run the snippets of two arms, as they are pasted, and time their calls in turns."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from advisor.domain.errors import VerificationError
from advisor.domain.model import FactoryModel, Model
from advisor.domain.plan import BASELINE_SNIPPET, SNIPPET, Arm
from advisor.domain.run_events import RunEvent, WorkerEnded, WorkerReported
from advisor.domain.snippet import Snippet, SnippetPair
from advisor.probing.conditions import find_disturbance
from advisor.probing.run_config import RunConfig
from advisor.probing.session import WorkerSession
from probes import protocol
from probes.events import Compared, Event, FirstReply, Imported
from probes.shape import Shape

#: What `make_arm` takes: other packages do not import the protocol.
SnippetOptions = protocol.SnippetOptions
MIN_ROUNDS = 5
NAMED_FILE = re.compile(r'"([\w-]+\.[\w.-]+)"')


class PairedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """How the calls of the first of two snippets compare with those of the second."""

    #: What is wrong with the outputs, if they were compared, and how far apart they are.
    problem: str | None
    error: float | None = None
    #: Number of graph breaks of the second code, by place and reason.
    graph_breaks: dict[str, int] = {}
    #: Seconds of the calls of both, by round; none with a problem.
    rounds: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    #: Whether the machine was unfit during most of them.
    busy: bool = False
    #: Installed versions in the first one's interpreter, by distribution.
    versions: dict[str, str]


def run_pair(
    pair: SnippetPair, config: RunConfig, seconds: float, tell: Callable[[str], None]
) -> PairedCalls:
    """Run both snippets, the second with the inputs of the first, and time them in turns.

    `seconds` is the time for the calls of each. `tell` gets a line about what comes next. Raise
    `VerificationError` with the reason if one fails.
    """
    with open_session(config) as session:
        planned = pair.planned
        shared = session.config.scratch_directory / "shared"
        call, own_call = str(shared / "call.pt"), str(shared / "own.pt")
        options: SnippetOptions = {"call": call, "describes": True}
        own = make_arm(session, planned, SNIPPET, pair.own, options)
        options = {**options, "call": own_call, "calls": {SNIPPET: call}, "allowed": pair.allowed}
        baseline = make_arm(session, planned, BASELINE_SNIPPET, pair.baseline, options)
        tell(f"running the snippet of {planned.id}: load, build, first call")
        imported = next(each for each in start(session, own) if isinstance(each, Imported))
        versions = imported.environment.distributions if imported.environment else {}
        alone: Iterable[tuple[TimedCalls, ...]] = itertools.repeat(())
        running = [own.id]
        if pair.one_by_one:
            alone = time_in_turns(session, running, seconds)
            follow(session.stop())
            running.clear()
        tell("running the snippet of the baseline, and comparing the outputs")
        reported = start(session, baseline)
        compared = next((each for each in reported if isinstance(each, Compared)), None)
        calls = PairedCalls(
            problem=compared.problem if compared else None,
            error=compared.error if compared else None,
            graph_breaks=next(
                each.graph_breaks for each in reported if isinstance(each, FirstReply)
            ),
            rounds=(),
            versions=versions,
        )
        if calls.problem:
            return calls
        tell(f"timing both in turns, {seconds:g} s each")
        timed = time_in_turns(session, [*running, baseline.id], seconds)
    rounds = [(*one, *other) for one, other in zip(alone, timed, strict=False)]
    unfit = [each.is_unfit for visits in rounds for each in visits]
    return msgspec.structs.replace(
        calls,
        rounds=tuple((own.seconds, other.seconds) for own, other in rounds),
        busy=2 * sum(unfit) > len(unfit),
    )


@contextlib.contextmanager
def open_session(config: RunConfig, parent: pathlib.Path | None = None) -> Iterator[WorkerSession]:
    """Yield a session whose folders are in a temporary one below `parent`."""
    with tempfile.TemporaryDirectory(dir=parent) as home:
        folder = pathlib.Path(home)
        own = dataclasses.replace(config, arms_directory=folder / "arms", scratch_directory=folder)
        with WorkerSession(own) as session:
            yield session


def make_arm(
    session: WorkerSession, planned: Arm, name: str, snippet: Snippet, options: SnippetOptions
) -> Arm:
    """Return the arm of a process that runs the snippet, and write what it needs.

    Workers can replace what is in the folder `shared`, so the script goes to another one. Raise
    `VerificationError` for a replaced folder.
    """
    home = session.config.scratch_directory
    scripts, files = home / "scripts", home / "shared" / name
    if files.is_symlink() or (files.exists() and not files.is_dir()):
        raise VerificationError("a worker replaced the folder of the snippet", "measure again")
    if not files.exists():
        files.mkdir(parents=True)
        link_files(snippet, session.config.question.model, files)
    scripts.mkdir(exist_ok=True)
    file = scripts / f"{name}.py"
    file.write_text(snippet.text, encoding="utf-8")
    script, begun = str(file), time.monotonic()
    session.pool.snippets[name] = {**options, "script": script, "files": str(files), "begun": begun}
    return msgspec.structs.replace(planned, id=name, python=snippet.python)


def start(session: WorkerSession, planned: Arm, *, keeps_caches: bool = False) -> list[Event]:
    """Start a snippet, and let it make its first call and warm up; return what it reports.

    With `keeps_caches` the caches of its last process stay.
    """
    started = session.start([(planned, 0)], built=[planned.id] if keeps_caches else ())
    found = follow(itertools.chain(started, session.build(planned.id)))
    return [each.worker_event for each in found if isinstance(each, WorkerReported)]


def follow(run_events: Iterable[RunEvent]) -> list[RunEvent]:
    """Return the events until they end; raise an error for a process that fails."""
    found = []
    for run_event in run_events:
        if isinstance(run_event, WorkerEnded) and (failure := run_event.outcome.failure):
            raise VerificationError(
                f"the snippet failed: {failure.reason}",
                failure.fix or "repair the environment, or measure again",
                failure.reason,
            )
        found.append(run_event)
    return found


class TimedCalls(NamedTuple):
    """Seconds of the calls of a process in one round, and whether the machine was unfit then."""

    seconds: tuple[float, ...]
    is_unfit: bool


def time_in_turns(
    session: WorkerSession, names: Sequence[str], seconds: float
) -> list[tuple[TimedCalls, ...]]:
    """Return the calls of each process, by round."""
    rounds: list[tuple[TimedCalls, ...]] = []
    limits = session.config.header.catalogue.presets.visit_limits
    end = time.monotonic() + seconds * len(names)
    while len(rounds) < MIN_ROUNDS or time.monotonic() < end:
        timed = []
        for name in names:
            follow(session.visit(name, Shape(1), len(rounds)))
            worker = session.pool.workers[name]
            if visit := worker.last_visit:
                disturbance = find_disturbance(visit, worker.last_conditions, limits)
                timed.append(TimedCalls(visit.seconds, disturbance is not None))
        rounds.append(tuple(timed))
    return rounds


def link_files(snippet: Snippet, model: Model, folder: pathlib.Path) -> None:
    """Put into `folder` what the snippet finds there if the user runs it as its comments say.

    These are the model's file and the files around it, the file of its inputs, a checkpoint's
    directory, and folders such as a clone of another project. What the snippet writes is left out;
    a checkpoint whose name it writes to is copied.
    """
    here = {each.name: each for each in pathlib.Path.cwd().iterdir() if each.is_dir()}
    for name, place in {**here, **snippet.folders}.items():
        if f'"{name}/' in snippet.text:
            (folder / name).symlink_to(place)
    given = getattr(model, "inputs", "")
    if given:
        inputs = pathlib.Path(given if given.endswith(".npz") else given.rpartition(":")[0])
        (folder / inputs.name).symlink_to(inputs)
    name = model.name.rpartition(":")[0] if isinstance(model, FactoryModel) else model.name
    path = pathlib.Path(name)
    if not path.is_absolute():
        return
    if not path.is_file() and f'"{path.name}"' in snippet.text:
        shutil.copytree(path, folder / path.name)
        return
    # With further files, such as external data.
    written = [name for name in NAMED_FILE.findall(snippet.text) if name != path.name]
    for place in path.parent.iterdir() if path.is_file() else [path]:
        is_written = any(f"{place.name}.".startswith(f"{each}.") for each in written)
        if not ((folder / place.name).exists() or is_written):
            (folder / place.name).symlink_to(place)
