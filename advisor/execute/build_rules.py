"""Whether the next build starts, waits or is skipped, and when no further one starts.

`next_step` applies the rules in their order. They read a run and change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from advisor.decide.unmeasured import more_time
from advisor.domain.errors import OptionValueError
from advisor.domain.plan import Arm
from advisor.domain.run_state import Header, ProcessState, RunState
from advisor.domain.text import format_number, write_count, write_duration
from advisor.execute import racing, remaining
from advisor.execute.active_run import ActiveRun, TimeSpan
from advisor.probing.worker_process import BuildLimit
from probes.outcome import Failure
from probes.shape import Shape


class StartBuild(NamedTuple):
    """The build starts within the limit."""

    limit: BuildLimit | None


class WaitToBuild(NamedTuple):
    """The arm stays in the queue; only one that waits for a race may be overtaken."""

    #: False where it waits for memory, or for the first calls of the baseline.
    for_race: bool


class SkipBuild(NamedTuple):
    """The arm is not built."""

    #: Reason why the arm is not built; None for an arm whose worker has failed already.
    failure: Failure | None


BuildStep: TypeAlias = StartBuild | WaitToBuild | SkipBuild


class OtherBuilds(NamedTuple):
    """The builds beside which another one may start."""

    #: Arms whose builds run, or have finished and wait for a race.
    unraced: Sequence[Arm] = ()
    running: int = 0
    #: Whether the one that runs must be alone.
    is_alone: bool = False
    #: Whether none was started since the last race.
    is_first: bool = True
    #: Whether the others wait until the first calls of the baseline show its memory.
    wait_for_baseline: bool = False


def next_step(planned: Arm, others: OtherBuilds, active: ActiveRun) -> BuildStep:
    """Return what happens with the build of this arm now."""
    state, pool = active.state, active.pool
    if waits_for_race(planned, others.unraced, active):
        return WaitToBuild(for_race=True)
    if not _has_memory(others, active, is_alone=must_build_alone(planned, state)):
        return WaitToBuild(for_race=False)
    waits = others.wait_for_baseline and planned != state.plan.baseline
    if waits and not _is_baseline_measured(active):
        return WaitToBuild(for_race=False)
    if pool.has_started(planned.id) and not pool.is_running(planned.id):
        return SkipBuild(None)
    limit = payback_limit(planned.id, active)
    failure = remaining.failure_of_sibling(state, planned) or _too_long(planned, limit, active)
    return StartBuild(limit) if failure is None else SkipBuild(failure)


def must_build_alone(planned: Arm, state: RunState) -> bool:
    return planned.builds_alone or planned.id in remaining.oom_beside_others(state)


def waits_for_race(planned: Arm, ahead: Sequence[Arm], active: ActiveRun) -> bool:
    """Return whether a race of the arms `ahead` may save the build of this one.

    An arm that is not known to gain points waits for any that is. Any other arm waits for an arm of
    its workflow that promises as much, unless its own build delays no other. No arm waits for a
    build that may hang. A quick build that the model calls for never waits: it costs less than a
    race.
    """
    state = active.state
    if not remaining.skips_losing_arms(active.question) or planned.id in state.baselines:
        return False
    is_quick = planned.is_built_within(active.presets.builds.import_seconds)
    if is_quick and planned.called_for is not None:
        return False
    others = [each for each in ahead if each.id not in state.baselines]
    rivals = [one for one in others if promise_of(one, active) > 0 and not is_overdue(one, active)]
    if promise_of(planned, active) <= 0:
        return bool(rivals)
    if is_quick or _has_processors_for([planned, *ahead], active):
        return False
    siblings = [each for each in rivals if each.workflow == planned.workflow]
    if active.pool.is_running(planned.id):
        # A sibling that the model calls for may still have to import.
        return any(promise_of(each, active) >= promise_of(planned, active) for each in siblings)
    return any(rank_of(each, active) >= rank_of(planned, active) for each in siblings)


def rank_of(planned: Arm, active: ActiveRun) -> tuple[bool, float]:
    """Return the sort key of an arm within its workflow (largest first)."""
    return planned.called_for is not None, promise_of(planned, active)


def promise_of(planned: Arm, active: ActiveRun) -> float:
    """Return the points that it may gain for a second of its build, or of its import if longer.

    Arms that can gain none come next, and arms whose gain is not known come last.
    """
    points, seconds = planned.possible_points, planned.expected_build_seconds
    if points is None or seconds is None:
        return -math.inf
    return points / max(seconds, active.presets.builds.import_seconds) if points > 0 else points


def is_overdue(planned: Arm, active: ActiveRun) -> bool:
    state, seconds = active.state, planned.expected_build_seconds
    since, factor = state.last_process(planned.id).building_since, active.presets.builds.hung_factor
    return since is not None and seconds is not None and state.at - since > factor * seconds


def _has_processors_for(arms: Iterable[Arm], active: ActiveRun) -> bool:
    limits, processors = active.presets.builds, active.header.machine.cpu.usable_processors
    unbuilt = [each for each in arms if not active.pool.is_built(each.id)]
    builds = sum(not each.is_built_within(limits.import_seconds) for each in unbuilt)
    return builds * limits.processors_of_a_build <= processors


def _has_memory(others: OtherBuilds, active: ActiveRun, *, is_alone: bool) -> bool:
    """Return whether memory and the builds that run allow another one.

    While an arm is built whose stack requires it, or that ran out of memory next to others, no
    other build runs.
    """
    headroom, state = active.pool.headroom, active.state
    if others.running:
        is_refused = others.is_alone or is_alone
        return not is_refused and headroom.fits_another_worker(others.running)
    known = state.raced_arms | state.baselines
    has_new_arm = not known.issuperset(racing.raceable_arms(active))
    return (others.is_first and not has_new_arm) or headroom.fits_another_worker()


def _is_baseline_measured(active: ActiveRun) -> bool:
    """Return whether the baseline has made its first calls, so that its memory is known."""
    baseline = active.state.plan.baseline.id
    has_started = bool(active.state.processes.get(baseline))
    return not has_started or not missing_shapes(active, baseline)


def payback_limit(arm: str, active: ActiveRun) -> BuildLimit | None:
    """Return the build seconds of `arm` that the requested number of requests cannot pay back.

    After these seconds a built arm would have served all requests, even if the calls of `arm` took
    no time. None for the baselines, and if no number of requests is given or no arm is built.
    """
    state, question = active.state, active.question
    built = [
        next(process for process in state.processes[other.id] if process.ready)
        for other in state.plan.arms
        if other.id != arm and state.is_valid(other.id)
    ]
    if question.requests is None or not built or arm in state.baselines:
        return None
    calls = active.presets.builds.call_factor * question.requests
    seconds = max(
        min(_seconds_to_serve(calls, process, shape) for process in built)
        for shape in question.shapes
    )
    return BuildLimit(
        seconds,
        f"builds of more than {seconds:.3g} s cannot be paid back: by then another arm has served "
        "all requests, even if the calls of this one took no time",
        "ask for more with --requests, or leave it out to compare speeds alone",
        f"which {write_count(f'{question.requests:,}', 'request')} cannot repay",
    )


def _seconds_to_serve(requests: float, process: ProcessState, shape: Shape) -> float:
    call_seconds = process.warmed_up[shape].typical_seconds
    return process.build_seconds + requests * call_seconds / shape.batch_size


def _too_long(planned: Arm, limit: BuildLimit | None, active: ActiveRun) -> Failure | None:
    """Return the failure of an arm that is not expected to end within its limit and in time."""
    seconds, presets = _expected_seconds(active.state, planned), active.presets.builds
    if seconds is None or planned.id in active.state.baselines:
        return None
    if limit is not None and seconds > presets.hopeless_factor * limit.seconds:
        expected = format_number(seconds, digits=2)
        reason = f"not built: {expected} s expected, {limit.shortfall}"
        return Failure("skipped", "build", reason, limit.fix, skip_cause="build-limit")
    left_seconds, needed_seconds = active.races.left(), seconds + presets.import_seconds
    # Before the first race, an arm to compare with is worth its time.
    if not active.state.has_raced or needed_seconds <= left_seconds:
        return None
    needed, left = (format_number(each, digits=2) for each in (needed_seconds, left_seconds))
    reason = f"not built: {needed} s expected with its import, and {left} s were left"
    fix = more_time(active.state, active.question)
    return Failure("skipped", "build", reason, fix, skip_cause="out-of-time")


def _expected_seconds(state: RunState, planned: Arm) -> float | None:
    """Return how long the build may take, by those of the workflow that this run has made.

    It takes no less than the quickest of them: what is known of earlier runs may be of small
    models.
    """
    if planned.expected_build_seconds is None:
        return None
    made = [
        (state.last_process(each.id).build_seconds, each.expected_build_seconds)
        for each in state.plan.arms
        if each.workflow == planned.workflow and state.is_valid(each.id)
    ]
    slowness = max((seconds / expected for seconds, expected in made if expected), default=1.0)
    quickest = min((seconds for seconds, _ in made), default=0.0)
    return max(planned.expected_build_seconds * slowness, quickest)


def builds_are_over(active: ActiveRun) -> bool:
    """Return whether no further arm is built.

    Builds that are expected to end in the first half of the time of the repetitions may go on:
    they may change the answer. Until an arm of another workflow than the baseline's
    is built, if there is any, a run builds for half of its seconds longer.
    """
    state, plan = active.state, active.state.plan
    arms = {each.id for each in plan.arms if each.id not in state.baselines}
    others = {each.id for each in plan.arms if each.workflow != plan.baseline.workflow}
    rivals = others - state.failed_arms or arms
    if rivals & {*state.raced_arms, *unraced_arms(active)}:
        late = active.time.part((1 + active.question.budget.race_share) / 2)
        running = [each for each in plan.arms if active.pool.is_building(each.id)]
        may_go_on = any(may_end_by(late, each, active) for each in running)
        return (late if may_go_on else active.races).is_over()
    return active.time.part(1.5).is_over()


def unraced_arms(active: ActiveRun) -> list[str]:
    """Return the arms that are built and have not raced, the baselines excepted."""
    state = active.state
    built = [each.id for each in state.plan.arms if active.pool.is_built(each.id)]
    known = state.raced_arms | state.baselines
    return [arm for arm in built if arm not in known and state.plan.baseline.id in built]


def may_end_by(time: TimeSpan, planned: Arm, active: ActiveRun) -> bool:
    """Return whether its missing shapes are expected by then; True where nothing is known."""
    seconds = planned.expected_build_seconds
    since = active.state.last_process(planned.id).building_since
    if seconds is None or since is None:
        return True
    spent = active.state.at - since
    expected = seconds * missing_shapes(active, planned.id) / len(active.question.shapes)
    return not is_overdue(planned, active) and expected - spent <= time.left()


def missing_shapes(active: ActiveRun, arm: str) -> int:
    return len(active.question.shapes) - len(active.state.last_process(arm).built)


def refuse_short_budget(arms: Iterable[Arm], header: Header) -> None:
    """Raise `OptionValueError` if no second arm is expected to be built, as far as known."""
    question, limits = header.question, header.catalogue.presets.builds
    baseline, *others = (each for each in arms if each.duplicate_of is None)
    builds = [each.expected_build_seconds for each in others]
    known = [each for each in builds if each is not None]
    first = baseline.expected_build_seconds
    if question.serves or first is None or not known or len(known) < len(builds):
        return
    least = (limits.first_build_seconds + first + min(known)) / question.budget.race_share
    if question.seconds < least:
        sufficient = write_duration(limits.sufficient_factor * least)
        raise OptionValueError(
            f"--budget {question.budget.name} is too short: starting, building and checking two"
            f" workflows is expected to take {least:.0f} s or more",
            f"use --budget {sufficient}: other work may double the time",
        )
