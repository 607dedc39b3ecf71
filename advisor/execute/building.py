"""Start the workers of a group of arms, and build as many as fit in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from advisor.decide.unmeasured import more_time
from advisor.domain.arm_figures import MEMORY
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import RunEvent
from advisor.domain.run_state import Header, RunState
from advisor.execute import build_rules, remaining
from advisor.execute.build_queue import BuildQueue, arms_to_import, early_arms, order_builds
from advisor.execute.race_pause import RacePause
from advisor.execute.run_in_progress import RunInProgress
from advisor.probing.side_by_side import SideBySideBuilds
from advisor.probing.worker_failures import skipped_by_user
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


def build_group(progress: RunInProgress, builds: SideBySideBuilds) -> Iterator[RunEvent]:
    """Start every arm that is still needed, and build until arms are worth a race.

    As many arms are built as fit in memory. Raise `ModelRefusedError` or `NothingViableError` if
    the reference or the baseline fails.
    """
    session, at_once = progress.session, progress.builds_at_once
    needed = remaining.needed_arms(progress.state, progress.question)
    arms = [each for each in needed if each.id not in builds.running]
    if not arms and not builds.running:
        return
    early = early_arms(progress, arms)
    if not builds.running:
        yield from _prepare(progress, arms_to_import(progress, arms, early))
        # The model is open now, and may call for more.
        added = remaining.arms_to_add(progress)
        yield from added
        arms += [planned for each in added for planned in each.added]
        early = early_arms(progress, arms)
    unbuilt = [
        each
        for each in arms
        if not session.is_warmed_up(each.id)
        and (session.is_running(each.id) or not session.has_started(each.id))
    ]
    reference_first = at_once == 1 or not _fits_beside_reference(progress, builds)
    if reference_first:
        yield from session.finish_reference()
    if _needs_quick_reference(progress):
        yield from _start_quick_reference(progress)
        if reference_first:
            yield from session.finish_reference()
    if not progress.state.has_reference and not session.is_running(REFERENCE):
        raise progress.state.worker_error(REFERENCE)
    if at_once == 1:
        yield from _build_in_turn(progress, [each for each in unbuilt if each in early])
    else:
        yield from _build_side_by_side(progress, builds, unbuilt, early)


def _fits_beside_reference(
    progress: RunInProgress, builds: SideBySideBuilds, times: int = 1
) -> bool:
    """Return whether all builds fit in memory next to the reference, by the size of the weights.

    With `times` as much memory must be free. Where builds have to pay for themselves, the calls of
    the baseline must be known before.
    """
    if progress.question.requests is not None:
        return False
    opened = progress.state.last_process(REFERENCE).opened
    if opened is None or opened.parameter_bytes is None:
        return False
    workers = builds.builds_at_once + WORKERS_OF_REFERENCE
    return progress.session.headroom.has_free(
        times * workers * COPIES_OF_WEIGHTS * opened.parameter_bytes
    )


def _prepare(progress: RunInProgress, arms: Sequence[Arm]) -> Iterator[RunEvent]:
    """Start workers, and let the reference write the inputs; raise its error if it fails.

    On a GPU, workers that import and the compilation of their packages disturb nothing here.
    """
    session = progress.session
    awaited = None
    if progress.question.device != "cpu" and progress.builds_at_once > 1:
        awaited = {REFERENCE}
    if not progress.state.has_reference:
        yield from _start_reference(progress)
    yield from _start_arms(progress, arms, awaited)
    if progress.question.device == "cpu":
        session.stop_compiling()
    # The memory check must run while no worker has used the device.
    if session.is_running(REFERENCE):
        yield from session.check_memory()
    if session.is_running(REFERENCE):
        yield from session.send_and_wait(REFERENCE, "peaks")
    if session.is_running(REFERENCE):
        yield from session.create_models()
    forgotten = [each for each in arms if not session.has_started(each.id)]
    if forgotten:
        yield from _start_arms(progress, forgotten, None)
    session.stop_compiling()


def end_builds(progress: RunInProgress, builds: SideBySideBuilds) -> Iterator[RunEvent]:
    over = f"the time for builds, a part of the {progress.seconds:g} s, was over"
    fix = more_time(progress.state, progress.question)
    failure, cut_off = (
        Failure("skipped", "build", f"{what}: {over}", fix, skip_cause="out-of-time")
        for what in ("not built", "stopped while it was built")
    )
    plan, session = progress.state.plan, progress.session
    failures = {each.id: cut_off if each.id in builds.running else failure for each in plan.arms}
    yield from drop_unbuilt(progress, builds, failures)
    if not session.is_running(plan.baseline.id):
        yield from session.drop(REFERENCE, failure)


def drop_unbuilt(
    progress: RunInProgress, builds: SideBySideBuilds, failures: Mapping[str, Failure]
) -> Iterator[RunEvent]:
    """End the builds of the arms in `failures` and report those that were not reached."""
    session = progress.session
    for arm, failure in failures.items():
        if arm in builds.running or not progress.state.processes.get(arm):
            why = skipped_by_user("start") if arm in progress.to_skip else failure
            yield from session.drop(arm, why, progress.state.next_process_number(arm))
    builds.forget_ended()


def builds_at_once(header: Header) -> int:
    if any(constraint.quantity == MEMORY for constraint in header.question.constraints):
        return 1
    processors = header.machine.cpu.usable_processors
    return max(1, min(header.catalogue.presets.builds.most_at_once, processors))


def _start_reference(progress: RunInProgress) -> Iterator[RunEvent]:
    """Start the reference worker: a quick one after one that was killed because it was slow.

    Without it no output can be checked, and no arm is timed: the quick one may take all that is
    left of the run.
    """
    state = progress.state
    is_quick = any(_slow_references(state))
    on_cpu = progress.question.device == "cpu"
    share = REFERENCE_SHARE_ON_CPU if on_cpu else REFERENCE_SHARE
    yield from progress.session.start_reference(
        state.plan.baseline,
        state.next_process_number(REFERENCE),
        _seconds_of_quick_reference(progress) if is_quick else share * progress.seconds,
        quick=is_quick,
    )


def _start_quick_reference(progress: RunInProgress) -> Iterator[RunEvent]:
    """Start it, and wait for the inputs, which the slow one may not have written."""
    session = progress.session
    yield from _start_reference(progress)
    session.compute_reference()
    yield from session.run_until(lambda: session.is_ready_or_ended(REFERENCE))


def _needs_quick_reference(progress: RunInProgress) -> bool:
    """Return whether the last worker was killed because it was slow, the first time and in time."""
    slow = _slow_references(progress.state)
    return sum(slow) == 1 and slow[-1] and _seconds_of_quick_reference(progress) > 0


def _seconds_of_quick_reference(progress: RunInProgress) -> float:
    """Return what is left of the run after the import of a new worker."""
    return round(progress.end - progress.clock() - build_rules.IMPORT_SECONDS, 1)


def _slow_references(state: RunState) -> list[bool]:
    return [each.failed_with("timed-out") for each in state.processes.get(REFERENCE, ())]


def _start_arms(
    progress: RunInProgress, arms: Sequence[Arm], awaited: Collection[str] | None
) -> Iterator[RunEvent]:
    session, state = progress.session, progress.state
    idle = [each for each in arms if not session.is_running(each.id)]
    numbered = [(each, state.next_process_number(each.id)) for each in idle]
    yield from session.start(numbered, built=state.arms_built_before, awaited=awaited)


def _build_in_turn(progress: RunInProgress, arms: Sequence[Arm]) -> Iterator[RunEvent]:
    """Build and warm up one arm after the other within the build limits.

    Stop when the time is over, or when an arm has to wait: the other arms wait for the next group.
    """
    session = progress.session
    baseline = progress.state.plan.baseline
    for planned in arms:
        if planned != baseline and build_rules.builds_are_over(progress):
            return
        step = build_rules.next_step(planned, build_rules.Builds(), progress)
        if isinstance(step, build_rules.WaitToBuild):
            return
        if isinstance(step, build_rules.SkipBuild) and step.failure is not None:
            yield from session.drop(planned.id, step.failure)
            continue
        if isinstance(step, build_rules.StartBuild):
            yield from session.build(planned.id, step.limit)
        if planned == baseline and not session.is_running(planned.id):
            raise progress.state.worker_error(planned.id)


def _build_side_by_side(
    progress: RunInProgress, builds: SideBySideBuilds, arms: Sequence[Arm], early: Sequence[Arm]
) -> Iterator[RunEvent]:
    """Build the baseline, then the others at the same time; warm up those that are built.

    The baseline's memory shows how many builds fit. While the reference is computed, the others
    start after the first calls of the baseline, or at once on a GPU with plenty of memory, else
    when the baseline has warmed up. `early` arms come first.
    """
    session = progress.session
    baseline = progress.state.plan.baseline
    starts_at_once = progress.question.device != "cpu" and _fits_beside_reference(
        progress, builds, TIMES_BEFORE_FIRST_CALLS
    )
    if not session.is_running(REFERENCE):
        yield from _build_in_turn(progress, [each for each in arms if each == baseline])
    cold = [each for each in arms if not session.is_warmed_up(each.id)]
    others = order_builds(cold, progress.state, progress.question)
    others.sort(key=lambda each: (each != baseline, each not in early))
    started = [each for each in progress.state.plan.arms if each.id in builds.running]
    queue = BuildQueue(
        progress, others, builds.builds_at_once, started, starts_at_once=starts_at_once
    )
    pause = RacePause(progress, builds, [each.id for each in early])
    yield from _build_until_due(progress, builds, queue, pause)
    if _needs_quick_reference(progress):
        yield from _start_quick_reference(progress)
        yield from _build_until_due(progress, builds, queue, pause)
    if not progress.state.has_reference and not session.is_running(REFERENCE):
        raise progress.state.worker_error(REFERENCE)
    if not session.is_running(baseline.id):
        raise progress.state.worker_error(baseline.id)
    yield from session.warm_up(each.id for each in progress.state.plan.arms)
    if not progress.state.has_raced and not session.is_running(baseline.id):
        raise progress.state.worker_error(baseline.id)


def _build_until_due(
    progress: RunInProgress, builds: SideBySideBuilds, queue: BuildQueue, pause: RacePause
) -> Iterator[RunEvent]:
    """Build until a race is due; report at once which arms the user skips."""
    session = progress.session

    def shall_pause() -> bool:
        return queue.drop_user_skips() or pause.is_due()

    is_due = False
    while not is_due:
        yield from session.build_side_by_side(builds, queue.choose, shall_pause)
        is_due = not any(failure.skip_cause == "user" for _, failure in queue.skipped)
        while queue.skipped:
            planned, failure = queue.skipped.pop(0)
            number = progress.state.next_process_number(planned.id)
            yield from session.drop(planned.id, failure, number)
