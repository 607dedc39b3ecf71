"""Start the workers of a group of arms, and build as many as fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.question import Question
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent, RunEvent
from advisor.domain.run_state import RunState
from advisor.pipeline.builds import build_limits
from advisor.pipeline.builds.build_queue import BuildQueue, has_new_arm, order_builds
from advisor.pipeline.recorder import Recorder
from advisor.pipeline.stored import remaining
from advisor.pipeline.stored.arms import (
    arms_built_before,
    controls,
    next_process_number,
    plan_of,
)
from advisor.pipeline.stored.baseline_failure import baseline_error, has_reference
from advisor.probing.session import Session
from probes.wire.outcome import Failure

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
            plan_of(state).baseline, next_process_number(state, REFERENCE)
        )
    yield from session.start(
        [
            (arm, next_process_number(state, arm.id))
            for arm in arms
            if not session.is_running(arm.id)
        ],
        built=arms_built_before(state),
    )


def _build_in_turn(
    session: Session, recorder: Recorder, arms: Sequence[Arm], question: Question
) -> Iterator[LoggedEvent]:
    """Build and warm up one arm after the other within the build limits.

    Stop when memory is short and a new arm is built: the other arms wait for the next group.
    """
    baseline = plan_of(recorder.state).baseline
    for arm in arms:
        if has_new_arm(session, recorder.state) and not session.has_memory_headroom():
            return
        limit = build_limits.limit_or_skip(recorder.state, arm, question)
        if isinstance(limit, Failure):
            yield from recorder.record_each(session.drop(arm.id, limit))
            continue
        yield from recorder.record_each(session.build(arm.id, limit))
        if arm == baseline and not session.is_running(arm.id):
            raise baseline_error(recorder.state, arm.id)


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
    for arm, failure in queue.skipped:
        number = next_process_number(recorder.state, arm.id)
        yield from recorder.record_each(session.drop(arm.id, failure, number))
    for arm in arms:
        if session.is_prepared(arm.id):
            yield from recorder.record_each(session.build(arm.id))
