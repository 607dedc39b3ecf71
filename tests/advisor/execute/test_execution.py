"""A decision gives the same bytes and loads no workers; events; waiting for quiet; further arms."""

from __future__ import annotations

import pathlib
import sys
import types
from collections.abc import Sequence

import builders
import pytest
from fake_clock import FakeClock
from forks import run_command

from advisor.domain.answer import encode
from advisor.domain.catalogue import EarlierRuns
from advisor.domain.machine import GpuProcess, MachineActivity
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import ArmsPlanned, Finished, LoggedEvent, QuietChecked, Resumed
from advisor.domain.run_state import RunState
from advisor.domain.workflow import DeclaredArm
from advisor.execute import remaining
from advisor.execute.quiet import check_now, find_problems, wait_until_quiet
from advisor.execute.run_in_progress import Recorder
from advisor.report.answer_files import decide
from advisor.report.formatting import describe_check
from advisor.store.runs import Run
from advisor.store.store import Store

DECIDE_SCRIPT = """
import pathlib, sys
from advisor.report.answer_files import decide
from advisor.domain.answer import encode
from advisor.store.runs import Run

sys.stdout.write(encode(decide(Run(pathlib.Path(sys.argv[1])))))
"""


def test_another_process_with_another_hash_seed_gives_the_same_bytes(made_run: Run) -> None:
    command = [sys.executable, "-c", DECIDE_SCRIPT, str(made_run.directory)]
    assert run_command(command, {"PYTHONHASHSEED": "7"}).stdout == encode(decide(made_run))


def test_an_event_is_stored_and_folded_before_it_is_yielded() -> None:
    stored: list[LoggedEvent] = []
    recorder = Recorder(RunState(), clock=lambda: 0.0, store=stored.append)
    plan = builders.plan("compiled")
    events = recorder.record_each([ArmsPlanned(plan=plan), Finished()])
    first = next(events)
    assert stored == [first]
    assert recorder.state.plan == plan
    assert not recorder.state.finished
    second = next(events)
    assert stored == [first, second]
    assert recorder.state.finished


def test_numbers_and_times_continue_from_the_last_event() -> None:
    seconds = iter([100.0, 100.5, 102.0])
    recorder = Recorder(RunState(seq=7, at=40.0), clock=lambda: next(seconds), store=lambda _: None)
    events = [recorder.record(Resumed()), recorder.record(Resumed())]
    assert [(event.seq, event.at) for event in events] == [(8, 40.5), (9, 42.0)]


def test_an_event_that_cannot_be_stored_is_not_folded() -> None:
    def fail(_: LoggedEvent) -> None:
        raise OSError

    recorder = Recorder(RunState(), clock=lambda: 0.0, store=fail)
    with pytest.raises(OSError):  # noqa: PT011 - any will do
        recorder.record(Finished())
    assert recorder.state == RunState()


QUIET = MachineActivity(seconds=1.0, usable_processors=2, idle_processors=2.0, stolen_share=0.0)
BUSY = builders.replace(QUIET, idle_processors=0.9)
LIMITS = builders.shipped_catalogue().presets.quiet


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, ()),
        ({"idle_processors": 0.9}, ("cpu-busy",)),
        # A cgroup with two of 64 processors, on a host whose other processors are idle.
        ({"idle_processors": 30.0}, ()),
        ({"idle_processors": None, "stolen_share": None}, ()),
        ({"stolen_share": 0.2}, ("cpu-stolen",)),
        ({"gpu_processes": (GpuProcess(pid=1, memory_bytes=None, name=None),)}, ("gpu-processes",)),
        ({"gpu_busy_share": 0.5}, ("gpu-busy",)),
        ({"gpu_busy_share": 0.0, "temperature_c": 40, "clocks_held_down": False}, ()),
        ({"clocks_held_down": True, "temperature_c": 90}, ("gpu-clocks-held-down",)),
    ],
)
def test_what_disturbs_is_found(changes: dict[str, object], problems: tuple[str, ...]) -> None:
    check = check_now(lambda _: builders.replace(QUIET, **changes), LIMITS)
    assert check.problems == problems
    assert (describe_check(check, waits=False) is None) == (not problems)


def wait(
    loads: Sequence[MachineActivity], allowed_seconds: float
) -> tuple[list[QuietChecked], float]:
    """Return the checks of a machine with these loads, and the seconds that they took."""
    clock, left = FakeClock(), list(loads)

    def read(seconds: float) -> MachineActivity:
        clock.advance(seconds)
        return left.pop(0) if len(left) > 1 else left[0]

    checks = list(wait_until_quiet(read, LIMITS, allowed_seconds, clock.perf_counter))
    return checks, clock.perf_counter()


def test_without_a_limit_the_load_is_observed_once() -> None:
    for load in (QUIET, BUSY):
        (checked,), seconds = wait([load], 0.0)
        assert not checked.waits
        assert checked.check.problems == find_problems(load, LIMITS)
        assert seconds == pytest.approx(LIMITS.sample_seconds)


def test_a_quiet_machine_does_not_wait() -> None:
    (checked,), _ = wait([QUIET], 300.0)
    assert not checked.waits
    assert checked.check.waited_seconds == 0.0


def test_waiting_ends_when_the_machine_is_quiet() -> None:
    (first, last), seconds = wait([BUSY, BUSY, BUSY, QUIET], 300.0)
    assert first.waits
    assert not last.waits
    assert last.check.problems == ()
    assert last.check.waited_seconds == pytest.approx(3 * LIMITS.waiting_sample_seconds)
    assert seconds < 300


def test_waiting_ends_at_the_limit() -> None:
    checks, seconds = wait([BUSY], 12.0)
    assert [checked.waits for checked in checks] == [True, False]
    assert checks[-1].check.problems == ("cpu-busy",)
    assert checks[-1].check.waited_seconds == pytest.approx(12.0)
    assert seconds == pytest.approx(12.0 + LIMITS.sample_seconds)


@pytest.mark.parametrize(
    ("layers", "named", "added"),
    [
        (1, (), []),
        (2, (), ["images/channels-last"]),
        (2, ("images",), ["images/channels-last"]),
        (2, ("others",), []),
    ],
)
def test_arms_for_convolutions_are_added_if_the_model_has_several(
    layers: int, named: tuple[str, ...], added: list[str], tmp_path: pathlib.Path
) -> None:
    images = builders.workflow(
        "images",
        arms={
            "default": DeclaredArm(),
            "channels-last": DeclaredArm(after="convolutions"),
            "text": DeclaredArm(after="convolutions", tasks=("generate",)),
        },
    )
    figures = {"cpu": {"images/channels-last": EarlierRuns(build_seconds=7.0)}}
    header = builders.header(
        question=builders.question(workflows=named),
        catalogue=builders.catalogue(images, earlier_runs=figures),
    )
    process = builders.process()
    opened = builders.replace(builders.known(process.opened), convolutions=layers)
    reference = builders.replace(process, opened=opened)
    state = builders.run_state({"images": process, REFERENCE: reference})
    progress = types.SimpleNamespace(state=state, header=header, store=Store(tmp_path))
    found = remaining.arms_to_add(progress)  # type: ignore[arg-type]
    arms = [planned for each in found for planned in each.added]
    assert [each.id for each in arms] == added
    assert [each.expected_build_seconds for each in arms] == [7.0] * len(added)
    plan = state.plan
    plan = builders.replace(plan, arms=(*plan.arms, *arms))
    progress.state = builders.replace(state, plan=plan)
    assert remaining.arms_to_add(progress) == []  # type: ignore[arg-type]
