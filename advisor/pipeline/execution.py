"""Run the stages of a run in their order.

Yields events; prints nothing and exits nowhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from advisor.context import Context
from advisor.domain.outcome import ModelRefused
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.question import Question
from advisor.domain.run import Header, fleet_id_of
from advisor.domain.run_events import Finished, LoggedEvent, Resumed, RunEvent
from advisor.domain.run_state import RunState
from advisor.errors import (
    ModelRefusedError,
    NothingViableError,
    RunIsImportedError,
    RunOfFleetError,
    UserError,
)
from advisor.pipeline import build_limits, post_race, racing, remaining, repetitions, survey
from advisor.pipeline.arms import controls, plan_of, raced_arms
from advisor.pipeline.recorder import Recorder
from advisor.probing.conditions import ConditionsMonitor, GpuMonitor
from advisor.probing.device_memory import DeviceMemoryMonitor
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor
from advisor.store import Run


def check_resumable(header: Header) -> None:
    """Raise the `UserError` that prevents this program from continuing the run."""
    if header.imported:
        raise RunIsImportedError(
            f"run {header.run_id} was made on another machine",
            "measure here with p3-advisor recommend",
        )
    fleet = fleet_id_of(header.run_id)
    if fleet is not None:
        raise RunOfFleetError(
            f"run {header.run_id} was started on a device of a fleet",
            f"p3-advisor fleet {fleet} --resume",
        )


def execute(run: Run, context: Context) -> Iterator[LoggedEvent]:
    """Execute the remaining steps of the run; yield each event after it is stored.

    Raise the `UserError` that ends the run early.
    """
    header = run.header()
    check_resumable(header)
    with run.writer() as writer:
        recorder = Recorder(run.state(), context.clock, writer.append)
        if not recorder.state.finished:
            yield from _execute_steps(run, header, recorder, context)
    if recorder.state.finished:
        run.clear_scratch()


def _execute_steps(
    run: Run, header: Header, recorder: Recorder, context: Context
) -> Iterator[LoggedEvent]:
    """Build and race the arms, measure the raced workers further, repeat the leaders, survey."""
    if recorder.state.processes:
        yield recorder.record(Resumed())
    question, limits = header.question, header.catalogue.presets.guard
    monitor = ConditionsMonitor(GpuMonitor(question.gpu) if question.gpu else None)
    with monitor.running(), open_session(run, header, context, monitor) as session:
        yield from _race_groups(session, recorder, header, context.clock)
        yield from post_race.measure_further(session, recorder, question)
        yield from recorder.record_each(session.stop())
        yield from repetitions.repeat_leaders(session, recorder, question, limits)
    if question.survey:
        yield from _survey(run, header, recorder, context, monitor)
    yield recorder.record(Finished())


def _race_groups(
    session: Session, recorder: Recorder, header: Header, clock: Callable[[], float]
) -> Iterator[LoggedEvent]:
    """Build and race group after group until every arm has raced or no further arm fits."""
    question, limits = header.question, header.catalogue.presets.guard
    while True:
        before = _race_progress(recorder.state, question)
        yield from _build(session, recorder, question)
        yield from racing.race_batch_sizes(session, recorder, question, limits, clock)
        has_waiting_arms = bool(remaining.waiting_arms(recorder.state, question))
        if (
            not has_waiting_arms
            or not session.is_running(plan_of(recorder.state).baseline.id)
            or _race_progress(recorder.state, question) == before
        ):
            return
        yield from post_race.free_memory(session, recorder, question)


def _race_progress(state: RunState, question: Question) -> tuple[object, ...]:
    """Return a value that differs as soon as a race was opened or closed or an arm has raced."""
    return state.groups, state.closed, remaining.waiting_arms(state, question)


def _survey(
    run: Run, header: Header, recorder: Recorder, context: Context, monitor: ConditionsMonitor
) -> Iterator[LoggedEvent]:
    deadlines = header.catalogue.presets.deadlines
    with Supervisor(deadlines, clock=context.clock) as supervisor:

        def open_model_session(run_config: RunConfig) -> Session:
            return Session(supervisor, run_config, monitor, host_lock=context.host_lock)

        yield from recorder.record_each(
            survey.survey_models(
                recorder.state,
                header.question,
                header.catalogue.panel,
                run_config_of(run, header, context),
                open_model_session,
            )
        )


@contextlib.contextmanager
def open_session(
    run: Run, header: Header, context: Context, monitor: ConditionsMonitor
) -> Iterator[Session]:
    """Yield a session for the workers of a run; end all its workers when the block ends."""
    gpu = header.question.gpu
    with Supervisor(header.catalogue.presets.deadlines, clock=context.clock) as supervisor:
        yield Session(
            supervisor,
            run_config_of(run, header, context),
            monitor,
            DeviceMemoryMonitor(gpu) if gpu else None,
            host_lock=context.host_lock,
        )


def run_config_of(run: Run, header: Header, context: Context) -> RunConfig:
    """Return the configuration that the workers of a run share."""
    return RunConfig(
        question=header.question,
        machine=header.machine,
        arms_directory=run.arms,
        scratch_directory=run.scratch,
        probes_directory=context.probes,
        minimum_engaged_share=header.catalogue.rubric.minimum_engaged_share,
        environment=context.environment,
    )


def _build(session: Session, recorder: Recorder, question: Question) -> Iterator[LoggedEvent]:
    """Start every arm that is still needed and build as many as fit in memory.

    Raise `ModelRefusedError` or `NothingViableError` if the reference or the baseline fails.
    """
    arms = remaining.needed_arms(recorder.state, question)
    if not arms:
        return
    yield from recorder.record_each(_start(session, recorder.state, arms))
    # The memory check must run while no worker imports and none has used the device.
    if session.is_running(REFERENCE):
        yield from recorder.record_each(session.check_memory())
    if session.is_running(REFERENCE):
        yield from recorder.record_each(session.send_and_wait(REFERENCE, "peaks"))
    if not has_reference(recorder.state):
        raise _baseline_error(recorder.state, REFERENCE)
    unbuilt = [arm for arm in arms if not session.is_built(arm.id)]
    yield from _build_in_turn(session, recorder, unbuilt, question)


def _start(session: Session, state: RunState, arms: Sequence[Arm]) -> Iterator[RunEvent]:
    """Start the reference worker if its outputs are missing, and the arms that do not run."""
    if not has_reference(state):
        yield from session.start_reference(
            plan_of(state).baseline, _next_process_number(state, REFERENCE)
        )
    built = {
        arm
        for arm, processes in state.processes.items()
        if any(process.ready for process in processes)
    }
    yield from session.start(
        [
            (arm, _next_process_number(state, arm.id))
            for arm in arms
            if not session.is_running(arm.id)
        ],
        built=built,
    )


def _build_in_turn(
    session: Session, recorder: Recorder, arms: Sequence[Arm], question: Question
) -> Iterator[LoggedEvent]:
    """Build and warm up one arm after the other within the build limits.

    Stop when memory is short and a new arm is built: the other arms wait for the next group.
    """
    baseline = plan_of(recorder.state).baseline
    known = raced_arms(recorder.state) | controls(recorder.state)
    for arm in arms:
        has_new_arm = any(
            other.id not in known for other in racing.built_arms(session, recorder.state)
        )
        if has_new_arm and not session.has_memory_headroom():
            return
        limit = build_limits.limit_build(recorder.state, arm.id, question)
        if limit is not None and limit.seconds <= 0:
            outcome = build_limits.skipped_outcome(limit)
            yield from recorder.record_each(session.drop(arm.id, outcome))
            continue
        yield from recorder.record_each(session.build(arm.id, limit))
        if arm == baseline and not session.is_running(arm.id):
            raise _baseline_error(recorder.state, arm.id)


def _next_process_number(state: RunState, arm: str) -> int:
    return len(state.processes.get(arm, ()))


def has_reference(state: RunState) -> bool:
    """Return whether the inputs and the reference outputs are stored.

    A later failure of the reference worker does not matter: it only measures peaks by then.
    """
    return any(process.ready for process in state.processes.get(REFERENCE, ()))


def _baseline_error(state: RunState, arm: str) -> UserError:
    """Return the error for a reference or baseline worker that failed before the races."""
    outcome = state.processes[arm][-1].outcome
    reason, fix = getattr(outcome, "reason", "its worker ended"), getattr(outcome, "fix", None)
    if isinstance(outcome, ModelRefused):
        return ModelRefusedError(reason, fix or "open the model by itself in the same interpreter")
    return NothingViableError(
        f"the {arm} failed: {reason}", fix or "choose another precision, size or device"
    )
