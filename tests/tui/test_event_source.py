"""What the screens are fed with: the end of a file, a recording, a process that obeys."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

import builders
import msgspec
import pytest
from onscreen import asynchronous, lines_of, shown, wait_for_screen
from recorded_runs import make_run

from advisor.cli import host as hosting
from advisor.cli.host import Gate
from advisor.context import Context
from advisor.domain.run_events import Finished, LoggedEvent, Surveyed, WorkerReported
from advisor.domain.run_state import fold
from advisor.domain.worker_events import PhaseStarted
from advisor.pipeline.draft import prepare
from advisor.question.answers import Answers
from advisor.store import Run, Store
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.run.event_source import Follower, Recording, Tail
from advisor.tui.run.host_process import Host
from advisor.tui.run.session import Session


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Run:
    return make_run(Store(tmp_path), finished=True)


def test_a_file_followed_in_pieces_gives_the_state_of_the_whole(run: Run) -> None:
    file = run.directory / "events.jsonl"
    whole, expected = file.read_bytes(), fold(run.events())
    file.write_bytes(b"")
    follower = Follower(run, Tail(run))
    for end in range(0, len(whole) + 97, 97):
        file.write_bytes(whole[:end])
        follower.advance()
    assert follower.state == expected


def test_a_recording_comes_at_its_own_times(run: Run) -> None:
    clock = [0.0]
    follower = Follower(run, Recording(run, 2.0, lambda: clock[0]))
    events = run.events()
    for now in (1.0, 3.0, 100.0):
        clock[0] = now
        follower.advance()
        assert follower.state == fold([event for event in events if event.at <= 2 * now])


def test_a_pause_stops_the_clock() -> None:
    now, words = [10.0], list[str]()
    gate = Gate(lambda: now[0], words.append)
    gate.pass_through()
    assert gate.clock() == 10
    gate.close()

    def say(word: str) -> None:
        words.append(word)
        if word == "paused":
            now[0] += 5
            gate.open()

    gate._say = say
    gate.pass_through()
    assert words == ["paused", "going"]
    assert gate.clock() == 10


def test_a_pause_comes_between_sections_and_between_the_models_of_a_survey() -> None:
    found = Surveyed(workflow="quick", model="demo", family="demo", verdict="pass", reason=None)
    building = WorkerReported(
        arm="quick", process=0, said=PhaseStarted(phase="build", batch_size=1)
    )
    assert [hosting._is_between_sections(each) for each in (found, building)] == [True, False]


@pytest.mark.parametrize("paused", [False, True], ids=["at work", "paused"])
def test_a_run_that_is_left_alone_goes_on_to_its_end(
    tui_world: Context, fake_host: Callable[[Run], Host], *, paused: bool
) -> None:
    run = prepare(Answers(gpu="cpu", batch_sizes="3", budget="2", workflows="quick"), tui_world)
    host = fake_host(run)
    if paused:
        host.order("pause")
    while host.is_paused != paused:
        host.look()
        time.sleep(0.01)
    host.leave_alone()
    end = time.monotonic() + 60
    while not isinstance(run.events()[-1].run_event, Finished) and time.monotonic() < end:
        time.sleep(0.1)
    session = Session.of(run)
    session.look()
    assert session.is_over
    assert not host.is_running or host._process.wait(10) == 0


@asynchronous
async def test_ten_thousand_events_at_once_are_all_taken_in_and_the_screen_answers(
    run: Run, tui_world: Context
) -> None:
    last = run.events()[-3]
    visits = builders.visits([0.004] * 10_000, first_round=7)
    with (run.directory / "events.jsonl").open("rb") as file:
        lines = file.read().splitlines(keepends=True)
    flood = [
        LoggedEvent(
            seq=last.seq + number,
            at=last.at,
            run_event=WorkerReported(arm="compiled", process=0, said=visit),
        )
        for number, visit in enumerate(visits)
    ]
    (run.directory / "events.jsonl").write_bytes(
        b"".join(lines[:-6]) + b"".join(msgspec.json.encode(event) + b"\n" for event in flood)
    )
    async with shown(AdvisorApp(LaunchOptions(), tui_world)) as pilot:
        assert isinstance(pilot.app, AdvisorApp)
        pilot.app.runs.show(Session.of(run))
        await wait_for_screen(pilot, "Live")
        assert f"{len(visits) + 7}"[:4] in lines_of(pilot)
        await pilot.press("question_mark")
        await wait_for_screen(pilot, "Help")
