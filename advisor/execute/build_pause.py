"""When the builds that go on side by side pause for a race."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.domain.plan import REFERENCE, Arm
from advisor.execute.active_run import ActiveRun, TimeSpan
from advisor.execute.build_rules import builds_are_over, may_end_by, missing_shapes, unraced_arms
from advisor.execute.remaining import skips_losing_arms
from advisor.probing.side_by_side import SideBySideBuilds


class BuildPause:
    """When the builds pause for a race.

    The first race waits until all early arms are built or have failed, or until its time in the
    run. Later ones wait for the interval of the presets while a build may end in it. Both need an
    arm that is ready, and wait a little for arms that are nearly built. No race waits for an arm
    whose build it may save, because another arm of the workflow is ready, unless only the check of
    its outputs is missing: it would need a race of its own.
    """

    def __init__(self, active: ActiveRun, builds: SideBySideBuilds, early: Sequence[str]) -> None:
        self._active = active
        self._builds = builds
        self._early = early
        self._is_first = not active.state.has_raced
        self._presets = active.presets.builds
        clock, now = active.time.clock, active.time.clock()
        self._due = TimeSpan(clock, now, self._presets.race_interval_seconds)
        if self._is_first:
            self._due = TimeSpan(clock, now - active.state.at, self._presets.first_race_seconds)
        #: Until when a race that is due waits for arms that are nearly built.
        self._last: TimeSpan = active.time

    def is_due(self) -> bool:
        active, baseline = self._active, self._active.state.plan.baseline.id
        pool = active.pool
        has_failed = pool.has_started(baseline) and not pool.is_running(baseline)
        if has_failed or pool.has_failed(REFERENCE):
            return True
        if not builds_are_over(active) and not self._is_worth_a_race():
            return False
        self._last = self._last.within(self._presets.nearly_built_seconds)
        running = self._awaited_arms()
        may_wait = any(map(self._is_nearly_built, running)) or self._expects_others(running)
        return self._last.is_over() or not may_wait

    def _is_worth_a_race(self) -> bool:
        active = self._active
        if not unraced_arms(active):
            return False
        if self._due.is_over():
            return True
        if self._is_first:
            running = {each.id for each in self._awaited_arms()}
            has_started = active.pool.has_started
            return all(has_started(arm) and arm not in running for arm in self._early)
        return not any(may_end_by(self._due, each, active) for each in self._awaited_arms())

    def _awaited_arms(self) -> list[Arm]:
        active = self._active
        arms, ready = active.state.plan.arms, {*unraced_arms(active)}
        running = [each for each in arms if each.id in self._builds.running]
        if not skips_losing_arms(active.question):
            return running
        rivals = [each for each in arms if each.id in ready]
        needed = active.state.baselines
        return [
            each
            for each in running
            if each.id in needed
            or missing_shapes(active, each.id) == 0
            # A race of one may show that another arm of its workflow cannot lead.
            or not any(
                one.workflow == each.workflow and _rank_by_points(one) >= _rank_by_points(each)
                for one in rivals
            )
        ]

    def _is_nearly_built(self, planned: Arm) -> bool:
        """Return whether only the last shape or the check of the outputs is missing.

        A long build is nearly built when only the check is missing, and so is any for a first race
        that is due. On a GPU the pace of a build tells whether the first race waits for it.
        """
        missing = missing_shapes(self._active, planned.id)
        if missing and self._is_first and self._active.question.device != "cpu":
            return self._is_quick_so_far(planned, missing)
        is_short = planned.is_built_within(self._presets.first_race_seconds)
        is_late = self._is_first and self._due.is_over()
        is_last = missing == 1 and len(self._active.question.shapes) > 1
        return missing == 0 or (is_last and is_short and not is_late)

    def _is_quick_so_far(self, planned: Arm, missing: int) -> bool:
        """Return whether a build may end soon at the pace of its last or present shape.

        A race would suspend it, and would soon be followed by another one.
        """
        process = self._active.state.last_process(planned.id)
        now = self._due.clock() - self._due.start
        since = now if process.building_since is None else process.building_since
        last = [each.build_seconds for each in process.built.values()][-1:]
        end = max(now, since + max(now - since, *last, 0.0) * missing)
        # What a stack takes to import is no part of it.
        return process.phase in {"open", "build"} and end <= self._presets.quick_seconds

    def _expects_others(self, running: Sequence[Arm]) -> bool:
        """Return whether the first race would have more than variants if it waited a little.

        Variants are arms that the model calls for, such as those in another memory layout.
        """
        active = self._active
        ready, arms = {*unraced_arms(active)}, active.state.plan.arms
        return (
            self._is_first
            and all(each.called_for for each in arms if each.id in ready)
            and any(
                not each.called_for and may_end_by(self._last, each, active) for each in running
            )
        )


def _rank_by_points(planned: Arm) -> tuple[bool, float]:
    # Unlike `rank_of`, which says whether to start a build, this ignores the seconds of the builds:
    # one has ended, and the other runs.
    points = planned.possible_points
    return planned.called_for is not None, -math.inf if points is None else points
