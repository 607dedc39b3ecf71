"""Sessions of resident workers, with fake stacks in real processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import builders
import msgspec
import psutil
import pytest
import workers
from sessions import (
    ALIKE,
    BASELINE,
    QUICK,
    expect_failure,
    of_kind,
    outcomes_by_arm,
    start_workers,
    worker_events_of,
)

from advisor.domain import run_events
from advisor.domain.plan import REFERENCE
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.device_memory import DeviceMemoryMonitor
from advisor.probing.run_config import RunConfig
from advisor.probing.session import WorkerSession
from probes import events
from probes.commands import Allocate, Sustain
from probes.outcome import Outcome
from probes.shape import Shape


class FakeMemory(DeviceMemoryMonitor):
    """A GPU with so many bytes in use; by default each read finds a gibibyte more."""

    def __init__(self, used: Callable[[], float] | None = None) -> None:
        self.reads, self.total_bytes = 0, 1 << 60
        self.used = used or (lambda: self.reads << 30)

    def used_bytes(self) -> int:
        self.reads += 1
        return int(self.used())


def test_an_arm_is_imported_built_visited_and_stopped(session: WorkerSession) -> None:
    up = start_workers(session, QUICK)
    assert outcomes_by_arm(up) == {REFERENCE: Outcome()}
    assert worker_events_of(up, events.Workload) == [
        events.Workload(shape=Shape(2), flops=256),
        events.Workload(shape=Shape(4), flops=512),
    ]
    assert len(worker_events_of(up, events.Imported, "quick")) == 1
    assert not worker_events_of(up, events.Opened, "quick"), "nothing is built before its turn"

    built = list(session.build("quick"))
    phases = [(each.phase, each.shape) for each in worker_events_of(built, events.PhaseStarted)]
    of_a_size = [(phase, Shape(size)) for phase in ("build", "correctness") for size in (2, 4)]
    warmed_up = [("warmup", Shape(size)) for size in (2, 4)]
    assert phases == [("open", None), *of_a_size, *warmed_up, ("measure", None)]
    assert worker_events_of(built, events.Ready)

    warm = [warm.shape for warm in worker_events_of(built, events.WarmedUp)]
    assert warm == [Shape(2), Shape(4)]
    for number, batch_size in enumerate((4, 2, 4), start=1):
        (visited,) = worker_events_of(
            session.visit("quick", Shape(batch_size), number), events.Visited
        )
        assert session.pool.workers["quick"].last_visit == visited
        assert (visited.shape, visited.round) == (Shape(batch_size), number)

    assert outcomes_by_arm(session.stop()) == {"quick": Outcome()}
    assert not session.pool.is_running("quick")


def test_a_file_in_place_of_its_temporary_folder_ends_no_run(session: WorkerSession) -> None:
    scratch = session.pool.scratch_directory("quick")
    scratch.mkdir(parents=True)
    (scratch / "tmp").write_text("an earlier process put it there", encoding="utf-8")
    again = list(session.start([(QUICK, 1)], built=["quick"]))
    assert [each.process for each in of_kind(again, run_events.WorkerSpawned)] == [1]
    assert len(worker_events_of(again, events.Imported, "quick")) == 1


def test_a_visit_ends_when_its_worker_is_idle(
    session: WorkerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_workers(session, QUICK)
    list(session.build("quick"))
    waited_for: list[list[str]] = []
    monkeypatch.setattr(
        "advisor.probing.processes.wait_until_idle",
        lambda process: waited_for.append(psutil.Process(process).cmdline()),
    )
    list(session.visit("quick", Shape(2), 1))
    (command,) = waited_for
    assert any("worker.py" in word for word in command)


def test_three_workers_import_at_a_time_on_two_processors(session: WorkerSession) -> None:
    arms = [builders.arm(f"quick/{number}") for number in range(4)]
    importing = [0]
    for run_event in start_workers(session, *arms):
        ended = len(worker_events_of([run_event], events.Imported))
        importing.append(importing[-1] + isinstance(run_event, run_events.WorkerSpawned) - ended)
    assert (max(importing), importing[-1]) == (3, 0)


def test_a_model_that_cannot_be_opened_ends_the_reference(session: WorkerSession) -> None:
    bad = builders.arm("misbehaving", options={"fault": "model-error"})
    received = [
        *session.start_reference(bad, 0),
        *session.start([(QUICK, 0)]),
        *session.create_models(),
        *session.finish_reference(),
    ]
    expect_failure(outcomes_by_arm(received)[REFERENCE], "model-refused")
    assert session.pool.has_failed(REFERENCE)
    assert session.pool.is_running(QUICK.id)


def test_models_are_created_before_the_reference_has_written_its_outputs(
    session: WorkerSession,
) -> None:
    list(session.start_reference(BASELINE, 0))
    list(session.start([(QUICK, 0)]))
    received = list(session.create_models())
    assert worker_events_of(received, events.Ready, REFERENCE)
    received += session.build(QUICK.id)
    assert len(worker_events_of(received, events.Created, QUICK.id)) == 1
    assert len(worker_events_of(received, events.Opened, QUICK.id)) == 1
    assert session.pool.is_warmed_up(QUICK.id)
    assert outcomes_by_arm([*received, *session.finish_reference()]) == {REFERENCE: Outcome()}


def test_workers_whose_models_take_half_of_the_memory_start_again(
    open_session: Callable[..., WorkerSession],
) -> None:
    monitor = FakeMemory()
    session = open_session(ConditionsMonitor(), monitor)
    large = builders.arm("stuck", options={"phase": "create", "how": "sleeps"})
    list(session.start_reference(BASELINE, 0))
    list(session.start([(QUICK, 0), (large, 0)]))
    monitor.total_bytes = (monitor.reads + 2) << 30
    assert outcomes_by_arm(list(session.create_models()))[large.id] == Outcome()
    assert not session.pool.has_started(large.id)
    assert not session.pool.has_failed(large.id)
    list(session.start([(large, 1)]))
    assert session.pool.is_running(large.id)


def test_device_memory_counts_what_a_build_added(
    open_session: Callable[..., WorkerSession],
) -> None:
    monitor = FakeMemory()
    session = open_session(ConditionsMonitor(), monitor)
    start_workers(session, QUICK)
    *_, counted = session.build(QUICK.id)
    assert isinstance(counted, run_events.DeviceMemory)
    assert (counted.arm, counted.process) == (QUICK.id, 0)
    # The last read is the peak, of the build or of the warm-up.
    read = [builders.known(each) for each in (counted.peak_bytes, counted.serving_bytes)]
    assert max(read) == monitor.reads - 1 << 30
    assert counted.total_bytes == monitor.total_bytes


def test_a_pause_after_a_section_is_not_measured(
    open_session: Callable[..., WorkerSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process uses the GPU: 100 W, and a gibibyte more in each hour."""
    hours = 0
    monitor = ConditionsMonitor(clock=lambda: hours * 3600.0)
    monkeypatch.setattr(monitor, "energy_joules", lambda: hours * 3600.0 * 100)
    session = open_session(monitor, FakeMemory(lambda: hours << 30))
    received: list[run_events.RunEvent] = []

    def consume_with_pauses(reported: Iterable[run_events.RunEvent]) -> None:
        nonlocal hours
        for run_event in reported:
            received.append(run_event)
            hours += bool(
                worker_events_of([run_event], events.Ready)
                or worker_events_of([run_event], events.Visited)
            )

    list(session.start_reference(BASELINE, 0))
    list(session.start([(QUICK, 0)]))
    consume_with_pauses(session.check_memory())
    list(session.finish_reference())
    consume_with_pauses(session.build(QUICK.id))
    consume_with_pauses(session.visit(QUICK.id, Shape(2), 1))
    consume_with_pauses(session.measure_energy(QUICK.id, Shape(2), Sustain(Shape(2), 0.1)))
    assert hours == 6
    (checked,) = of_kind(received, run_events.MemoryChecked)
    (counted,) = of_kind(received, run_events.DeviceMemory)
    (energy,) = of_kind(received, run_events.EnergyMeasured)
    assert (checked.seen_bytes, counted.peak_bytes, counted.serving_bytes) == (0, 0, 0)
    assert session.pool.workers[QUICK.id].last_conditions.seconds < 1
    assert energy.joules == 0


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_known_allocation_checks_the_memory_counter(
    share: float, open_session: Callable[..., WorkerSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    held_bytes = 0
    session = open_session(ConditionsMonitor(), FakeMemory(lambda: share * held_bytes))
    real_send = session.pool.send

    def send(arm: str, command: Allocate) -> None:
        nonlocal held_bytes
        held_bytes = command.bytes
        real_send(arm, command)

    list(session.start_reference(BASELINE, 0))
    list(session.start([]))
    with monkeypatch.context() as patched:
        patched.setattr(session.pool, "send", send)
        received = list(session.check_memory())
    (checked,) = of_kind(received, run_events.MemoryChecked)
    assert checked.seen_bytes == pytest.approx(share * checked.allocated_bytes)
    assert worker_events_of(received[-1:], events.Ready, REFERENCE)
    assert held_bytes == 0, "the worker has freed the memory"
    assert outcomes_by_arm(session.finish_reference()) == {REFERENCE: Outcome()}


def read_request(run_config: RunConfig, arm: str, process: int) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(
        (run_config.arms_directory / arm / str(process) / "request.json").read_text()
    )
    return request


def test_the_request_of_a_worker_has_the_question(
    session: WorkerSession, run_config: RunConfig
) -> None:
    start_workers(session, ALIKE)
    request = read_request(run_config, "alike+slow", 0)
    assert request["arm"] == "alike/slow"
    assert request["workflow_file"] == str(run_config.probes_directory / "workflows" / "alike.py")
    assert request["options"] == {"milliseconds": 2}
    assert request["subject"] == {
        "kind": "synthetic",
        **msgspec.to_builtins(run_config.question.model),
    }
    assert (request["dtype"], request["device"]) == ("float32", "cpu")
    assert request["batch_sizes"] == [2, 4]
    assert (request["seed"], request["input_tokens"], request["threads"]) == (7, 5, 3)
    reference = read_request(run_config, REFERENCE, 0)
    assert (request["role"], reference["role"]) == ("measure", "reference")
    assert request["shared_directory"] == reference["shared_directory"]


def test_files_of_an_interrupted_process_are_not_read(
    session: WorkerSession, run_config: RunConfig
) -> None:
    directory = run_config.arms_directory / QUICK.id / "0"
    directory.mkdir(parents=True)
    (directory / "response.json").write_text('{"status": "completed"}')
    (directory / "events.jsonl").write_text('{"event": "ready"}\n')
    assert not worker_events_of(start_workers(session, QUICK), events.Ready, QUICK.id)
    assert session.pool.is_running(QUICK.id)


def cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def test_idle_workers_and_the_waiting_supervisor_use_no_cpu_time(session: WorkerSession) -> None:
    start_workers(session, QUICK, ALIKE)
    for planned in (QUICK, ALIKE):
        list(session.build(planned.id))
    found = [psutil.Process(session.pool.workers[each.id].popen.pid) for each in (QUICK, ALIKE)]
    processes = found + [child for each in found for child in each.children(recursive=True)]
    assert len(processes) == 4, "two workers and their watchdogs"
    windows = []
    # Polling would use CPU time in all of them; work left over from a build, in the first one only.
    for _ in range(3):
        of_workers, own = cpu_seconds(processes), time.process_time()
        assert list(session.pool.supervisor.poll(timeout=1.0)) == []
        windows.append(cpu_seconds(processes) - of_workers + time.process_time() - own)
    assert min(windows) < 0.05, windows


def wait_for_status(process: psutil.Process, wanted: str) -> None:
    """Wait until a signal has taken effect."""
    workers.wait_until(lambda: process.status() == wanted)


def test_processes_that_stay_busy_are_paused_between_visits(
    session: WorkerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine gives the process little of a processor.
    monkeypatch.setattr("advisor.probing.processes.SAMPLING_PASSES", ((0.5, 0.0), (1.0, 0.02)))
    busy = builders.arm("misbehaving/restless", options={"fault": "restless"})
    start_workers(session, QUICK, busy)
    assert of_kind(session.build(QUICK.id), run_events.BusyWhileIdle) == []
    (found,) = of_kind(session.build(busy.id), run_events.BusyWhileIdle)
    assert (found.arm, found.process) == (busy.id, 0)
    assert found.processors > 0.02
    # Of two such processes a busy machine may let one rest.
    paused = session.pool.workers[busy.id].busy or ()
    spinning = next(each for each in paused if "while True: pass" in each.cmdline())

    for arm, runs in ((QUICK.id, False), (busy.id, True), (QUICK.id, False)):
        wait_for_status(spinning, psutil.STATUS_STOPPED)
        before = cpu_seconds([spinning])
        for _ in session.visit(arm, Shape(2), 1):
            # Before any event of the visit, because the consumer may pause at it.
            wait_for_status(spinning, psutil.STATUS_STOPPED)
        assert session.pool.workers[arm].last_visit is not None
        assert (cpu_seconds([spinning]) > before) == runs
    wait_for_status(spinning, psutil.STATUS_STOPPED)
    list(session.stop())
    workers.wait_until(lambda: not workers.is_running(spinning.pid))
