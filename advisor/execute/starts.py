"""Start the leaders in new processes with empty caches, by every way that their stacks offer.

The scripts are those that `recipe` prints. Each runs in a process of its own, and eager PyTorch
checks their replies in another one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from advisor.decide.rounds import plan_of
from advisor.domain.catalogue import Catalogue
from advisor.domain.measurement import CACHE_DIRECTORY, COLD, Start, StartScripts, StartWay
from advisor.domain.plan import BASELINE_SNIPPET, SNIPPET, Arm
from advisor.domain.question import Question
from advisor.domain.run_events import LoggedEvent, StartMeasured, WorkerReported
from advisor.domain.run_state import RunState
from advisor.errors import NoRecipeError, VerificationError
from advisor.execute.recorder import RaceContext
from advisor.execute.repetitions import leaders_of
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.snippets import Settings, Snippet, follow, make_arm, open_session
from probes.wire.events import Compared, Event, FirstReply, InputFacts, RecipeFacts, StartLines
from probes.wire.shape import Shape

#: Of a run that was stopped before the check.
UNCHECKED = "its reply was not checked"
#: Composes the scripts of an arm from the question and what its worker reported, the cold start
#: first; raises `NoRecipeError`. See `advisor.report.recipes.starts`.
ComposeStarts: TypeAlias = Callable[
    [Question, str, Mapping[str, StartLines], Sequence[InputFacts] | None], list[StartScripts]
]


def measure_starts(
    context: RaceContext, config: RunConfig, catalogue: Catalogue, compose: ComposeStarts
) -> Iterator[LoggedEvent]:
    """Measure the starts of the leaders, then of arms that a limit of the start may exclude.

    No way begins after the seconds of the budget, the first one of the first arm excepted.
    """
    limited = math.isfinite(context.seconds)
    end = context.clock() + (context.question.budget.start_seconds if limited else math.inf)
    starts = context.state.starts.items()
    tried = {arm for arm, found in starts if all(each.failure != UNCHECKED for each in found)}
    while (arm := _next_arm(context, tried)) is not None and context.clock() < end:
        tried.add(arm.id)
        settings = Settings(
            arm=arm,
            config=config,
            deadlines=catalogue.presets.deadlines,
            allowed=None,
            seconds=0.0,
            one_by_one=True,
        )
        found = _measure_arm(context, settings, compose, end)
        yield from context.recorder.record_each(
            msgspec.structs.replace(each, start=_describe(each.start, catalogue.starts))
            for each in found
        )


def _describe(start: Start, ways: Mapping[str, StartWay]) -> Start:
    """Return the start with what the rubric says about its way."""
    return msgspec.structs.replace(start, **msgspec.structs.asdict(ways[start.way]))


def _next_arm(context: RaceContext, tried: set[str]) -> Arm | None:
    """Return the next arm to start: the advised one, its rivals, the baseline, then others.

    The others are those that no constraint excludes but one on a figure that is not known, where
    no arm is advised.
    """
    answer, plan = context.evaluate(context.state), plan_of(context.state)
    advised = answer.advised.scored.arm if answer.advised else ""
    leaders = sorted(
        leaders_of(answer, plan), key=lambda arm: (arm.id != advised, arm == plan.baseline)
    )
    unknown = [
        scored.arm
        for scored in answer.scores
        if not advised and all(failure.value is None for failure in scored.failures)
    ]
    arms = {arm.id: arm for arm in plan.arms}
    return next(
        (arm for arm in (*leaders, *(arms[each] for each in unknown)) if arm.id not in tried), None
    )


def _measure_arm(
    context: RaceContext, settings: Settings, compose: ComposeStarts, end: float
) -> Iterator[StartMeasured]:
    """Yield the starts of an arm whose replies are right, and the first one of the baseline."""
    question, baseline, arm = context.question, plan_of(context.state).baseline, settings.arm
    facts = _recipe_facts(context.state, arm.id)
    scripts, eager = (_scripts_of(context, each, compose) for each in (arm, baseline))
    if not scripts or facts is None:
        return
    shape = question.start_shape
    # Another version of the library may make other weights from the same seed.
    is_random = getattr(question.model, "weights", "") == "random"
    folder = settings.config.scratch_directory
    folder.mkdir(parents=True, exist_ok=True)
    settings = dataclasses.replace(settings, allowed=facts.allowances.get(str(shape)))
    with (
        tempfile.TemporaryDirectory(dir=folder) as home,
        open_session(settings, home) as session,
    ):
        starter = Starter(session, settings, pathlib.Path(home), context.clock)
        if arm == baseline:
            yield StartMeasured(arm=arm.id, start=starter.start(scripts[0]))
            return
        found = []
        for start in starter.start_each(scripts, end):
            found.append(start)
            unchecked = msgspec.structs.replace(start, failure=start.failure or UNCHECKED)
            yield StartMeasured(arm=arm.id, start=unchecked)
        checks = Snippet(text=eager[0].start, python=arm.python if is_random else "")
        first, problems = starter.check(checks, found)
    for each in found:
        problem = problems.get(each.way)
        wrong = {"seconds": None, "failure": problem} if problem else {}
        yield StartMeasured(arm=arm.id, start=msgspec.structs.replace(each, **wrong))
    if not checks.python and baseline.id not in context.state.starts:
        yield StartMeasured(arm=baseline.id, start=first)


def _recipe_facts(state: RunState, arm: str) -> RecipeFacts | None:
    """Return what the arm's last process that got so far reported for its recipe."""
    found = [each.recipe_facts for each in state.processes.get(arm, ()) if each.recipe_facts]
    return found[-1] if found else None


def _scripts_of(context: RaceContext, arm: Arm, compose: ComposeStarts) -> list[StartScripts]:
    """Return the scripts of the ways of an arm; none for a model without a recipe."""
    facts = _recipe_facts(context.state, arm.id)
    if facts is None:
        return []
    try:
        return compose(context.question, facts.integration, facts.starts, facts.inputs)
    except NoRecipeError:
        return []


class Starter:
    """Starts the scripts of one arm one after the other; their files are in one folder."""

    def __init__(
        self, session: Session, settings: Settings, home: pathlib.Path, clock: Callable[[], float]
    ) -> None:
        self._session, self._settings, self._clock = session, settings, clock
        self._shared, self._caches = home / "shared", home / SNIPPET / "cache"
        self.files = self._shared / SNIPPET
        self._counted = 0

    def start_each(self, scripts: Sequence[StartScripts], end: float) -> Iterator[Start]:
        """Yield the start by each way; there is only the first one if that fails."""
        first, *others = scripts
        cold = self.start(first, saves="\n".join(each.saves for each in scripts))
        yield cold
        sizes = {each.way: self._new_bytes() for each in others if each.saves}
        sizes[CACHE_DIRECTORY] = count_bytes(self._caches)
        for way in others if cold.failure is None else ():
            if self._clock() >= end or (way.way == CACHE_DIRECTORY and not sizes[way.way]):
                continue
            started = self._write_and_start(way)
            size = sizes.get(way.way, started.shipped_bytes)
            yield msgspec.structs.replace(started, shipped_bytes=size)

    def _write_and_start(self, way: StartScripts) -> Start:
        """Return the start by a way, after the process that writes what is shipped."""
        if not way.write or way.saves:
            return self.start(way)
        began = self._clock()
        try:
            self._run(Snippet(text=way.write, python=self._settings.arm.python), writes=True)
        except VerificationError as problem:
            return Start(way=way.way, lines=way.lines, failure=_reason(problem))
        seconds, size = self._clock() - began, self._new_bytes()
        return msgspec.structs.replace(self.start(way), write_seconds=seconds, shipped_bytes=size)

    def start(self, way: StartScripts, saves: str = "") -> Start:
        """Return the start by one way; the lines `saves` follow its first call."""
        call = str(self._shared / f"{way.way}.pt")
        snippet = Snippet(text=way.start, python=self._settings.arm.python)
        start, keeps = Start(way=way.way, lines=way.lines), way.way == CACHE_DIRECTORY
        try:
            events = self._run(snippet, call=call, saves=saves, keeps=keeps)
        except VerificationError as problem:
            return msgspec.structs.replace(start, failure=_reason(problem))
        return self._with_times(start, SNIPPET, events)

    def check(self, eager: Snippet, starts: Sequence[Start]) -> tuple[Start, dict[str, str | None]]:
        """Return the start of eager PyTorch, and what is wrong with the replies, by way."""
        calls = {
            each.way: str(self._shared / f"{each.way}.pt")
            for each in starts
            if each.seconds is not None
        }
        start, call = Start(way=COLD), str(self._shared / "eager.pt")
        try:
            events = self._run(eager, BASELINE_SNIPPET, call=call, calls=calls)
        except VerificationError as problem:
            reason = f"nothing could be compared: {_reason(problem)}"
            return msgspec.structs.replace(start, failure=reason), dict.fromkeys(calls, reason)
        compared = [each for each in events if isinstance(each, Compared)]
        problems = {each.call: each.problem for each in compared}
        return self._with_times(start, BASELINE_SNIPPET, events), problems

    def _run(
        self,
        snippet: Snippet,
        name: str = SNIPPET,
        *,
        keeps: bool = False,
        call: str = "",
        calls: Mapping[str, str] | None = None,
        saves: str = "",
        writes: bool = False,
    ) -> list[Event]:
        """Run a script in a new process until it has replied; return the events of its worker.

        With `keeps` the caches of the process before it stay.
        """
        session = self._session
        arm = make_arm(
            name,
            snippet,
            settings=self._settings,
            shared=self._shared,
            call=call,
            calls=calls,
            saves=saves,
            writes=writes,
        )
        run_events = itertools.chain(
            session.start([(arm, 0)], built=[name] if keeps else ()), session.build(name)
        )
        found = follow(run_events)
        if not writes:
            found += follow(session.visit(name, Shape(1), 0))
        follow(session.stop())
        return [each.worker_event for each in found if isinstance(each, WorkerReported)]

    def _with_times(self, start: Start, name: str, events: Sequence[Event]) -> Start:
        visit = self._session.last_visit(name)
        return msgspec.structs.replace(
            start,
            seconds=next(each.seconds for each in events if isinstance(each, FirstReply)),
            call_seconds=statistics.median(visit.seconds) if visit else None,
        )

    def _new_bytes(self) -> int:
        """Return the bytes of the files that were written since the last call."""
        before, self._counted = self._counted, count_bytes(self.files)
        return self._counted - before


def _reason(problem: VerificationError) -> str:
    return problem.what.removeprefix("the snippet failed: ")


def count_bytes(folder: pathlib.Path) -> int:
    """Return the bytes of the files below a folder; links are those of the user's files."""
    return sum(
        place.stat().st_size
        for place in folder.rglob("*")
        if place.is_file() and not place.is_symlink()
    )
