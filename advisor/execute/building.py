"""Start the workers of a group of arms, and build as many as fit in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from advisor.decide.unmeasured import more_time
from advisor.domain.arm_figures import MEMORY
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import RunEvent
from advisor.domain.run_state import Header, RunState
from advisor.execute import build_rules, remaining
from advisor.execute.active_run import ActiveRun
from advisor.execute.build_pause import BuildPause
from advisor.execute.build_queue import BuildQueue, arms_to_import, early_arms, order_builds
from advisor.probing.side_by_side import SideBySideBuilds
from advisor.probing.worker_failures import skipped_by_user
from probes.commands import MeasurePeaks
from probes.outcome import Failure

#: Memory next to the reference, which holds its weights in a higher precision: as many workers, and
#: as many times the bytes of the weights for each.
WORKERS_OF_REFERENCE, COPIES_OF_WEIGHTS = 2, 4
#: How many times the expected memory must be free for builds on a GPU to start before the first
#: calls of the baseline show how much it needs.
TIMES_BEFORE_FIRST_CALLS = 4
#: Share of the time of a run in which the reference outputs of one shape are computed, on a GPU and
#: with half of the threads of a CPU. After it they are computed again in float32 at most.
REFERENCE_SHARE, REFERENCE_SHARE_ON_CPU = 0.25, 0.5


def build_group(active: ActiveRun, builds: SideBySideBuilds) -> Iterator[RunEvent]:
    """Start every arm that is still needed, and build until arms are worth a race.

    As many arms are built as fit in memory. Raise `ModelRefusedError` or `NothingViableError` if
    the reference or the baseline fails.
    """
    pool, at_once = active.pool, active.builds_at_once
    needed = remaining.needed_arms(active.state, active.question)
    arms = [each for each in needed if each.id not in builds.running]
    if not arms and not builds.running:
        return
    early = early_arms(active, arms)
    if not builds.running:
        yield from _prepare(active, arms_to_import(active, arms, early))
        # The model is open now, and may call for more.
        added = remaining.arms_to_add(active)
        yield from added
        arms += [planned for each in added for planned in each.added]
        early = early_arms(active, arms)
    unbuilt = [
        each
        for each in arms
        if not pool.is_warmed_up(each.id)
        and (pool.is_running(each.id) or not pool.has_started(each.id))
    ]
    reference_first = at_once == 1 or not _fits_beside_reference(active, builds)
    if reference_first:
        yield from active.session.finish_reference()
    if _needs_quick_reference(active):
        yield from _start_quick_reference(active)
        if reference_first:
            yield from active.session.finish_reference()
    if not active.state.has_reference and not pool.is_running(REFERENCE):
        raise active.state.worker_error(REFERENCE)
    if at_once == 1:
        yield from _build_in_turn(active, [each for each in unbuilt if each in early])
    else:
        yield from _build_side_by_side(active, builds, unbuilt, early)


def _fits_beside_reference(active: ActiveRun, builds: SideBySideBuilds, times: int = 1) -> bool:
    """Return whether all builds fit in memory next to the reference, by the size of the weights.

    With `times` as much memory must be free. Where builds have to pay for themselves, the calls of
    the baseline must be known before.
    """
    if active.question.requests is not None:
        return False
    opened = active.state.last_process(REFERENCE).opened
    if opened is None or opened.parameter_bytes is None:
        return False
    workers = builds.builds_at_once + WORKERS_OF_REFERENCE
    return active.pool.headroom.has_free(
        times * workers * COPIES_OF_WEIGHTS * opened.parameter_bytes
    )


def _prepare(active: ActiveRun, arms: Sequence[Arm]) -> Iterator[RunEvent]:
    """Start workers, and let the reference write the inputs; raise its error if it fails.

    On a GPU, workers that import and the compilation of their packages disturb nothing here.
    """
    session, pool = active.session, active.pool
    awaited = None
    if active.question.device != "cpu" and active.builds_at_once > 1:
        awaited = {REFERENCE}
    if not active.state.has_reference:
        yield from _start_reference(active)
    yield from _start_arms(active, arms, awaited)
    if active.question.device == "cpu":
        session.stop_compiling()
    # The memory check must run while no worker has used the device.
    if pool.is_running(REFERENCE):
        yield from session.check_memory()
    if pool.is_running(REFERENCE):
        yield from pool.send_and_wait([REFERENCE], MeasurePeaks())
    if pool.is_running(REFERENCE):
        yield from session.create_models()
    forgotten = [each for each in arms if not pool.has_started(each.id)]
    if forgotten:
        yield from _start_arms(active, forgotten, None)
    session.stop_compiling()


def end_builds(active: ActiveRun, builds: SideBySideBuilds) -> Iterator[RunEvent]:
    over = f"the time for builds, a part of the {active.time.seconds:g} s, was over"
    fix = more_time(active.state, active.question)
    failure, cut_off = (
        Failure("skipped", "build", f"{what}: {over}", fix, skip_cause="out-of-time")
        for what in ("not built", "stopped while it was built")
    )
    plan, pool = active.state.plan, active.pool
    failures = {each.id: cut_off if each.id in builds.running else failure for each in plan.arms}
    yield from drop_unbuilt(active, builds, failures)
    if not pool.is_running(plan.baseline.id):
        yield from pool.drop(REFERENCE, failure)


def drop_unbuilt(
    active: ActiveRun, builds: SideBySideBuilds, failures: Mapping[str, Failure]
) -> Iterator[RunEvent]:
    """End the builds of the arms in `failures` and report those that were not reached."""
    for arm, failure in failures.items():
        if arm in builds.running or not active.state.processes.get(arm):
            why = skipped_by_user("start") if arm in active.to_skip else failure
            yield from active.pool.drop(arm, why, active.state.next_process_number(arm))
    builds.forget_ended()


def builds_at_once(header: Header) -> int:
    if any(constraint.quantity == MEMORY for constraint in header.question.constraints):
        return 1
    processors = header.machine.cpu.usable_processors
    return max(1, min(header.catalogue.presets.builds.most_at_once, processors))


def _start_reference(active: ActiveRun) -> Iterator[RunEvent]:
    """Start the reference worker: a quick one after one that was killed because it was slow.

    Without it no output can be checked, and no arm is timed: the quick one may take all that is
    left of the run.
    """
    state = active.state
    is_quick = any(_slow_references(state))
    on_cpu = active.question.device == "cpu"
    share = REFERENCE_SHARE_ON_CPU if on_cpu else REFERENCE_SHARE
    yield from active.session.start_reference(
        state.plan.baseline,
        state.next_process_number(REFERENCE),
        _seconds_of_quick_reference(active) if is_quick else share * active.time.seconds,
        quick=is_quick,
    )


def _start_quick_reference(active: ActiveRun) -> Iterator[RunEvent]:
    """Start it, and wait for the inputs, which the slow one may not have written."""
    pool = active.pool
    yield from _start_reference(active)
    active.session.compute_reference()
    yield from pool.run_until(lambda: pool.is_ready_or_ended(REFERENCE))


def _needs_quick_reference(active: ActiveRun) -> bool:
    """Return whether the last worker was killed because it was slow, the first time and in time."""
    slow = _slow_references(active.state)
    return sum(slow) == 1 and slow[-1] and _seconds_of_quick_reference(active) > 0


def _seconds_of_quick_reference(active: ActiveRun) -> float:
    """Return what is left of the run after the import of a new worker."""
    return round(active.time.left() - active.presets.builds.import_seconds, 1)


def _slow_references(state: RunState) -> list[bool]:
    return [each.failed_with("timed-out") for each in state.processes.get(REFERENCE, ())]


def _start_arms(
    active: ActiveRun, arms: Sequence[Arm], awaited: Collection[str] | None
) -> Iterator[RunEvent]:
    state = active.state
    idle = [each for each in arms if not active.pool.is_running(each.id)]
    numbered = [(each, state.next_process_number(each.id)) for each in idle]
    yield from active.session.start(numbered, built=state.arms_built_before, awaited=awaited)


def _build_in_turn(active: ActiveRun, arms: Sequence[Arm]) -> Iterator[RunEvent]:
    """Build and warm up one arm after the other within the build limits.

    Stop when the time is over, or when an arm has to wait: the other arms wait for the next group.
    """
    session, pool = active.session, active.pool
    baseline = active.state.plan.baseline
    for planned in arms:
        if planned != baseline and build_rules.builds_are_over(active):
            return
        step = build_rules.next_step(planned, build_rules.OtherBuilds(), active)
        if isinstance(step, build_rules.WaitToBuild):
            return
        if isinstance(step, build_rules.SkipBuild) and step.failure is not None:
            yield from pool.drop(planned.id, step.failure)
            continue
        if isinstance(step, build_rules.StartBuild):
            yield from session.build(planned.id, step.limit)
        if planned == baseline and not pool.is_running(planned.id):
            raise active.state.worker_error(planned.id)


def _build_side_by_side(
    active: ActiveRun, builds: SideBySideBuilds, arms: Sequence[Arm], early: Sequence[Arm]
) -> Iterator[RunEvent]:
    """Build the baseline, then the others at the same time; warm up those that are built.

    The baseline's memory shows how many builds fit. While the reference is computed, the others
    start after the first calls of the baseline, or at once on a GPU with plenty of memory, else
    when the baseline has warmed up. `early` arms come first.
    """
    pool, baseline = active.pool, active.state.plan.baseline
    starts_at_once = active.question.device != "cpu" and _fits_beside_reference(
        active, builds, TIMES_BEFORE_FIRST_CALLS
    )
    if not pool.is_running(REFERENCE):
        yield from _build_in_turn(active, [each for each in arms if each == baseline])
    others = order_builds([each for each in arms if not pool.is_warmed_up(each.id)], active)
    others.sort(key=lambda each: (each != baseline, each not in early))
    started = [each for each in active.state.plan.arms if each.id in builds.running]
    queue = BuildQueue(
        active, others, builds.builds_at_once, started, starts_at_once=starts_at_once
    )
    pause = BuildPause(active, builds, [each.id for each in early])
    yield from _build_until_due(active, builds, queue, pause)
    if _needs_quick_reference(active):
        yield from _start_quick_reference(active)
        yield from _build_until_due(active, builds, queue, pause)
    if not active.state.has_reference and not pool.is_running(REFERENCE):
        raise active.state.worker_error(REFERENCE)
    if not pool.is_running(baseline.id):
        raise active.state.worker_error(baseline.id)
    yield from active.session.warm_up(each.id for each in active.state.plan.arms)
    if not active.state.has_raced and not pool.is_running(baseline.id):
        raise active.state.worker_error(baseline.id)


def _build_until_due(
    active: ActiveRun, builds: SideBySideBuilds, queue: BuildQueue, pause: BuildPause
) -> Iterator[RunEvent]:
    """Build until a race is due; report at once which arms the user skips."""

    def shall_pause() -> bool:
        return queue.drop_user_skips() or pause.is_due()

    is_due = False
    while not is_due:
        yield from builds.run(queue.choose, shall_pause)
        is_due = not any(failure.skip_cause == "user" for _, failure in queue.skipped)
        while queue.skipped:
            planned, failure = queue.skipped.pop(0)
            number = active.state.next_process_number(planned.id)
            yield from active.pool.drop(planned.id, failure, number)
