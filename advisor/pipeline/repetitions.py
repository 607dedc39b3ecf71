"""What follows the race: the leaders in fresh processes, the best two without a pause, a look inside, and shapes that were not built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from advisor import measure
from advisor.domain.catalogue import GuardRules
from advisor.domain.measurement import RaceResult
from advisor.domain.outcome import Completed
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run_events import Repeated, RunEvent
from advisor.domain.run_state import RunState
from advisor.pipeline import racing, remaining, replay
from advisor.pipeline.arms import plan_of
from advisor.probing.session import Session

#: Rounds of each batch size in a repetition.
REPEAT_ROUNDS = 7
#: The order in which the best two take turns: what drifts evenly meets both alike.
ABBA = (0, 1, 1, 0)


def look_closer(
    session: Session, state: Callable[[], RunState], question: Question
) -> Iterator[RunEvent]:
    """Do with the workers that have raced what would have disturbed the race: sustained calls, profiler, new shapes."""
    arms = [
        arm.id
        for arm in plan_of(state()).arms
        if session.is_running(arm.id) and arm.duplicate_of is None
    ]
    yield from sustain(session, state(), question)
    for arm in arms:
        yield from profile(session, arm, question)


def make_room(
    session: Session, state: Callable[[], RunState], question: Question
) -> Iterator[RunEvent]:
    """End the workers that have raced and are not needed by those that wait for memory; look inside them before.

    Of several bests all but one go, the last first, while there is no room, or where somebody has
    run out of memory beside them.
    """
    waiting = remaining.waiting_arms(state(), question)
    kept = remaining.retained(state(), question) | waiting
    for arm in [arm.id for arm in racing.built_arms(session, state()) if arm.id not in kept]:
        yield from profile_and_stop(session, arm, question)
    for arm in reversed(remaining.leaders_to_keep(state(), question)[1:]):
        if waiting & remaining.oom_beside_others(state()) or not session.has_room():
            yield from profile_and_stop(session, arm, question)


def profile_and_stop(session: Session, arm: str, question: Question) -> Iterator[RunEvent]:
    yield from profile(session, arm, question)
    yield from session.stop({arm})


def profile(session: Session, arm: str, question: Question) -> Iterator[RunEvent]:
    """Profile an arm and, if asked for, try shapes that were not built, after which it has ended."""
    if session.is_running(arm):
        yield from session.ask(arm, "diagnose")
    if question.budget.new_shapes and session.is_running(arm):
        yield from session.ask(arm, "flex")


def sustain(session: Session, state: RunState, question: Question) -> Iterator[RunEvent]:
    """Call the best two at the largest batch size without a pause, in turn: alone, an arm may reach a limit that turns hid."""
    size = max(question.batch_sizes)
    pair = leaders(replay.results_by_batch_size(state, question), state, size)[:2]
    if question.budget.sustained_seconds <= 0 or len(pair) < len(set(ABBA)):
        return
    for place in ABBA:
        if session.is_running(pair[place]):
            yield from session.sustain(
                pair[place], size, question.budget.sustained_seconds / len(ABBA)
            )


def leaders(races: Mapping[int, RaceResult], state: RunState, batch_size: int) -> list[str]:
    """Return the arms that still count by their speed at a batch size, fastest first."""
    race = races.get(batch_size)
    if race is None:
        return []
    speedups = measure.mean_log_speedups(state, batch_size)
    ahead = [race.best, *(arm for arm in (*race.tied, *race.unresolved) if arm != race.best)]
    return [
        *ahead,
        *sorted((arm for arm in speedups if arm not in ahead), key=lambda arm: -speedups[arm]),
    ]


def finalists(state: RunState, question: Question) -> tuple[Arm, ...]:
    """Return the arms to repeat: the baseline, and for each batch size whoever is not shown slower, at least two."""
    races = replay.results_by_batch_size(state, question)
    chosen = {plan_of(state).baseline.id}
    for size, race in races.items():
        chosen |= {race.best, *race.tied, *race.unresolved, *leaders(races, state, size)[:2]}
    return tuple(arm for arm in plan_of(state).arms if arm.id in chosen)


def repeat(
    session: Session, state: Callable[[], RunState], question: Question, rules: GuardRules
) -> Iterator[RunEvent]:
    """Measure the leaders again in fresh processes that start from warm caches."""
    for number in range(1, question.budget.repeats + 1):
        if is_complete(state(), number, question):
            continue
        if number not in state().repeats:
            arms = finalists(state(), question)
            if len(arms) < 2:  # noqa: PLR2004 - the baseline alone has nothing to be compared with
                return
            yield Repeated(repeat=number, arms=tuple(arm.id for arm in arms))
        yield from _repeat_in_groups(session, state, number, question, rules)


def _repeat_in_groups(
    session: Session,
    state: Callable[[], RunState],
    number: int,
    question: Question,
    rules: GuardRules,
) -> Iterator[RunEvent]:
    """Make one repetition: with all its arms at once, or where memory is short in groups, each with the baseline; rounds are counted on."""
    plan, wanted, first_round = plan_of(state()), state().repeats[number], 1
    waiting = [arm for arm in plan.arms if arm.id in wanted and arm != plan.baseline]
    starting = [plan.baseline, *waiting]
    while waiting:
        yield from session.start(
            [(arm, len(state().processes.get(arm.id, ()))) for arm in starting],
            repeat=number,
            built=wanted,
        )
        group, starting = [plan.baseline], [plan.baseline]
        yield from session.build(plan.baseline.id)
        while waiting and (
            not any(session.is_running(arm.id) for arm in group[1:]) or session.has_room()
        ):
            group.append(waiting.pop(0))
            yield from session.build(group[-1].id)
        yield from _visit_in_turn(
            session, group, range(first_round, first_round + REPEAT_ROUNDS), question, rules
        )
        yield from session.stop({arm.id for arm in group})
        first_round += REPEAT_ROUNDS


def _visit_in_turn(
    session: Session, arms: Sequence[Arm], rounds: range, question: Question, rules: GuardRules
) -> Iterator[RunEvent]:
    discards = racing.Discards(rules)
    for size in question.batch_sizes:
        for number in rounds:
            # The order turns with the round, so that nobody always follows the same neighbour.
            for place in range(len(arms)):
                arm = arms[(place + number) % len(arms)].id
                if session.is_running(arm):
                    yield from racing.make_visit(session, arm, size, number, discards)


def is_complete(state: RunState, number: int, question: Question) -> bool:
    """Say whether every arm of a repetition has made its visits or has ended otherwise."""
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
