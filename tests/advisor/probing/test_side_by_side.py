"""Builds that run side by side, with fake stacks in real processes."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable, Iterable

import builders
import nvml
import psutil
import pytest
import sessions
import workers
from sessions import ALIKE, QUICK, of_kind, outcomes_by_arm, start_workers, worker_events_of

from advisor.domain import run_events
from advisor.domain.plan import Arm
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.processes import process_tree
from advisor.probing.session import WorkerSession
from advisor.probing.side_by_side import ChooseBuild, NextBuild, ProcessorShares, SideBySideBuilds
from advisor.probing.worker_process import NEVER, Stage, Worker
from probes import protocol
from probes.commands import Command, WarmUp
from probes.events import Built, Imported, PhaseStarted, Prepared, Ready, WarmedUp
from probes.outcome import Failure, Outcome
from probes.shape import Shape

pytestmark = pytest.mark.slow

FAILING = builders.arm("misbehaving/raises", options={"fault": "raises"})


def build_all(session: WorkerSession, *arms: Arm, at_once: int = 2) -> list[run_events.RunEvent]:
    """Build these arms side by side, in this order; start workers that do not run."""
    side_by_side = SideBySideBuilds(session.pool, at_once)
    return list(side_by_side.run(taking(arms, session), lambda: False))


def can_build(standby: Worker) -> bool:
    return standby.is_waiting and not standby.build_commands


def taking(arms: Iterable[Arm], session: WorkerSession) -> ChooseBuild:
    has_started = session.pool.has_started
    queue = [NextBuild(each, process=None if has_started(each.id) else 0) for each in arms]
    return lambda _: queue.pop(0) if queue else None


def test_two_arms_build_at_the_same_time_and_wait_to_warm_up(session: WorkerSession) -> None:
    start_workers(session, QUICK, ALIKE)
    built = build_all(session, QUICK, ALIKE, at_once=8)
    started = of_kind(built, run_events.BuildStarted)
    assert [(each.processors, each.builds_at_once) for each in started] == [(1, 2), (1, 2)]
    began = {each.arm: built.index(each) for each in started}
    ended = [place for place, each in enumerate(built) if worker_events_of([each], Prepared)]
    assert set(began) == {QUICK.id, ALIKE.id}
    assert max(began.values()) < min(ended)
    assert not worker_events_of(built, WarmedUp)
    assert all(map(session.pool.is_prepared, began))
    assert not any(map(session.pool.is_warmed_up, began))

    warmed = list(session.build(QUICK.id))
    assert [each.phase for each in worker_events_of(warmed, PhaseStarted)][:1] == ["warmup"]
    assert worker_events_of(warmed, Ready)
    assert session.pool.is_warmed_up(QUICK.id)
    assert not session.pool.is_prepared(QUICK.id)
    assert outcomes_by_arm(session.stop()) == {QUICK.id: Outcome(), ALIKE.id: Outcome()}


def test_no_more_builds_run_than_there_are_shares(session: WorkerSession) -> None:
    arms = [builders.arm(f"quick/{number}") for number in range(3)]
    start_workers(session)
    most, running = 0, set[str]()
    for each in build_all(session, *arms):
        if isinstance(each, run_events.WorkerSpawned):
            running.add(each.arm)
        elif isinstance(each, run_events.WorkerReported):
            # The check, which follows all builds of an arm, has no share on a CPU.
            starts_check = PhaseStarted("correctness", Shape(2))
            running -= {each.arm} if each.worker_event == starts_check else set()
        most = max(most, len(running))
    assert (most, running) == (2, set())


def test_a_failed_build_leaves_its_processors_to_the_next_one(session: WorkerSession) -> None:
    start_workers(session)
    built = build_all(session, FAILING, QUICK, at_once=1)
    sessions.expect_failure(outcomes_by_arm(built)[FAILING.id], "build-failed")
    assert session.pool.is_prepared(QUICK.id)


SLOW = builders.arm("misbehaving/slow", options={"fault": "slow"})
#: Its build goes on whatever the machine does meanwhile.
HANGING = builders.arm("misbehaving/hangs", options={"fault": "hangs"})


def assert_stands_still(worker: Worker) -> None:
    tree = [each for each in process_tree(worker.directory) if each.pid != worker.popen.pid]
    assert tree, "the worker has started"
    # A process that waits for one that it is starting cannot be stopped, and does nothing either.
    standing = {psutil.STATUS_STOPPED, psutil.STATUS_DISK_SLEEP}
    # A process that runs on another processor stops a little after the signal was sent.
    workers.wait_until(lambda: {each.status() for each in tree} <= standing)


def test_a_suspended_build_stands_still_and_its_time_does_not_count(session: WorkerSession) -> None:
    start_workers(session)
    started = time.monotonic()
    builds = SideBySideBuilds(session.pool, 2)
    choose = taking([SLOW], session)

    def pauses() -> bool:
        """Pause in the middle of the build, which waits for a child."""
        return any(each.name() == "sleep" for each in psutil.Process().children(recursive=True))

    list(builds.run(choose, pauses))
    assert builds.running == [SLOW.id]
    worker = session.pool.workers[SLOW.id]
    assert_stands_still(worker)
    assert worker.deadline == NEVER
    pause = 0.3
    time.sleep(pause)

    rest = list(builds.run(choose, lambda: False))
    assert builds.running == []
    assert session.pool.is_prepared(SLOW.id)
    assert worker.suspended_seconds >= pause
    counted = sum(each.build_seconds for each in worker_events_of(rest, Built))
    assert counted + worker.suspended_seconds < time.monotonic() - started


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_builds_on_a_cpu_stand_still_while_outputs_are_checked(
    device: str, session: WorkerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_workers(session)
    builds = SideBySideBuilds(session.pool, 2)
    monkeypatch.setattr(builds, "_is_on_cpu", device == "cpu")
    checked = builders.arm("misbehaving/checked", options=SLOW.options)
    choose = taking([SLOW, checked], session)
    found = session.pool.workers

    def is_alone_while_checked() -> bool:
        """Check `checked` for one turn; its outputs really are checked too soon to be seen."""
        found[checked.id].phase = "correctness"
        builds._make_room_for_checks()
        stands = [found[each.id].suspended_since is not None for each in (SLOW, checked)]
        found[checked.id].phase = "build"
        builds._make_room_for_checks()
        assert found[SLOW.id].suspended_since is None
        return stands == [True, False]

    alone: list[bool] = []

    def pauses() -> bool:
        if all(each.id in found and found[each.id].phase == "build" for each in (SLOW, checked)):
            alone.append(is_alone_while_checked())
        return bool(alone)

    list(builds.run(choose, pauses))
    assert alone == [device == "cpu"]


@pytest.mark.parametrize("pauses_all", [False, True])
def test_an_arm_whose_build_ends_as_it_is_suspended_can_warm_up(
    session: WorkerSession, *, pauses_all: bool
) -> None:
    """A check of another arm suspends it alone, and a pause all builds."""
    start_workers(session)
    builds = SideBySideBuilds(session.pool, 2)
    choose = taking([QUICK, SLOW], session)

    def pauses() -> bool:
        """Suspend `quick` when `prepared` is in its file and the supervisor has not read it."""
        if QUICK.id not in builds.running or session.pool.workers[QUICK.id].phase != "open":
            return False
        quick = session.pool.workers[QUICK.id]
        events = quick.directory / protocol.EVENTS
        workers.wait_until(lambda: '"prepared"' in events.read_text())
        if not pauses_all:
            quick.suspend()
        return pauses_all

    list(builds.run(choose, pauses))
    assert QUICK.id not in builds.running
    assert session.pool.is_prepared(QUICK.id)
    assert worker_events_of(session.build(QUICK.id), Ready)


def test_workers_of_a_repetition_import_while_processors_are_free(session: WorkerSession) -> None:
    start_workers(session)
    builds = SideBySideBuilds(session.pool, 2, repeated=[QUICK])
    choose = taking([QUICK, HANGING], session)
    standbys = session.pool.standbys.workers
    received = list(
        builds.run(choose, lambda: QUICK.id in standbys and not standbys[QUICK.id].is_busy)
    )
    (process,) = process_tree(standbys[QUICK.id].directory)[-1:]
    assert builds.running == [HANGING.id]
    assert len(worker_events_of(received, Imported, QUICK.id)) == 1, "nothing of it is recorded yet"
    assert_stands_still(standbys[QUICK.id])

    repeated = list(session.start([(QUICK, 1)], repeat=1, built=[QUICK.id]))
    assert of_kind(repeated, run_events.WorkerSpawned) == [
        run_events.WorkerSpawned(arm=QUICK.id, process=1, repeat=1)
    ]
    assert len(worker_events_of(repeated, Imported, QUICK.id)) == 1
    assert process in process_tree(session.pool.workers[QUICK.id].directory)
    assert worker_events_of(session.build(QUICK.id), Ready)


def test_workers_of_a_repetition_go_on_importing_when_they_are_told(session: WorkerSession) -> None:
    start_workers(session)
    session.pool.standbys.add(QUICK, 1)
    (waiting,) = session.pool.standbys.workers.values()
    waiting.suspend()
    session.pool.standbys.add_all([(QUICK, 1), (ALIKE, 1)])
    standbys = session.pool.standbys.workers
    list(session.pool.run_until(lambda: not any(each.is_busy for each in standbys.values())))
    assert [*standbys] == [QUICK.id, ALIKE.id]
    assert standbys[QUICK.id] is waiting


@pytest.mark.parametrize("builds_alone", [False, True])
def test_workers_warm_up_beside_builds_on_a_gpu_and_those_of_a_repetition_build(
    builds_alone: bool, tmp_path: pathlib.Path, fake_probes: pathlib.Path
) -> None:
    config = sessions.run_config(tmp_path, fake_probes, asked={"device": "cuda"})
    with WorkerSession(config) as session:
        start_workers(session)
        builds = SideBySideBuilds(session.pool, 2, repeated=[QUICK])
        hanging = builders.replace(HANGING, builds_alone=builds_alone)
        standbys, waits = session.pool.standbys.workers, list[bool]()

        def is_warm() -> bool:
            waits.extend([True] * (QUICK.id in standbys and can_build(standbys[QUICK.id])))
            return len(waits) > 3 or (QUICK.id in standbys and standbys[QUICK.id].is_ready)

        received = list(builds.run(taking([QUICK, hanging], session), is_warm))
        assert builds.running == [HANGING.id]
        assert session.pool.is_warmed_up(QUICK.id)
        assert len(worker_events_of(received, Built, QUICK.id)) == 1
        assert can_build(standbys[QUICK.id]) == builds_alone
        if builds_alone:
            return
        repeated = list(session.start([(QUICK, 1)], repeat=1, built=[QUICK.id]))
        assert worker_events_of(repeated, Built, QUICK.id)
        assert worker_events_of(repeated, Ready, QUICK.id)
        assert not worker_events_of(session.prepare([QUICK.id]), Ready, QUICK.id)

        for _ in range(2):
            session.pool.standbys.add_all([(QUICK, 2), (ALIKE, 2)], built={QUICK.id})
        assert session.pool.standbys.are_building()
        list(session.pool.run_until(is_warm))
        assert not standbys[ALIKE.id].build_commands
        assert not worker_events_of(session.start([(QUICK, 2)], repeat=2), Built, QUICK.id), "cold"


@pytest.mark.parametrize("is_taken", [False, True])
def test_workers_of_a_repetition_load_weights_and_build_behind_the_first_ones_on_a_gpu(
    *, is_taken: bool, tmp_path: pathlib.Path, fake_probes: pathlib.Path
) -> None:
    asked = {"device": "cuda", "batch_sizes": (2, 4)}
    halfway = builders.arm("misbehaving/stale", options={"fault": "hangs", "from": 4})
    with WorkerSession(sessions.run_config(tmp_path, fake_probes, asked=asked)) as session:
        start_workers(session)
        builds = SideBySideBuilds(session.pool, 4, [HANGING, halfway])
        standbys = session.pool.standbys.workers

        def have_come_far() -> bool:
            opened = {arm for arm, each in standbys.items() if each.stage == Stage.OPENED}
            far = HANGING.id in opened and standbys[halfway.id].built_shapes == 1
            return far and not session.pool.importing()  # one that is suspended never imports

        choose = taking([HANGING, halfway], session)
        list(builds.run(choose, have_come_far))
        assert can_build(standbys[HANGING.id])
        standby, first = standbys[halfway.id], session.pool.workers[halfway.id]
        assert (standby.build_commands, first.built_shapes) == (1, 1)
        begins_second = PhaseStarted("build", Shape(4))
        list(session.pool.receive(0.5))
        assert begins_second not in standby.messages
        if is_taken:
            list(session.start([(halfway, 1)], repeat=1, built=[halfway.id]))
            assert standby.build_commands == 2
            return
        first.built_shapes = 100_000  # by a worker that reports too many
        list(builds.run(choose, lambda: begins_second in standby.messages))
        assert standby.build_commands == 2
        session.pool.workers.pop(halfway.id)
        list(builds.run(choose, lambda: halfway.id not in standbys))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_arms_warm_up_at_the_same_time_on_a_gpu(
    device: str, tmp_path: pathlib.Path, fake_probes: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = sessions.run_config(tmp_path, fake_probes, asked={"device": device})
    with WorkerSession(config) as session:
        start_workers(session, QUICK, ALIKE)
        send, others_ready = session.pool.send, list[bool]()

        def record(arm: str, command: Command) -> None:
            if (arm, command) == (ALIKE.id, WarmUp()):
                others_ready.append(session.pool.is_warmed_up(QUICK.id))
            send(arm, command)

        monkeypatch.setattr(session.pool, "send", record)
        assert worker_events_of(session.prepare([QUICK.id, ALIKE.id]), Ready, ALIKE.id)
        assert others_ready == [device == "cpu"]


def test_a_standby_of_another_process_is_ended(session: WorkerSession) -> None:
    start_workers(session)
    session.pool.standbys.add_all([(QUICK, 1), (ALIKE, 1)])
    ended = [*session.pool.standbys.workers.values()]
    list(session.start([(QUICK, 2)], repeat=1))
    assert not session.pool.standbys.workers
    assert not any(process_tree(each.directory) for each in ended)
    assert worker_events_of(session.build(QUICK.id), Ready)


def test_a_build_is_suspended_before_it_has_imported_and_can_be_ended(
    session: WorkerSession,
) -> None:
    start_workers(session)
    builds = SideBySideBuilds(session.pool, 1)
    found = session.pool.workers

    def has_started() -> bool:
        """Wait for the process below the watchdog."""
        workers.wait_until(lambda: len(process_tree(found[SLOW.id].directory)) > 1)
        return True

    list(builds.run(taking([SLOW], session), has_started))
    worker = found[SLOW.id]
    assert_stands_still(worker)
    failure = Failure("skipped", "build", "no time is left", skip_cause="out-of-time")
    assert outcomes_by_arm(session.pool.drop(SLOW.id, failure)) == {SLOW.id: Outcome(failure)}
    builds.forget_ended()
    assert builds.running == []
    assert not process_tree(worker.directory)


def test_an_arm_that_is_dropped_before_it_runs_has_an_outcome(session: WorkerSession) -> None:
    failure = Failure("timed-out", phase="build", reason="no time is left")
    assert outcomes_by_arm(session.pool.drop("quick", failure, 3)) == {"quick": Outcome(failure)}


def test_memory_of_an_arm_built_side_by_side_is_what_its_end_frees(
    open_session: Callable[..., WorkerSession],
) -> None:
    # The first build reads it too.
    monitor, _ = nvml.monitor_of(*(each << 30 for each in (5, 5, 5, 2)))
    session = open_session(ConditionsMonitor(), monitor)
    start_workers(session, QUICK)
    build_all(session, QUICK)
    list(session.build(QUICK.id))
    stopped = list(session.stop({QUICK.id}))
    (memory,) = of_kind(stopped, run_events.DeviceMemory)
    assert (memory.source, memory.peak_bytes) == ("freed", 3 << 30)


@pytest.mark.parametrize(
    ("processors", "at_once", "sizes"),
    [(range(16), 8, [2] * 8), (range(2), 8, [1, 1]), (range(5), 2, [3, 2]), (range(4), 1, [4])],
)
def test_shares_cover_every_processor_once(
    processors: range, at_once: int, sizes: list[int]
) -> None:
    shares = ProcessorShares(processors, at_once)
    names = [str(number) for number in range(len(sizes))]
    for name in names:
        assert shares.has_free()
        shares.take(name)
    taken = [shares.of(name) for name in names]
    assert [len(each) for each in taken] == sizes
    assert frozenset().union(*taken) == frozenset(processors)
    assert not shares.has_free()
    shares.release("0")
    assert shares.has_free()


def test_builds_that_run_share_all_processors() -> None:
    shares = ProcessorShares(range(6), 3)
    for name in ("short", "long", "longest"):
        shares.take(name)
    shares.release("short")
    assert shares.divide()
    assert shares.of("long") | shares.of("longest") == frozenset(range(6))
    assert not shares.of("long") & shares.of("longest")
    shares.release("long")
    assert shares.divide()
    assert len(shares.of("longest")) == shares.count == 6
    assert shares.has_free()
    shares.take("next")
    assert (len(shares.of("longest")), len(shares.of("next"))) == (3, 3)
    assert not shares.divide()
    assert not shares.of("longest") & shares.of("next")


def test_builds_for_a_gpu_are_confined_until_they_are_prepared(
    tmp_path: pathlib.Path, fake_probes: pathlib.Path
) -> None:
    visible = os.sched_getaffinity(0)
    if len(visible) < 2:
        pytest.skip("needs two processors")
    cpu = builders.replace(builders.machine().cpu, usable_processors=len(visible))
    machine = builders.machine(cpu=cpu)
    asked = {"device": "cuda", "batch_sizes": (2, 4)}
    config = sessions.run_config(tmp_path, fake_probes, asked=asked, machine=machine)
    with WorkerSession(config) as session:
        start_workers(session)
        choose = taking([QUICK, ALIKE], session)
        found: list[set[int]] = []
        for each in SideBySideBuilds(session.pool, 2).run(choose, lambda: False):
            if isinstance(each, run_events.BuildStarted):
                processors = os.sched_getaffinity(session.pool.workers[each.arm].popen.pid)
                # The second build gets all of them if the first one has finished by then.
                assert len(processors) == each.processors
                found.append(processors)
        assert found[0] < visible
        for arm in (QUICK.id, ALIKE.id):
            assert os.sched_getaffinity(session.pool.workers[arm].popen.pid) == visible
