"""Measure raced workers further: sustained calls, profiles, shapes that were not built.

These steps would disturb a race, so they follow it.
"""

from __future__ import annotations

from collections.abc import Iterator

from advisor.decide.race import results_by_shape
from advisor.decide.rounds import arms_by_speed
from advisor.domain.run_events import RunEvent
from advisor.execute import racing, remaining
from advisor.execute.repetitions import build_ahead, excluded_by_declaration, leaders_of
from advisor.execute.run_in_progress import RunInProgress

#: Order in which the two fastest arms are sustained: an even drift affects both alike.
ABBA = (0, 1, 1, 0)
#: Share of the remaining time for new shapes, if the leaders alone try any.
SHARE_OF_NEW_SHAPES = 1 / 3


def measure_further(progress: RunInProgress) -> Iterator[RunEvent]:
    """Sustain the two fastest arms, then profile those that run, duplicates excepted.

    These are all arms or, if the budget says so, the leaders of the decision so far. The leaders
    then try new shapes.
    """
    session, question = progress.session, progress.question
    plan = progress.state.plan
    chosen = plan.arms
    if question.budget.skips_losing_arms and not question.all_arms:
        chosen = leaders_of(progress.answer(), plan)
    arms = [each.id for each in chosen if session.is_running(each.id) and each.duplicate_of is None]
    yield from sustain_fastest(progress)
    for arm in arms:
        yield from profile(progress, arm)
    build_ahead(progress)
    yield from _try_shapes_of_leaders(progress)
    yield from session.run_until(lambda: not session.builds_standbys(), end=progress.end)
    if session.builds_standbys():  # too late for a repetition
        session.kill_standbys()


def _try_shapes_of_leaders(progress: RunInProgress) -> Iterator[RunEvent]:
    """Let the leaders try one batch size and one length that were not built.

    The results may make other arms lead. The new leaders try shapes too, until every leader has
    tried some or the time is spent. Otherwise a declared fact that a trial would have refuted could
    make an arm lead, or exclude it by a constraint.
    """
    session, budget = progress.session, progress.question.budget
    limit, tried = budget.new_shape_seconds, set[str]()
    if limit > 0 and progress.clock() < progress.end:
        running = [each.id for each in progress.state.plan.arms if session.is_running(each.id)]
        yield from session.check(running)
    # Most of the time that is left is for the repetition.
    left = SHARE_OF_NEW_SHAPES * (progress.end - progress.clock())
    end = progress.clock() + min(budget.all_new_shapes_seconds, left)
    while limit > 0 and progress.clock() < end and progress.clock() + limit <= progress.end:
        answer, plan = progress.answer(), progress.state.plan
        arms = [*leaders_of(answer, plan), *excluded_by_declaration(answer, plan)]
        running = [each.id for each in arms if session.is_running(each.id)]
        untried = [arm for arm in running if arm not in tried]
        if not untried:
            return
        # The processors of a CPU are shared with the calls that are tried.
        together = untried[:1] if progress.question.device == "cpu" else untried
        tried.update(together)
        yield from session.try_new_shapes(together, limit)


def free_memory(progress: RunInProgress) -> Iterator[RunEvent]:
    """Profile and stop the raced workers that the next group does not need; end standbys.

    The leaders of several shapes are stopped too, except for the first, while memory is short
    or an arm that waits has run out of memory while they were resident.
    """
    question = progress.question
    progress.session.kill_standbys()
    waiting = remaining.waiting_arms(progress.state, question)
    kept = remaining.retained(progress.state, question) | waiting
    for arm in racing.raceable_arms(progress):
        if arm not in kept:
            yield from profile_and_stop(progress, arm)
    for arm in reversed(remaining.leaders_to_keep(progress.state, question)[1:]):
        has_crowded_out = waiting & remaining.oom_beside_others(progress.state)
        if has_crowded_out or not progress.session.headroom.fits_another_worker():
            yield from profile_and_stop(progress, arm)


def profile_and_stop(progress: RunInProgress, arm: str) -> Iterator[RunEvent]:
    yield from profile(progress, arm)
    yield from progress.session.stop({arm})


def profile(progress: RunInProgress, arm: str) -> Iterator[RunEvent]:
    """Profile an arm; then, if the budget asks for it, try shapes that were not built.

    Neither begins after the end of the run. The worker can only be stopped after these shapes.
    """
    session, budget = progress.session, progress.question.budget
    if progress.clock() < progress.end and session.is_running(arm):
        yield from session.send_and_wait(arm, "diagnose")
    if budget.new_shapes and progress.clock() < progress.end and session.is_running(arm):
        yield from session.try_new_shapes([arm])


def sustain_fastest(progress: RunInProgress) -> Iterator[RunEvent]:
    """Call the two fastest arms at the largest shape without pauses, one after the other.

    Sustained calls may reach a limit of power or heat that the pauses of the race hide.
    """
    session, question, state = progress.session, progress.question, progress.state
    shape = max(question.shapes)
    pair = arms_by_speed(results_by_shape(state, question), state, shape)[:2]
    seconds, left = question.budget.sustained_seconds, progress.end - progress.clock()
    if not 0 < seconds <= left or len(pair) < len(set(ABBA)):
        return
    for index in ABBA:
        if session.is_running(pair[index]):
            command = f"sustain {shape} {seconds / len(ABBA)}"
            yield from session.measure_energy(pair[index], shape, command)
