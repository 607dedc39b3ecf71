"""Run the snippets of two arms, as they are pasted, and time their calls in turns."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from advisor.domain.model import FactoryModel, Model
from advisor.domain.plan import BASELINE_SNIPPET, SNIPPET, Arm
from advisor.domain.run_events import RunEvent, WorkerEnded, WorkerReported
from advisor.errors import VerificationError
from advisor.probing.run_config import RunConfig
from advisor.probing.session import WorkerSession
from probes.wire.events import Compared, Event, FirstReply, Imported
from probes.wire.outcome import Failure, Outcome
from probes.wire.shape import Shape

#: Least number of blocks of each snippet.
MIN_ROUNDS = 5


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A snippet, and where it runs."""

    text: str
    #: Interpreter of an environment that p3-advisor created; empty for that of the question.
    python: str = ""
    #: Folders next to the snippet, by the name in its text.
    folders: Mapping[str, pathlib.Path] = {}


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """How the first of two snippets compares with the second."""

    #: What is wrong with the outputs, if they were compared, and how far apart they are.
    problem: str | None
    error: float | None = None
    #: Of the second one, by place and reason.
    graph_breaks: dict[str, int] = {}
    #: Seconds of the calls of both, by round; none with a problem.
    rounds: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    #: Installed versions in the first one's interpreter, by distribution.
    versions: dict[str, str]


#: A file that a snippet names.
NAMED_FILE = re.compile(r'"([\w-]+\.[\w.-]+)"')


@dataclasses.dataclass(frozen=True)
class SnippetSettings:
    """What the processes that run snippets of a run share."""

    #: The arm of the first snippet; its batch size and its lengths are in the text.
    arm: Arm
    #: Of the run; the directories are replaced.
    config: RunConfig
    #: What a comparison with eager PyTorch allows by output; None for no comparison.
    allowed: Any


@dataclasses.dataclass(frozen=True)
class PairSettings(SnippetSettings):
    """How a pair is run and timed."""

    #: Seconds of timing of each snippet.
    seconds: float
    #: Whether the first one ends before the second starts: an engine takes the GPU's memory.
    one_by_one: bool
    #: Gets a line about what comes next.
    tell: Callable[[str], None] = lambda _line: None


def run_pair(first: Snippet, second: Snippet, settings: PairSettings) -> Pair:
    """Run both snippets, the second with the inputs of the first, and time them in turns.

    Raise `VerificationError` with the reason if one fails.
    """
    with tempfile.TemporaryDirectory() as home, open_session(settings, home) as session:
        shared = pathlib.Path(home, "shared")
        call = str(shared / "call.pt")
        make = functools.partial(make_arm, settings=settings, shared=shared, describes=True)
        own = make(SNIPPET, first, call=call)
        baseline = make(
            BASELINE_SNIPPET, second, call=str(shared / "own.pt"), calls={SNIPPET: call}
        )
        settings.tell(f"running the snippet of {settings.arm.id}: load, build, first call")
        imported = next(each for each in start(session, own) if isinstance(each, Imported))
        versions = imported.environment.distributions if imported.environment else {}
        alone: Iterable[tuple[Sequence[float], ...]] = itertools.repeat(())
        running = [own.id]
        if settings.one_by_one:
            alone = time_in_turns(session, running, settings.seconds)
            follow(session.stop())
            running.clear()
        settings.tell("running the snippet of the baseline, and comparing the outputs")
        reported = start(session, baseline)
        compared = next((each for each in reported if isinstance(each, Compared)), None)
        pair = Pair(
            problem=compared.problem if compared else None,
            error=compared.error if compared else None,
            graph_breaks=next(
                each.graph_breaks for each in reported if isinstance(each, FirstReply)
            ),
            rounds=(),
            versions=versions,
        )
        if pair.problem:
            return pair
        settings.tell(f"timing both in turns, {settings.seconds:g} s each")
        timed = time_in_turns(session, [*running, baseline.id], settings.seconds)
    rounds = [(*one, *other) for one, other in zip(alone, timed, strict=False)]
    return msgspec.structs.replace(
        pair,
        rounds=msgspec.convert(rounds, tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]),
    )


def open_session(settings: SnippetSettings, home: str) -> WorkerSession:
    """Return a session with its folders in `home`, those of `shared` among them."""
    folder = pathlib.Path(home)
    return WorkerSession(
        dataclasses.replace(
            settings.config, arms_directory=folder / "arms", scratch_directory=folder
        )
    )


def make_arm(
    name: str,
    snippet: Snippet,
    *,
    settings: SnippetSettings,
    shared: pathlib.Path,
    **options: object,
) -> Arm:
    """Return the arm of a process that runs the snippet, and write what it needs to `shared`.

    The options are those of `probes.runtime.snippet`. Workers can replace what is in `shared`, so
    the script goes to another folder. Raise `VerificationError` for a replaced folder.
    """
    scripts, files = shared.with_name("scripts"), shared / name
    if files.is_symlink() or (files.exists() and not files.is_dir()):
        raise VerificationError("a worker replaced the folder of the snippet", "measure again")
    if not files.exists():
        files.mkdir(parents=True)
        link_files(snippet, settings.config.question.model, files)
    scripts.mkdir(exist_ok=True)
    file = scripts / f"{name}.py"
    file.write_text(snippet.text, encoding="utf-8")
    given = {"describes": False, "writes": False, "calls": {}, "saves": ""}
    given |= {"snippet": str(file), "files": str(files), "begun": time.monotonic()}
    options = {**given, "allowed": settings.allowed, **options}
    return msgspec.structs.replace(settings.arm, id=name, python=snippet.python, options=options)


def start(session: WorkerSession, arm: Arm, *, keeps_caches: bool = False) -> list[Event]:
    """Start a snippet, and let it make its first call and warm up; return what it reports.

    With `keeps_caches` the caches of its last process stay.
    """
    started = session.start([(arm, 0)], built=[arm.id] if keeps_caches else ())
    found = follow(itertools.chain(started, session.build(arm.id)))
    return [each.worker_event for each in found if isinstance(each, WorkerReported)]


def follow(run_events: Iterable[RunEvent]) -> list[RunEvent]:
    """Return the events until they end; raise an error for a process that fails."""
    found = []
    for run_event in run_events:
        match run_event:
            case WorkerEnded(outcome=Outcome(failure=Failure() as failure)):
                raise VerificationError(
                    f"the snippet failed: {failure.reason}",
                    failure.fix or "repair the environment, or measure again",
                )
            case _:
                found.append(run_event)
    return found


def time_in_turns(
    session: WorkerSession, names: Sequence[str], seconds: float
) -> list[tuple[Sequence[float], ...]]:
    """Return the seconds of the calls of each process, by round."""
    rounds: list[tuple[Sequence[float], ...]] = []
    end = time.monotonic() + seconds * len(names)
    while len(rounds) < MIN_ROUNDS or time.monotonic() < end:
        for name in names:
            follow(session.visit(name, Shape(1), len(rounds)))
        visits = [session.last_visit(name) for name in names]
        rounds.append(tuple(each.seconds for each in visits if each))
    return rounds


def link_files(snippet: Snippet, model: Model, folder: pathlib.Path) -> None:
    """Put into `folder` what the snippet finds there if the user runs it as its comments say.

    These are the model's file and the files around it, the file of its inputs, a checkpoint's
    directory, and folders such as a clone of another project. What the snippet may write is copied
    or left out.
    """
    here = {each.name: each for each in pathlib.Path.cwd().iterdir() if each.is_dir()}
    for name, place in {**here, **snippet.folders}.items():
        if f'"{name}/' in snippet.text:
            (folder / name).symlink_to(place)
    given = getattr(model, "inputs", "")
    if given:
        inputs = pathlib.Path(given if given.endswith(".npz") else given.rpartition(":")[0])
        (folder / inputs.name).symlink_to(inputs)
    path = pathlib.Path(
        model.name.rpartition(":")[0] if isinstance(model, FactoryModel) else model.name
    )
    if not path.is_absolute():
        return
    written = [name for name in NAMED_FILE.findall(snippet.text) if name != path.name]
    writes_model = snippet.text.count(f'"{path.name}"') > path.is_file()
    for place in path.parent.iterdir() if path.is_file() else [path]:
        # A file may have further ones, such as its external data.
        is_of_model = place.name == path.name or place.name.startswith(f"{path.name}.")
        is_written = any(
            place.name == each or place.name.startswith(f"{each}.") for each in written
        )
        if (folder / place.name).exists() or (is_written and not is_of_model):
            continue
        if is_of_model and writes_model:
            (shutil.copy if place.is_file() else shutil.copytree)(place, folder / place.name)
        else:
            (folder / place.name).symlink_to(place)
