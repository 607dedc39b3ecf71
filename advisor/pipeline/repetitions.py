"""Measure the leaders again in fresh processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.domain.catalogue import VisitQualityLimits
from advisor.domain.outcome import Completed
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run_events import LoggedEvent, RepetitionStarted, RunEvent
from advisor.domain.run_state import RunState
from advisor.pipeline import racing, replay
from advisor.pipeline.arms import arms_by_speed, plan_of
from advisor.pipeline.recorder import Recorder
from advisor.probing.session import Session

#: Rounds of each batch size in a repetition.
REPEAT_ROUNDS = 7
#: Fewest arms of a repetition: the baseline and one arm to compare with it.
FEWEST_ARMS = 2


def arms_to_repeat(state: RunState, question: Question) -> tuple[Arm, ...]:
    """Return the baseline and, for each batch size, the arms that were not eliminated.

    Each batch size contributes at least its two fastest arms.
    """
    races = replay.results_by_batch_size(state, question)
    chosen = {plan_of(state).baseline.id}
    for size, race in races.items():
        fastest = arms_by_speed(races, state, size)[:2]
        chosen |= {race.best, *race.tied, *race.unresolved, *fastest}
    return tuple(arm for arm in plan_of(state).arms if arm.id in chosen)


def repeat_leaders(
    session: Session, recorder: Recorder, question: Question, limits: VisitQualityLimits
) -> Iterator[LoggedEvent]:
    """Measure the leaders again in fresh processes that start with warm caches."""
    for number in range(1, question.budget.repeats + 1):
        if is_repetition_complete(recorder.state, number, question):
            continue
        if number not in recorder.state.repeats:
            arms = arms_to_repeat(recorder.state, question)
            if len(arms) < FEWEST_ARMS:
                return
            started = RepetitionStarted(repeat=number, arms=tuple(arm.id for arm in arms))
            yield recorder.record(started)
        yield from _repeat_in_groups(session, recorder, number, question, limits)


def _repeat_in_groups(
    session: Session,
    recorder: Recorder,
    number: int,
    question: Question,
    limits: VisitQualityLimits,
) -> Iterator[LoggedEvent]:
    """Make one repetition in groups that fit in memory, each with the baseline.

    Rounds are numbered on from group to group. Without a shortage there is one group.
    """
    plan, repeated, first_round = plan_of(recorder.state), recorder.state.repeats[number], 1
    waiting = [arm for arm in plan.arms if arm.id in repeated and arm != plan.baseline]
    starting = [plan.baseline, *waiting]
    while waiting:
        numbered = [(arm, len(recorder.state.processes.get(arm.id, ()))) for arm in starting]
        yield from recorder.record_each(session.start(numbered, repeat=number, built=repeated))
        group, starting = [plan.baseline], [plan.baseline]
        yield from recorder.record_each(session.build(plan.baseline.id))
        while waiting and (
            not any(session.is_running(arm.id) for arm in group[1:])
            or session.has_memory_headroom()
        ):
            group.append(waiting.pop(0))
            yield from recorder.record_each(session.build(group[-1].id))
        rounds = range(first_round, first_round + REPEAT_ROUNDS)
        yield from recorder.record_each(_visit_in_turn(session, group, rounds, question, limits))
        yield from recorder.record_each(session.stop({arm.id for arm in group}))
        first_round += REPEAT_ROUNDS


def _visit_in_turn(
    session: Session,
    arms: Sequence[Arm],
    rounds: range,
    question: Question,
    limits: VisitQualityLimits,
) -> Iterator[RunEvent]:
    """Visit every arm in each round.

    The order rotates from round to round: an arm does not always follow the same other arm.
    """
    counts = racing.DiscardCounts(limits)
    for size in question.batch_sizes:
        for number in rounds:
            for position in range(len(arms)):
                arm = arms[(position + number) % len(arms)].id
                if session.is_running(arm):
                    yield from racing.measure_visit(session, arm, size, number, counts)


def is_repetition_complete(state: RunState, number: int, question: Question) -> bool:
    """Return whether every arm of a repetition has made all its visits or has failed."""
    if number not in state.repeats:
        return False
    for arm in state.repeats[number]:
        processes = [
            process for process in state.processes.get(arm, ()) if process.repeat == number
        ]
        if not processes or processes[-1].outcome is None:
            return False
        if isinstance(processes[-1].outcome, Completed) and len(
            processes[-1].visits
        ) < REPEAT_ROUNDS * len(question.batch_sizes):
            return False
    return True
