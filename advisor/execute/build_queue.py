"""The order in which arms are built, which of them race first, and which wait for a build."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from advisor.domain.plan import Arm
from advisor.execute import build_rules, remaining
from advisor.execute.active_run import ActiveRun
from advisor.probing.side_by_side import NextBuild
from advisor.probing.worker_failures import skipped_by_user
from probes.outcome import Failure


def order_builds(arms: Sequence[Arm], active: ActiveRun) -> list[Arm]:
    """Return the arms in build order: among equals, those that promise most for their seconds.

    One arm of each workflow that has not raced precedes those of workflows that have a figure: an
    arm that the model calls for, if there is any.
    The duplicate precedes all others, because every race needs it, and arms of an open race precede
    those that wait for memory. Arms that must be built alone follow the others. Arms whose builds
    are expected to exceed their limit come last: they cannot change the answer.
    """
    state = active.state
    waiting = remaining.waiting_arms(state, active.question)
    out_of_memory = remaining.oom_beside_others(state)

    raced = state.raced_arms
    known = {each.workflow for each in state.plan.arms if each.id in raced}
    first: dict[str, str] = {}
    for each in sorted(arms, key=lambda each: build_rules.rank_of(each, active)):
        first[each.workflow] = each.id

    def place_of(planned: Arm) -> tuple[float, ...]:
        """Return what is compared first to last; what is false precedes what is true."""
        seconds = planned.expected_build_seconds
        limit = build_rules.payback_limit(planned.id, active)
        return (
            limit is not None and seconds is not None and seconds > limit.seconds,
            planned.duplicate_of is None,
            planned.builds_alone,
            planned.id in waiting,
            planned.id not in out_of_memory,
            planned.workflow in known or first[planned.workflow] != planned.id,
            -build_rules.promise_of(planned, active),
        )

    return sorted(arms, key=place_of)


def without_waiting(arms: Iterable[Arm], active: ActiveRun) -> list[Arm]:
    """Return the arms, in their order, that wait for no race of one before them."""
    chosen: list[Arm] = []
    for planned in arms:
        if not build_rules.waits_for_race(planned, chosen, active):
            chosen.append(planned)
    return chosen


def early_arms(active: ActiveRun, arms: Sequence[Arm]) -> Sequence[Arm]:
    """Return the arms that race first: those with short builds that wait for no other race.

    If no build is short, return all that wait for no race; after the first race, return all. An arm
    whose build time is not known is not early. The first arm of each workflow is early, and further
    ones only while they and the duplicate are fewer than the builds at once: the first answer waits
    for no build that would queue.
    """
    state = active.state
    if state.has_raced:
        return arms
    at_once = without_waiting(order_builds(arms, active), active)
    arms = [each for each in arms if each in at_once]
    baselines = [each for each in arms if each.id in state.baselines]
    most = active.presets.builds.early_seconds
    quick = [each for each in arms if each not in baselines and each.is_built_within(most)]
    if not quick:
        return arms
    first = {each.workflow: each.id for each in reversed(quick)}
    further = [each.id for each in quick if each.id not in first.values()]
    duplicates = [each for each in baselines if each.duplicate_of]
    free = max(0, active.builds_at_once - len(first) - len(duplicates))
    chosen = {*first.values(), *further[:free]}
    return [*baselines, *(each for each in quick if each.id in chosen)]


def arms_to_import(active: ActiveRun, arms: Sequence[Arm], early: Sequence[Arm]) -> Sequence[Arm]:
    """Return the arms whose builds will begin first; with one build at a time, the early ones.

    The duplicate is not one of them: its import has time beside the first builds.
    """
    if active.builds_at_once == 1:
        return early
    most = max(active.builds_at_once, len(active.state.baselines))
    later = order_builds([each for each in arms if each not in early], active)
    beside = [*early, *(each for each in later if not each.builds_alone)]
    beside.sort(key=lambda each: each.duplicate_of is not None)
    return without_waiting(beside, active)[:most]


@dataclasses.dataclass
class BuildQueue:
    """The arms that wait for a build; `next_step` starts, keeps or skips each of them."""

    active: ActiveRun
    waiting: list[Arm]
    builds_at_once: int
    #: Arms whose builds have ever started, in this order.
    started: list[Arm]
    #: Whether builds start before the first calls of the baseline show its memory.
    starts_at_once: bool = False
    #: Arms that are not built: the user skips them, or no time is left.
    skipped: list[tuple[Arm, Failure]] = dataclasses.field(default_factory=list)
    _has_started: bool = False

    def choose(self, running: int) -> NextBuild | None:
        """Return the next build; None while it has to wait, or when the others wait for a group."""
        for planned in tuple(self.waiting):
            step = build_rules.next_step(planned, self._other_builds(running), self.active)
            if isinstance(step, build_rules.WaitToBuild):
                if step.for_race:
                    continue
                return None
            self.waiting.remove(planned)
            if isinstance(step, build_rules.StartBuild):
                return self._start(planned, step)
            if step.failure is not None:
                self.skipped.append((planned, step.failure))
        return None

    def drop_user_skips(self) -> bool:
        """Take the arms that the user skips out of the queue; return whether there are any."""
        to_skip, is_running = self.active.to_skip, self.active.pool.is_running
        arms = [each for each in self.waiting if each.id in to_skip and not is_running(each.id)]
        self.skipped += [(each, skipped_by_user("start")) for each in arms]
        self.waiting = [each for each in self.waiting if each not in arms]
        return bool(arms)

    def _other_builds(self, running: int) -> build_rules.OtherBuilds:
        state, is_built = self.active.state, self.active.pool.is_built
        resident = self._resident_arms()
        unbuilt = [each for each in resident if not is_built(each.id)]
        return build_rules.OtherBuilds(
            unraced=[each for each in resident if each.id not in state.raced_arms],
            running=running,
            is_alone=any(build_rules.must_build_alone(each, state) for each in unbuilt),
            is_first=not self._has_started,
            wait_for_baseline=not self.starts_at_once,
        )

    def _start(self, planned: Arm, step: build_rules.StartBuild) -> NextBuild:
        state, is_running = self.active.state, self.active.pool.is_running(planned.id)
        expected_seconds_left = self._expected_seconds_left(planned)
        self._has_started = True
        self.started.append(planned)
        return NextBuild(
            planned,
            None if is_running else state.next_process_number(planned.id),
            step.limit,
            keeps_caches=planned.id in state.arms_built_before,
            expected_seconds_left=expected_seconds_left,
        )

    def _resident_arms(self) -> list[Arm]:
        """Return the arms whose builds run or have finished, and whose workers run."""
        return [each for each in self.started if self.active.pool.is_running(each.id)]

    def _expected_seconds_left(self, planned: Arm) -> float | None:
        pool = self.active.pool
        running = [each for each in self._resident_arms() if not pool.is_prepared(each.id)]
        seconds = [each.expected_build_seconds for each in (planned, *running, *self.waiting)]
        known = [each for each in seconds if each is not None]
        if len(known) < len(seconds):
            return None
        return round(max(*known, sum(known) / self.builds_at_once), 1)
