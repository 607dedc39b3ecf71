"""Start the leaders in new processes with empty caches, by every way that their stacks offer.

The scripts are those that `recipe` prints. Each runs in a process of its own, and eager PyTorch
checks their replies in another one.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from advisor.domain.errors import NoRecipeError, VerificationError
from advisor.domain.measurement import CACHE_DIRECTORY, Start
from advisor.domain.plan import BASELINE_SNIPPET, SNIPPET, Arm
from advisor.domain.run_events import RunEvent, StartMeasured
from advisor.domain.snippet import Snippet
from advisor.execute.active_run import ActiveRun, TimeSpan
from advisor.execute.repetitions import leaders_of
from advisor.probing.session import WorkerSession
from advisor.probing.snippets import SnippetOptions, follow, make_arm, open_session, start
from advisor.recipes.snippet import StartScripts, compose_starts
from probes.events import Compared, Event, FirstReply, SnippetFacts
from probes.files import count_bytes
from probes.shape import Shape

#: Failure of a start if the run was stopped before the check, or if the outputs have no reference.
UNCHECKED = "its reply was not checked"


def measure_starts(active: ActiveRun) -> Iterator[RunEvent]:
    """Measure the starts of the leaders, then of arms that a limit of the start may exclude.

    No way begins after the seconds of the budget, the first one of the first arm excepted.
    """
    limited = math.isfinite(active.time.seconds)
    most = active.question.budget.cold_start_seconds if limited else math.inf
    time = TimeSpan(active.time.clock, active.time.clock(), most)
    starts = active.state.starts.items()
    tried = {arm for arm, found in starts if all(each.failure != UNCHECKED for each in found)}
    while (planned := _next_arm(active, tried)) is not None and not time.is_over():
        tried.add(planned.id)
        facts, eager = (
            _snippet_facts(active, each) for each in (planned, active.state.plan.baseline)
        )
        if facts is None or eager is None:
            continue
        question = active.question
        try:
            size = question.start_shape.batch_size
            scripts = compose_starts(question, size, facts)
            first, *_ = compose_starts(question, size, eager)
        except NoRecipeError:
            continue
        allowed = facts.allowances.get(str(question.start_shape))
        yield from _measure_arm(active, planned, allowed, [first, *scripts], time)


def _next_arm(active: ActiveRun, tried: set[str]) -> Arm | None:
    """Return the next arm to start: the advised one, its rivals, the baseline, then others.

    If no arm is advised, the others are those that only a constraint on an unknown figure excludes.
    """
    answer, plan = active.answer(), active.state.plan
    advised = answer.advised.scored.arm if answer.advised else ""
    leaders = sorted(
        leaders_of(answer, plan), key=lambda each: (each.id != advised, each == plan.baseline)
    )
    unknown = [
        scored.arm
        for scored in answer.scores
        if not advised and all(failure.value is None for failure in scored.failures)
    ]
    arms = {each.id: each for each in plan.arms}
    return next(
        (one for one in (*leaders, *(arms[each] for each in unknown)) if one.id not in tried), None
    )


def _measure_arm(
    active: ActiveRun,
    planned: Arm,
    allowed: Any,  # noqa: ANN401 - as the workflow's task needs it
    scripts: Sequence[StartScripts],
    time: TimeSpan,
) -> Iterator[StartMeasured]:
    """Yield the starts of an arm, those with a right reply once more after the check.

    The first script is that of eager PyTorch; the baseline has no other.
    """
    # The packages are imported as they were installed.
    config = dataclasses.replace(active.session.config, bytecode=None)
    eager, *own = scripts
    question, baseline = active.question, active.state.plan.baseline
    # Another version of the library may make other weights from the same seed.
    python = planned.python if getattr(question.model, "weights", "") == "random" else ""
    config.scratch_directory.mkdir(parents=True, exist_ok=True)
    with open_session(config, config.scratch_directory) as session:
        starter = Starter(session, planned, allowed, time.clock)
        if planned == baseline:
            yield StartMeasured(arm=planned.id, start=starter.start(eager))
            return
        found = []
        for each in starter.start_each(own, time):
            found.append(each)
            unchecked = msgspec.structs.replace(each, failure=each.failure or UNCHECKED)
            yield StartMeasured(arm=planned.id, start=unchecked)
        first, checked = starter.check(eager, python, found)
    for each in checked:
        yield StartMeasured(arm=planned.id, start=each)
    if not python and baseline.id not in active.state.starts:
        yield StartMeasured(arm=baseline.id, start=first)


def _snippet_facts(active: ActiveRun, planned: Arm) -> SnippetFacts | None:
    processes = reversed(active.state.processes.get(planned.id, ()))
    return next((each.snippet_facts for each in processes if each.snippet_facts), None)


class Starter:
    """Starts the scripts of one arm one after the other; their files are in one folder."""

    def __init__(
        self,
        session: WorkerSession,
        planned: Arm,
        allowed: Any,  # noqa: ANN401 - as above
        clock: Callable[[], float],
    ) -> None:
        self._session, self._arm, self._allowed, self._clock = session, planned, allowed, clock
        self._shared = session.config.scratch_directory / "shared"
        self._caches = session.pool.scratch_directory(SNIPPET) / "cache"
        self.files = self._shared / SNIPPET

    def start_each(self, scripts: Sequence[StartScripts], time: TimeSpan) -> Iterator[Start]:
        """Yield the start by each way; there is only the first one if that fails."""
        first, *others = scripts
        cold = self.start(first, saves="\n".join(each.saves for each in scripts))
        yield cold
        saved, cached = count_bytes(self.files), count_bytes(self._caches)
        for way in others if cold.failure is None else ():
            if time.is_over() or (way.way == CACHE_DIRECTORY and not cached):
                continue
            if way.write and not way.saves:
                yield self._write_and_start(way)
            else:
                size = cached if way.way == CACHE_DIRECTORY else saved if way.saves else 0
                yield msgspec.structs.replace(self.start(way), shipped_bytes=size)

    def _write_and_start(self, way: StartScripts) -> Start:
        began, before = self._clock(), count_bytes(self.files)
        written, _ = self._run(way, way.write, {"writes": True})
        if written.failure is not None:
            return written
        seconds, size = self._clock() - began, count_bytes(self.files) - before
        return msgspec.structs.replace(self.start(way), write_seconds=seconds, shipped_bytes=size)

    def start(self, way: StartScripts, saves: str = "") -> Start:
        """Return the start by one way; the lines `saves` follow its first call."""
        return self._run(way, way.start, {"call": self._call_file(way.way), "saves": saves})[0]

    def check(
        self, eager: StartScripts, python: str, starts: Sequence[Start]
    ) -> tuple[Start, list[Start]]:
        """Return the start of eager PyTorch, and the others with what is wrong with the replies."""
        calls = {each.way: self._call_file(each.way) for each in starts if each.failure is None}
        options: SnippetOptions = {"call": self._call_file(BASELINE_SNIPPET), "calls": calls}
        snippet = Snippet(text=eager.start, python=python)
        first, events = self._run(eager, snippet, options, BASELINE_SNIPPET)
        unchecked = f"nothing could be compared: {first.failure}" if first.failure else UNCHECKED
        compared = {each.call: each.problem for each in events if isinstance(each, Compared)}
        problems = {each.way: each.failure or compared.get(each.way, unchecked) for each in starts}
        return first, [
            msgspec.structs.replace(
                each,
                failure=problems[each.way],
                seconds=None if problems[each.way] else each.seconds,
            )
            for each in starts
        ]

    def _call_file(self, name: str) -> str:
        return str(self._shared / f"{name}.pt")

    def _run(
        self, way: StartScripts, script: str | Snippet, options: SnippetOptions, name: str = SNIPPET
    ) -> tuple[Start, list[Event]]:
        if isinstance(script, str):
            script = Snippet(text=script, python=self._arm.python)
        session, ways = self._session, self._session.config.catalogue.starts
        found = Start(way=way.way, lines=way.lines, **msgspec.structs.asdict(ways[way.way]))
        try:
            options = {"allowed": self._allowed, **options}
            planned = make_arm(session, self._arm, name, script, options)
            events = start(session, planned, keeps_caches=way.way == CACHE_DIRECTORY)
            if not options.get("writes"):
                follow(session.visit(name, Shape(1), 0))
            follow(session.stop())
        except VerificationError as problem:
            return msgspec.structs.replace(found, failure=problem.reason), []
        replies = [each.seconds for each in events if isinstance(each, FirstReply)]
        visit = session.pool.workers[name].last_visit if replies else None
        return msgspec.structs.replace(
            found,
            seconds=replies[0] if replies else None,
            call_seconds=statistics.median(visit.seconds) if visit else None,
        ), events
