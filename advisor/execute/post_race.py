"""Measure raced workers further: sustained calls, profiles, shapes that were not built.

These steps would disturb a race, so they follow it.

Before them a workflow adds the arms that it has for what the run finds of the model.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from advisor.ask.planning import is_chosen, list_arms, unsupported_use
from advisor.decide.race import results_by_shape
from advisor.decide.rounds import arms_by_speed
from advisor.domain.plan import REFERENCE
from advisor.domain.question import Question
from advisor.domain.run_events import ArmsAdded, LoggedEvent, RunEvent
from advisor.domain.run_state import Header, RunState
from advisor.domain.workflow import Workflow
from advisor.execute import build_limits, racing, remaining
from advisor.execute.repetitions import excluded_by_declaration, leaders_of
from advisor.execute.run_in_progress import RunInProgress
from advisor.probing.session import WorkerSession
from advisor.store.store import Store

#: Order in which the two fastest arms are sustained: an even drift affects both alike.
ABBA = (0, 1, 1, 0)
#: Share of the time that is left in which new shapes are tried, where the leaders alone try any.
SHARE_OF_NEW_SHAPES = 1 / 3
#: A vision transformer has one layer that convolves images, which cuts them into patches.
LEAST_CONVOLUTIONS = 2


def measure_further(progress: RunInProgress) -> Iterator[LoggedEvent]:
    """Sustain the two fastest arms, then profile every arm that runs, duplicates excepted.

    A budget can limit this to the leaders of the decision so far. They then try new shapes.
    """
    session, recorder, question = progress.session, progress.recorder, progress.question
    plan = recorder.state.plan
    chosen = plan.arms
    if question.budget.contenders_only and not question.all_arms:
        chosen = leaders_of(progress.evaluate(recorder.state), plan)
    arms = [arm.id for arm in chosen if session.is_running(arm.id) and arm.duplicate_of is None]
    yield from recorder.record_each(sustain_fastest(progress))
    for arm in arms:
        yield from recorder.record_each(profile(session, arm, question))
    yield from _try_shapes_of_leaders(progress)


def _try_shapes_of_leaders(progress: RunInProgress) -> Iterator[LoggedEvent]:
    """Let the leaders try one batch size and one length that were not built.

    The results may make other arms lead. The new leaders try shapes too, until every leader has
    tried some or the time is spent. Otherwise a declared fact that a trial would have refuted could
    make an arm lead, or exclude it by a constraint.
    """
    session, budget = progress.session, progress.question.budget
    limit, tried = budget.new_shape_seconds, set[str]()
    if limit > 0 and progress.clock() < progress.end:
        running = [arm.id for arm in progress.state.plan.arms if session.is_running(arm.id)]
        yield from progress.recorder.record_each(session.check(running))
    # Most of the time that is left is for the repetition.
    left = SHARE_OF_NEW_SHAPES * (progress.end - progress.clock())
    end = progress.clock() + min(budget.all_new_shapes_seconds, left)
    while limit > 0 and progress.clock() < end:
        answer, plan = progress.evaluate(progress.state), progress.state.plan
        arms = [*leaders_of(answer, plan), *excluded_by_declaration(answer, plan)]
        running = [arm.id for arm in arms if session.is_running(arm.id)]
        untried = next((arm for arm in running if arm not in tried), None)
        if untried is None:
            return
        tried.add(untried)
        yield from progress.recorder.record_each(session.try_new_shapes(untried, limit))


def free_memory(progress: RunInProgress) -> Iterator[LoggedEvent]:
    """Profile and stop the raced workers that the next group does not need.

    The leaders of several shapes are stopped too, except for the first, while memory is short
    or an arm that waits has run out of memory while they were resident.
    """
    session, recorder, question = progress.session, progress.recorder, progress.question
    waiting = remaining.waiting_arms(recorder.state, question)
    kept = remaining.retained(recorder.state, question) | waiting
    for arm in [
        arm.id for arm in racing.warmed_up_arms(session, recorder.state) if arm.id not in kept
    ]:
        yield from recorder.record_each(profile_and_stop(session, arm, question))
    for arm in reversed(remaining.leaders_to_keep(recorder.state, question)[1:]):
        has_crowded_out = waiting & remaining.oom_beside_others(recorder.state)
        if has_crowded_out or not session.has_memory_headroom():
            yield from recorder.record_each(profile_and_stop(session, arm, question))


def profile_and_stop(session: WorkerSession, arm: str, question: Question) -> Iterator[RunEvent]:
    yield from profile(session, arm, question)
    yield from session.stop({arm})


def profile(session: WorkerSession, arm: str, question: Question) -> Iterator[RunEvent]:
    """Profile an arm; then, if the budget asks for it, try shapes that were not built.

    The worker ends after these shapes.
    """
    if session.is_running(arm):
        yield from session.send_and_wait(arm, "diagnose")
    if question.budget.new_shapes and session.is_running(arm):
        yield from session.try_new_shapes(arm)


def sustain_fastest(progress: RunInProgress) -> Iterator[RunEvent]:
    """Call the two fastest arms at the largest shape without pauses, one after the other.

    Sustained calls may reach a limit of power or heat that the pauses of the race hide.
    """
    session, question, state = progress.session, progress.question, progress.state
    shape = max(question.shapes)
    pair = arms_by_speed(results_by_shape(state, question), state, shape)[:2]
    if question.budget.sustained_seconds <= 0 or len(pair) < len(set(ABBA)):
        return
    for index in ABBA:
        if session.is_running(pair[index]):
            seconds = question.budget.sustained_seconds / len(ABBA)
            yield from session.measure_energy(pair[index], shape, f"sustain {shape} {seconds}")


def arms_to_add(state: RunState, header: Header, store: Store) -> list[ArmsAdded]:
    """Return the further arms that what was found calls for, with the reason."""
    planned = {arm.workflow: arm for arm in state.plan.arms}
    known = {arm.id for arm in state.plan.arms}
    found = []
    for workflow in header.catalogue.workflows:
        if workflow.id not in planned:
            continue
        for finding, because in _findings(state, workflow).items():
            arms = [
                msgspec.structs.replace(arm, python=planned[workflow.id].python)
                for arm in list_arms(workflow, header.question.device)
                if workflow.arms_after.get(arm.option) == finding
                and arm.id not in known
                and is_chosen(arm, header.question.workflows)
                and unsupported_use(workflow, arm, header.question) is None
            ]
            if arms:
                added = build_limits.with_expected_builds(arms, header, store)
                found.append(ArmsAdded(added=added, because=because))
    return found


def _findings(state: RunState, workflow: Workflow) -> dict[str, str]:
    """Return what was found of those for which the workflow has arms, with the words for it."""
    found, varying = {}, _varying_arm(state, workflow)
    if varying is not None:
        found["nondeterministic"] = f"the outputs of {varying} vary"
    references = state.processes.get(REFERENCE, ())
    loaded = references[-1].loaded if references else None
    if loaded is not None and loaded.convolutions >= LEAST_CONVOLUTIONS:
        found["convolutions"] = f"the model has {loaded.convolutions} layers that convolve images"
    return found


def _varying_arm(state: RunState, workflow: Workflow) -> str | None:
    """Return the first arm of the workflow whose outputs vary."""
    for arm in state.plan.arms:
        processes = state.processes.get(arm.id, ()) if arm.workflow == workflow.id else ()
        if any(process.failed_with("nondeterministic") for process in processes):
            return arm.id
    return None
