"""Resident workers through their whole life, with pretend stacks in real processes."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable
from typing import Any

import builders
import msgspec
import psutil
import pytest
from sessions import ALIKE, BASELINE, QUICK, bring_up, ends, said

from advisor.domain.outcome import Completed, Crashed, ModelRefused
from advisor.domain.plan import REFERENCE, folder_of
from advisor.domain.run_events import (
    BusyWhileIdle,
    DeviceMemory,
    Energy,
    MemoryChecked,
    RunEvent,
    Spawned,
    WorkerReported,
)
from advisor.domain.worker_events import (
    BlockTimed,
    Imported,
    Loaded,
    PhaseStarted,
    Ready,
    WarmedUp,
    Workload,
)
from advisor.measure import memory
from advisor.probing.conditions import Guard
from advisor.probing.device_memory import MemoryWatch
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor, Worker
from advisor.probing.termination import belonging

#: Most processor seconds that somebody who only waits for a second may use.
IDLE_CPU_SECONDS = 0.05
#: Who waits by asking again and again does so in every second; what a process still finishes after
#: it said that it is ready, in one.
IDLE_WINDOWS = 3
PATIENCE_SECONDS = 60


class Watch(MemoryWatch):
    """Stands for a GPU on which each look finds a gigabyte more than the one before."""

    def __init__(self) -> None:
        self.looks = 0
        self.total_bytes = 1 << 60

    def used_bytes(self) -> int:
        self.looks += 1
        return self.looks << 30


def test_a_call_that_generates_is_long_so_fewer_inputs_take_turns(site: RunConfig) -> None:
    texts = dataclasses.replace(site, question=builders.question(task="generate"))
    asked = [
        each.request_for(BASELINE, each.scratch, each.scratch).input_sets for each in (site, texts)
    ]
    assert asked == [4, 2]


def test_a_worker_is_told_the_extras_of_its_environment(site: RunConfig) -> None:
    arm = msgspec.structs.replace(BASELINE, extras={"jax": ("cuda13",)})
    assert site.request_for(arm, site.scratch, site.scratch).extras == {"jax": ["cuda13"]}


def test_an_arm_is_imported_built_visited_and_ended(session: Session) -> None:
    up = bring_up(session, QUICK)
    assert ends(up) == {REFERENCE: Completed()}
    assert said(up, Workload) == [
        Workload(batch_size=2, flops=256),
        Workload(batch_size=4, flops=512),
    ]
    assert len(said(up, Imported, "quick")) == 1
    assert not said(up, Loaded, "quick"), "nothing is built before its turn"

    built = list(session.build("quick"))
    phases = [(each.phase, each.batch_size) for each in said(built, PhaseStarted)]
    of_a_size = [("build", 2), ("correctness", 2), ("build", 4), ("correctness", 4)]
    assert phases == [("load", None), *of_a_size, ("warmup", 2), ("warmup", 4), ("measure", None)]
    assert said(built, Ready)

    calls = {warm.batch_size: warm.calls_per_visit for warm in said(built, WarmedUp)}
    for number, batch_size in enumerate((4, 2, 4), start=1):
        (visited,) = said(session.visit("quick", batch_size, number), BlockTimed)
        assert session.last_visit("quick") == visited
        assert (visited.batch_size, visited.round, len(visited.seconds)) == (
            batch_size,
            number,
            calls[batch_size],
        )

    assert ends(session.stop()) == {"quick": Completed()}
    assert not session.is_running("quick")


def test_whoever_was_timed_is_waited_for_before_the_next_is(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_up(session, QUICK)
    list(session.build("quick"))
    waited_for: list[list[str]] = []
    monkeypatch.setattr(
        "advisor.probing.idle.wait_until_at_rest",
        lambda process: waited_for.append(psutil.Process(process).cmdline()),
    )
    list(session.visit("quick", 2, 1))
    (command,) = waited_for
    assert any("worker.py" in word for word in command)


def test_no_more_workers_import_at_a_time_than_there_are_processors(session: Session) -> None:
    arms = [builders.arm(f"quick/{number}") for number in range(4)]
    working = most = 0
    for run_event in bring_up(session, *arms):
        if isinstance(run_event, Spawned):
            working += 1
            most = max(most, working)
        elif said([run_event], Ready, REFERENCE) or (
            said([run_event], Imported) and not said([run_event], Imported, REFERENCE)
        ):
            working -= 1
    assert working == 0
    assert most == 2


def test_only_the_arm_whose_turn_it_is_builds(session: Session) -> None:
    bring_up(session, QUICK, ALIKE)
    assert {
        run_event.arm
        for run_event in session.build(ALIKE.id)
        if isinstance(run_event, WorkerReported)
    } == {ALIKE.id}
    assert session.is_running(QUICK.id)


def test_an_arm_that_crashes_in_a_visit_ends_alone(supervisor: Supervisor, site: RunConfig) -> None:
    session = Session(
        supervisor,
        dataclasses.replace(
            site, question=msgspec.structs.replace(site.question, batch_sizes=(2,))
        ),
        Guard(),
    )
    crashing = builders.arm("misbehaving", options={"misdeed": "crash-in-visit"})
    bring_up(session, QUICK, crashing)
    for arm in (QUICK, crashing):
        list(session.build(arm.id))
    happened: list[RunEvent] = []
    while session.is_running(crashing.id):
        happened += session.visit(crashing.id, 2, 1)
    (outcome,) = ends(happened).values()
    assert isinstance(outcome, Crashed)
    assert outcome.signal == "SIGSEGV"
    assert session.last_visit(crashing.id) is None, "a visit before it says nothing about this one"
    list(session.visit(QUICK.id, 2, 1))
    assert session.last_visit(QUICK.id) is not None
    assert ends(session.stop()) == {QUICK.id: Completed()}


def test_an_arm_that_has_ended_is_not_built(session: Session) -> None:
    absent = builders.arm("misbehaving", options={"misdeed": "import-error"})
    up = bring_up(session, absent)
    assert absent.id in ends(up)
    assert list(session.build(absent.id)) == []
    assert list(session.stop()) == []


def test_a_model_that_nobody_can_open_ends_the_reference_and_starts_no_more_arms(
    supervisor: Supervisor, site: RunConfig
) -> None:
    one = msgspec.structs.replace(site.machine.cpu, usable_processors=1)
    narrow = msgspec.structs.replace(site.machine, cpu=one)
    session = Session(supervisor, dataclasses.replace(site, machine=narrow), Guard())
    bad = builders.arm("misbehaving", options={"misdeed": "model-error"})
    happened = [*session.make_reference(bad, 0), *session.start([(QUICK, 0)])]
    assert isinstance(ends(happened)[REFERENCE], ModelRefused)
    assert [run_event.arm for run_event in happened if isinstance(run_event, Spawned)] == [
        REFERENCE
    ]


def test_the_devices_memory_is_told_as_what_was_added(
    supervisor: Supervisor, site: RunConfig
) -> None:
    watch = Watch()
    session = Session(supervisor, site, Guard(), watch)
    bring_up(session, QUICK)
    *_, counted = session.build(QUICK.id)
    assert isinstance(counted, DeviceMemory)
    assert (counted.arm, counted.process, counted.before_bytes) == (QUICK.id, 0, 1 << 30)
    # The last look is for what stays, the one before it was the highest while it built, or was
    # built and warmed up.
    assert counted.peak_bytes is not None
    assert counted.serving_bytes is not None
    assert counted.resident_bytes == watch.looks - 1 << 30
    assert max(counted.peak_bytes, counted.serving_bytes) == watch.looks - 2 << 30
    assert counted.total_bytes == watch.total_bytes


class Neighbour(MemoryWatch):
    """Stands for a GPU that somebody else uses: 100 W and a gigabyte more in each hour."""

    def __init__(self) -> None:
        self.hours = 0
        self.total_bytes = 1 << 60

    def used_bytes(self) -> int:
        return self.hours << 30

    def clock(self) -> float:
        return self.hours * 3600.0


class Meter(Guard):
    """Counts what the neighbour's GPU uses."""

    def __init__(self, neighbour: Neighbour) -> None:
        super().__init__(clock=neighbour.clock)
        self.neighbour = neighbour

    def energy_joules(self) -> float:
        return 100 * self.neighbour.clock()


def test_a_pause_after_a_section_is_not_measured(supervisor: Supervisor, site: RunConfig) -> None:
    neighbour = Neighbour()
    session = Session(supervisor, site, Meter(neighbour), neighbour)
    happened: list[RunEvent] = []

    def take_with_pauses(run_events: Iterable[RunEvent]) -> None:
        for run_event in run_events:
            happened.append(run_event)
            neighbour.hours += bool(said([run_event], Ready) or said([run_event], BlockTimed))

    list(session.make_reference(BASELINE, 0))
    list(session.start([(QUICK, 0)]))
    take_with_pauses(session.check_memory())
    take_with_pauses(session.build(QUICK.id))
    take_with_pauses(session.visit(QUICK.id, 2, 1))
    take_with_pauses(session.sustain(QUICK.id, 2, 0.1))
    assert neighbour.hours == 5
    (checked,) = [each for each in happened if isinstance(each, MemoryChecked)]
    (counted,) = [each for each in happened if isinstance(each, DeviceMemory)]
    (energy,) = [each for each in happened if isinstance(each, Energy)]
    assert (
        checked.seen_bytes,
        counted.peak_bytes,
        counted.resident_bytes,
        counted.serving_bytes,
    ) == (0, 0, 0, 0)
    assert session.last_conditions(QUICK.id).seconds < 1
    assert energy.joules == 0


class HostWatch(MemoryWatch):
    """Stands for a GPU whose memory is what the reference worker takes of the host's; `share` is how much of that it counts."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.session: Session | None = None

    def used_bytes(self) -> int | None:
        assert self.session is not None
        return int(
            psutil.Process(self.session._workers[REFERENCE].popen.pid).memory_info().rss
            * self.share
        )


@pytest.mark.parametrize(("share", "right"), [(1.0, True), (0.5, False)])
def test_a_known_allocation_shows_whether_the_devices_count_can_be_believed(
    share: float,
    right: bool,
    supervisor: Supervisor,
    site: RunConfig,
) -> None:
    watch = HostWatch(share)
    watch.session = session = Session(supervisor, site, Guard(), watch)
    list(session.make_reference(BASELINE, 0))
    list(session.start([]))
    *_, released = list(session.check_memory())
    (checked,) = [
        run_event for run_event in session.check_memory() if isinstance(run_event, MemoryChecked)
    ]
    assert memory.is_right(checked) is right
    assert said([released], Ready, REFERENCE), "it has let go of it"
    assert ends(session.ask(REFERENCE, "peaks")) == {REFERENCE: Completed()}


def read_request(site: RunConfig, arm: str, process: int) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(
        (site.arms / arm / str(process) / "request.json").read_text()
    )
    return request


def test_a_worker_is_told_what_was_asked(session: Session, site: RunConfig) -> None:
    bring_up(session, ALIKE)
    request = read_request(site, "alike+slow", 0)
    assert request["arm"] == "alike/slow"
    assert request["workflow_file"] == str(site.probes / "workflows" / "alike.py")
    assert request["options"] == {"milliseconds": 2}
    assert request["subject"] == {"kind": "synthetic", **msgspec.to_builtins(site.question.model)}
    assert (request["dtype"], request["device"], request["batch_sizes"]) == (
        "float32",
        "cpu",
        [2, 4],
    )
    assert (request["seed"], request["input_tokens"], request["threads"]) == (7, 5, 3)
    assert (request["role"], read_request(site, REFERENCE, 0)["role"]) == ("measure", "reference")
    assert request["shared_directory"] == read_request(site, REFERENCE, 0)["shared_directory"]


def test_another_process_of_an_arm_has_its_own_control_directory_and_the_same_caches(
    session: Session, site: RunConfig
) -> None:
    bring_up(session, QUICK)
    list(session.stop())
    list(session.start([(QUICK, 1)]))
    first, second = (read_request(site, QUICK.id, process) for process in (0, 1))
    assert (site.arms / QUICK.id / "0" / "response.json").exists()
    assert first["scratch_directory"] == second["scratch_directory"]


def test_what_an_interrupted_process_left_is_not_taken_for_news(
    session: Session, site: RunConfig
) -> None:
    left = site.arms / QUICK.id / "0"
    left.mkdir(parents=True)
    (left / "response.json").write_text('{"status": "completed"}')
    (left / "events.jsonl").write_text('{"event": "ready"}\n')
    assert not said(bring_up(session, QUICK), Ready, QUICK.id)
    assert session.is_running(QUICK.id)


def worker_processes(session: Session, arm: str) -> list[psutil.Process]:
    """Return the arm's worker and its guard."""
    worker: Worker = session._workers[arm]
    process = psutil.Process(worker.popen.pid)
    return [process, *process.children(recursive=True)]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


@pytest.mark.parametrize("built", [False, True], ids=["imported", "built"])
def test_idle_workers_and_who_waits_for_them_take_no_processor_time(
    session: Session, supervisor: Supervisor, *, built: bool
) -> None:
    bring_up(session, QUICK, ALIKE)
    if built:
        for arm in (QUICK, ALIKE):
            list(session.build(arm.id))
    processes = [process for arm in (QUICK, ALIKE) for process in worker_processes(session, arm.id)]
    assert len(processes) == 4, "two workers and their guards"
    windows = []
    for _ in range(IDLE_WINDOWS):
        theirs, ours = cpu_seconds(processes), time.process_time()
        assert list(supervisor.listen(timeout=1.0)) == []
        windows.append(cpu_seconds(processes) - theirs + time.process_time() - ours)
    assert min(windows) < IDLE_CPU_SECONDS, windows


def status_of(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_ZOMBIE)


def wait_until(process: psutil.Process, *wanted: str) -> None:
    """Wait for a signal that was sent to arrive; a process that is gone counts as a zombie."""
    end = time.monotonic() + PATIENCE_SECONDS
    while status_of(process) not in wanted:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("misdeed", ["restless", "restless-titled"])
def test_who_goes_on_working_while_it_waits_is_stopped_between_its_turns(
    session: Session, site: RunConfig, misdeed: str
) -> None:
    restless = builders.arm("misbehaving/restless", options={"misdeed": misdeed})
    bring_up(session, QUICK, restless)
    assert [each for each in session.build(QUICK.id) if isinstance(each, BusyWhileIdle)] == []
    (found,) = [each for each in session.build(restless.id) if isinstance(each, BusyWhileIdle)]
    assert (found.arm, found.process) == (restless.id, 0)
    assert found.processors > 0.1
    spinning, _ = [
        each
        for each in belonging(site.arms / folder_of(restless.id) / "0")
        if "while True: pass" in each.cmdline()
    ]

    for arm, works in ((QUICK.id, False), (restless.id, True), (QUICK.id, False)):
        wait_until(spinning, psutil.STATUS_STOPPED)
        before = cpu_seconds([spinning])
        for _ in session.visit(arm, 2, 1):
            wait_until(
                spinning, psutil.STATUS_STOPPED
            )  # before anybody is told of the visit, who may make a pause
        assert session.last_visit(arm) is not None
        assert (cpu_seconds([spinning]) > before) == works
    wait_until(spinning, psutil.STATUS_STOPPED)
    list(session.stop())
    wait_until(spinning, psutil.STATUS_ZOMBIE)
