"""When the builds pause for a race, and when no further arm is built."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.decide.rounds import controls, failed_arms, raced_arms
from advisor.domain.catalogue import BuildPresets
from advisor.domain.plan import REFERENCE
from advisor.execute.recorder import RaceContext
from advisor.probing.side_by_side import SideBySideBuilds

#: A race waits so long for arms that are built and whose outputs are checked.
CHECK_SECONDS = 20.0


def is_over(context: RaceContext) -> bool:
    """Return whether no further arm is built.

    The build of a workflow that has no figure yet may go on for half of the time of the
    repetitions: it can change the answer more. A run goes on for as long again until an arm of
    another workflow than the baseline's is built, if there is any.
    """
    state = context.state
    plan = state.plan
    arms = {arm.id for arm in plan.arms if arm.id not in controls(state)}
    others = {arm.id for arm in plan.arms if arm.workflow != plan.baseline.workflow}
    rivals = others - failed_arms(state) or arms
    if rivals & {*raced_arms(state), *_ready_arms(context)}:
        late = (context.races_end + context.end) / 2
        return context.clock() >= (late if _builds_new_workflow(context) else context.races_end)
    return context.clock() >= context.end + context.seconds


def _ready_arms(context: RaceContext) -> list[str]:
    """Return the arms that are built and have not raced, the controls excepted."""
    session, state = context.session, context.state
    known = raced_arms(state) | controls(state)
    built = [
        arm.id
        for arm in state.plan.arms
        if session.is_running(arm.id)
        and (session.is_prepared(arm.id) or session.is_warmed_up(arm.id))
    ]
    is_comparable = state.plan.baseline.id in built
    return [arm for arm in built if arm not in known and is_comparable]


def _builds_new_workflow(context: RaceContext) -> bool:
    """Return whether an arm is being built of whose workflow none is."""
    arms = context.state.plan.arms
    built = {*raced_arms(context.state), *_ready_arms(context)}
    known = {arm.workflow for arm in arms if arm.id in built}
    return any(context.session.is_building(arm.id) for arm in arms if arm.workflow not in known)


def _is_built(context: RaceContext, arm: str) -> bool:
    """Return whether the running build of the arm is done but for the check of its outputs."""
    processes = context.state.processes.get(arm, ())
    return bool(processes) and len(processes[-1].built) == len(context.question.shapes)


class RacePause:
    """When the builds pause for a race.

    The first race waits until all early arms are built or have failed, later ones for the interval
    of the presets; both only if an arm is ready.
    """

    def __init__(
        self,
        context: RaceContext,
        builds: SideBySideBuilds,
        early: Sequence[str],
        presets: BuildPresets,
    ) -> None:
        self._context = context
        self._builds = builds
        self._early = early
        is_first = not context.state.groups
        seconds = presets.first_race_seconds if is_first else presets.race_interval_seconds
        self._waits_for_early = is_first
        self._due = context.clock() + seconds

    def is_due(self) -> bool:
        """Return whether the builds pause now."""
        context, baseline = self._context, self._context.state.plan.baseline.id
        session = context.session
        has_failed = session.has_started(baseline) and not session.is_running(baseline)
        if has_failed or session.has_failed(REFERENCE):
            return True
        is_checked = any(_is_built(context, arm) for arm in self._builds.running)
        if is_checked and context.clock() < min(self._due + CHECK_SECONDS, context.end):
            return False
        if is_over(context):
            return True
        if not _ready_arms(context):
            return False
        return self._context.clock() >= self._due or (
            self._waits_for_early and all(map(self._is_settled, self._early))
        )

    def _is_settled(self, arm: str) -> bool:
        session = self._context.session
        return session.has_started(arm) and (
            not session.is_running(arm) or session.is_prepared(arm) or session.is_warmed_up(arm)
        )
