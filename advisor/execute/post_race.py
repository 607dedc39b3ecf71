"""Measure raced workers further: sustained calls, profiles, shapes that were not built.

These steps would disturb a race, so they follow it.
"""

from __future__ import annotations

from collections.abc import Iterator

from advisor.decide.race import results_by_shape
from advisor.decide.rounds import arms_by_speed
from advisor.domain.run_events import RunEvent
from advisor.execute import racing, remaining
from advisor.execute.active_run import ActiveRun
from advisor.execute.repetitions import build_ahead, excluded_by_declaration, leaders_of
from probes.commands import Diagnose, Sustain

#: Order in which the two fastest arms are sustained: an even drift affects both alike.
ABBA = (0, 1, 1, 0)
#: Of so many equal parts of the remaining time, new shapes have one if the leaders alone try any.
PARTS_OF_TIME = 3


def measure_further(active: ActiveRun) -> Iterator[RunEvent]:
    """Sustain the two fastest arms, then profile those that run, duplicates excepted.

    These are all arms or, if the budget says so, the leaders of the decision so far. The leaders
    then try new shapes.
    """
    pool, question, plan = active.pool, active.question, active.state.plan
    chosen = plan.arms
    if question.budget.skips_losing_arms and not question.all_arms:
        chosen = leaders_of(active.answer(), plan)
    arms = [each.id for each in chosen if pool.is_running(each.id) and each.duplicate_of is None]
    yield from sustain_fastest(active)
    for arm in arms:
        yield from profile(active, arm)
    build_ahead(active)
    yield from _try_shapes_of_leaders(active)
    yield from pool.run_until(lambda: not pool.standbys.are_building(), end=active.time.end)
    if pool.standbys.are_building():  # too late for a repetition
        pool.standbys.end_all()


def _try_shapes_of_leaders(active: ActiveRun) -> Iterator[RunEvent]:
    """Let the leaders try one batch size and one length that were not built.

    The results may make other arms lead. The new leaders try shapes too, until every leader has
    tried some or the time is spent. Otherwise a declared fact that a trial would have refuted could
    make an arm lead, or exclude it by a constraint.
    """
    session, pool, budget = active.session, active.pool, active.question.budget
    limit, tried = budget.new_shape_seconds, set[str]()
    if limit > 0 and not active.time.is_over():
        running = [each.id for each in active.state.plan.arms if pool.is_running(each.id)]
        yield from session.check(running)
    # Most of the time that is left is for the repetition.
    trials = active.time.share_of(0, PARTS_OF_TIME).within(budget.all_new_shapes_seconds)
    while limit > 0 and not trials.is_over() and limit <= active.time.left():
        answer, plan = active.answer(), active.state.plan
        arms = [*leaders_of(answer, plan), *excluded_by_declaration(answer, plan)]
        running = [each.id for each in arms if pool.is_running(each.id)]
        untried = [arm for arm in running if arm not in tried]
        if not untried:
            return
        # The processors of a CPU are shared with the calls that are tried.
        together = untried[:1] if active.question.device == "cpu" else untried
        tried.update(together)
        yield from session.try_new_shapes(together, limit)


def free_memory(active: ActiveRun) -> Iterator[RunEvent]:
    """Profile and stop the raced workers that the next group does not need; end standbys.

    The leaders of several shapes are stopped too, except for the first, while memory is short
    or an arm that waits has run out of memory while they were resident.
    """
    question = active.question
    active.pool.standbys.end_all()
    waiting = remaining.waiting_arms(active.state, question)
    kept = remaining.retained(active.state, question) | waiting
    for arm in racing.raceable_arms(active):
        if arm not in kept:
            yield from profile_and_stop(active, arm)
    for arm in reversed(remaining.leaders_to_keep(active.state, question)[1:]):
        has_crowded_out = waiting & remaining.oom_beside_others(active.state)
        if has_crowded_out or not active.pool.headroom.fits_another_worker():
            yield from profile_and_stop(active, arm)


def profile_and_stop(active: ActiveRun, arm: str) -> Iterator[RunEvent]:
    yield from profile(active, arm)
    yield from active.session.stop({arm})


def profile(active: ActiveRun, arm: str) -> Iterator[RunEvent]:
    """Profile an arm; then, if the budget asks for it, try shapes that were not built.

    Neither begins after the end of the run. The worker can only be stopped after these shapes.
    """
    pool, budget = active.pool, active.question.budget
    if not active.time.is_over() and pool.is_running(arm):
        yield from pool.send_and_wait([arm], Diagnose())
    if budget.new_shapes and not active.time.is_over() and pool.is_running(arm):
        yield from active.session.try_new_shapes([arm])


def sustain_fastest(active: ActiveRun) -> Iterator[RunEvent]:
    """Call the two fastest arms at the largest shape without pauses, one after the other.

    Sustained calls may reach a limit of power or heat that the pauses of the race hide.
    """
    question, state = active.question, active.state
    shape = max(question.shapes)
    pair = arms_by_speed(results_by_shape(state, question), state, shape)[:2]
    seconds, left = question.budget.sustained_seconds, active.time.left()
    if not 0 < seconds <= left or len(pair) < len(set(ABBA)):
        return
    for index in ABBA:
        if active.pool.is_running(pair[index]):
            command = Sustain(shape, seconds / len(ABBA))
            yield from active.session.measure_energy(pair[index], shape, command)
