"""Start the workers of a group of arms, and build as many as fit in memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from advisor.domain.outcome import Skipped
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.question import Question
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent, RunEvent
from advisor.domain.run_state import RunState
from advisor.pipeline.builds import build_limits
from advisor.pipeline.races import racing
from advisor.pipeline.recorder import Recorder
from advisor.pipeline.stored import remaining
from advisor.pipeline.stored.arms import controls, plan_of, raced_arms
from advisor.pipeline.stored.baseline_failure import baseline_error, has_reference
from advisor.probing.session import Session
from advisor.probing.side_by_side import NextBuild

#: Constraint that needs the peak memory of each build, which only a build that runs alone shows.
MEMORY = "memory"


def build_group(session: Session, recorder: Recorder, header: Header) -> Iterator[LoggedEvent]:
    """Start every arm that is still needed and build as many as fit in memory.

    Raise `ModelRefusedError` or `NothingViableError` if the reference or the baseline fails.
    """
    question = header.question
    arms = remaining.needed_arms(recorder.state, question)
    if not arms:
        return
    at_once = builds_at_once(header)
    if not recorder.state.groups:
        early_seconds = header.catalogue.presets.builds.early_seconds
        arms = early_arms(arms, early_seconds, plan_of(recorder.state).baseline, at_once)
    imported = arms if at_once == 1 else arms[: max(at_once, len(controls(recorder.state)))]
    yield from recorder.record_each(_start(session, recorder.state, imported))
    # The memory check must run while no worker imports and none has used the device.
    if session.is_running(REFERENCE):
        yield from recorder.record_each(session.check_memory())
    if session.is_running(REFERENCE):
        yield from recorder.record_each(session.send_and_wait(REFERENCE, "peaks"))
    if not has_reference(recorder.state):
        raise baseline_error(recorder.state, REFERENCE)
    unbuilt = [arm for arm in arms if not session.is_warmed_up(arm.id)]
    if at_once == 1:
        yield from _build_in_turn(session, recorder, unbuilt, question)
    else:
        yield from _build_side_by_side(session, recorder, unbuilt, question, at_once)


def early_arms(arms: Sequence[Arm], early_seconds: float, baseline: Arm, at_once: int) -> list[Arm]:
    """Return the arms that race first: those whose builds take at most `early_seconds`.

    All arms if that leaves no arm to compare with the baseline. An arm whose build time is not
    known is not early. Of each workflow the first arm is early, and the further ones only while
    they and the duplicate are fewer than the builds `at_once`: the first answer waits for no build
    that would queue.
    """
    controls_ = [arm for arm in arms if arm == baseline or arm.duplicate_of]
    quick = [
        arm
        for arm in arms
        if arm not in controls_
        and arm.expected_build_seconds is not None
        and arm.expected_build_seconds <= early_seconds
    ]
    if not quick:
        return list(arms)
    first = {arm.workflow: arm.id for arm in reversed(quick)}
    further = [arm.id for arm in quick if arm.id not in first.values()]
    duplicates = [arm for arm in controls_ if arm != baseline]
    chosen = {*first.values(), *further[: max(0, at_once - len(first) - len(duplicates))]}
    return [*controls_, *(arm for arm in quick if arm.id in chosen)]


def builds_at_once(header: Header) -> int:
    """Return the number of builds that may run at the same time."""
    if any(constraint.criterion == MEMORY for constraint in header.question.constraints):
        return 1
    processors = header.machine.cpu.usable_processors
    return max(1, min(header.catalogue.presets.builds.most_at_once, processors))


def _start(session: Session, state: RunState, arms: Sequence[Arm]) -> Iterator[RunEvent]:
    """Start the reference worker if its outputs are missing, and the arms that do not run."""
    if not has_reference(state):
        yield from session.start_reference(
            plan_of(state).baseline, _next_process_number(state, REFERENCE)
        )
    yield from session.start(
        [
            (arm, _next_process_number(state, arm.id))
            for arm in arms
            if not session.is_running(arm.id)
        ],
        built=_built_before(state),
    )


def _built_before(state: RunState) -> set[str]:
    """Return the arms whose caches hold a finished build."""
    return {
        arm
        for arm, processes in state.processes.items()
        if any(process.ready for process in processes)
    }


def _build_in_turn(
    session: Session, recorder: Recorder, arms: Sequence[Arm], question: Question
) -> Iterator[LoggedEvent]:
    """Build and warm up one arm after the other within the build limits.

    Stop when memory is short and a new arm is built: the other arms wait for the next group.
    """
    baseline = plan_of(recorder.state).baseline
    for arm in arms:
        if _has_new_arm(session, recorder.state) and not session.has_memory_headroom():
            return
        limit = build_limits.limit_build(recorder.state, arm.id, question)
        if limit is not None and build_limits.is_hopeless(limit, arm.expected_build_seconds):
            outcome = build_limits.skipped_outcome(limit, arm.expected_build_seconds)
            yield from recorder.record_each(session.drop(arm.id, outcome))
            continue
        yield from recorder.record_each(session.build(arm.id, limit))
        if arm == baseline and not session.is_running(arm.id):
            raise baseline_error(recorder.state, arm.id)


def _has_new_arm(session: Session, state: RunState) -> bool:
    """Return whether an arm that has not raced is built."""
    known = raced_arms(state) | controls(state)
    return any(arm.id not in known for arm in racing.warmed_up_arms(session, state))


def _build_side_by_side(
    session: Session,
    recorder: Recorder,
    arms: Sequence[Arm],
    question: Question,
    at_once: int,
) -> Iterator[LoggedEvent]:
    """Build the baseline alone, then the other arms at the same time; warm them up in turn.

    The baseline's memory shows how many builds fit.
    """
    baseline = plan_of(recorder.state).baseline
    yield from _build_in_turn(session, recorder, [arm for arm in arms if arm == baseline], question)
    others = order_builds([arm for arm in arms if arm != baseline], recorder.state, question)
    # Few builds get more processors each.
    shares = max(1, min(at_once, len(others)))
    queue = BuildQueue(session, recorder, question, others, shares)
    yield from recorder.record_each(session.build_side_by_side(queue.choose, shares))
    for arm, outcome in queue.skipped:
        number = _next_process_number(recorder.state, arm.id)
        yield from recorder.record_each(session.drop(arm.id, outcome, number))
    for arm in arms:
        if session.is_prepared(arm.id):
            yield from recorder.record_each(session.build(arm.id))


def order_builds(arms: Sequence[Arm], state: RunState, question: Question) -> list[Arm]:
    """Return the arms in build order: among equals, long and unknown builds come first.

    A long build that starts last would run alone at the end. The duplicate precedes all others,
    because every race needs it, and arms of an open race precede those that wait for memory. Arms
    that must be built alone follow the others. Arms whose builds are expected to exceed their limit
    come last: they cannot change the answer.
    """
    waiting = remaining.waiting_arms(state, question)
    out_of_memory = remaining.oom_beside_others(state)

    def place(arm: Arm) -> tuple[bool, bool, bool, bool, bool, float]:
        seconds = arm.expected_build_seconds
        limit = build_limits.limit_build(state, arm.id, question)
        return (
            limit is not None and seconds is not None and seconds > limit.seconds,
            arm.duplicate_of is None,
            arm.builds_alone,
            arm.id in waiting,
            arm.id not in out_of_memory,
            -math.inf if seconds is None else -seconds,
        )

    return sorted(arms, key=place)


@dataclasses.dataclass
class BuildQueue:
    """The arms that wait for a build, and the conditions under which the next one starts."""

    session: Session
    recorder: Recorder
    question: Question
    waiting: list[Arm]
    #: Number of builds that run at the same time.
    shares: int
    #: Arms for which no build time is left, with their outcome.
    skipped: list[tuple[Arm, Skipped]] = dataclasses.field(default_factory=list)
    started: list[Arm] = dataclasses.field(default_factory=list)
    _runs_alone: bool = False

    def choose(self, running: int) -> NextBuild | None:
        """Return the next build; None while it has to wait, or when the others wait for a group."""
        while self.waiting and self._may_start(running):
            arm = self.waiting.pop(0)
            is_running = self.session.is_running(arm.id)
            if not is_running and self.session.has_started(arm.id):
                continue  # its import failed
            limit = build_limits.limit_build(self.recorder.state, arm.id, self.question)
            if limit is not None and build_limits.is_hopeless(limit, arm.expected_build_seconds):
                outcome = build_limits.skipped_outcome(limit, arm.expected_build_seconds)
                self.skipped.append((arm, outcome))
                continue
            state, seconds_left = self.recorder.state, self._expected_seconds_left(arm)
            self.started.append(arm)
            return NextBuild(
                arm,
                None if is_running else _next_process_number(state, arm.id),
                limit,
                keeps_caches=arm.id in _built_before(state),
                expected_seconds_left=seconds_left,
            )
        return None

    def _expected_seconds_left(self, arm: Arm) -> float | None:
        """Return how long this build and those that run or wait are expected to take."""
        running = [
            each
            for each in self.started
            if self.session.is_running(each.id) and not self.session.is_prepared(each.id)
        ]
        seconds = [each.expected_build_seconds for each in (arm, *running, *self.waiting)]
        known = [each for each in seconds if each is not None]
        if len(known) < len(seconds):
            return None
        return round(max(*known, sum(known) / self.shares), 1)

    def _may_start(self, running: int) -> bool:
        """Return whether memory and the builds that run allow another one.

        While an arm is built whose stack requires it, or that ran out of memory next to others, no
        other build runs.
        """
        out_of_memory = remaining.oom_beside_others(self.recorder.state)
        needs_all = self.waiting[0].builds_alone or self.waiting[0].id in out_of_memory
        if running:
            return (
                not self._runs_alone and not needs_all and self.session.has_memory_headroom(running)
            )
        self._runs_alone = needs_all
        has_new_arm = bool(self.started) or _has_new_arm(self.session, self.recorder.state)
        return not has_new_arm or self.session.has_memory_headroom()


def _next_process_number(state: RunState, arm: str) -> int:
    return len(state.processes.get(arm, ()))
