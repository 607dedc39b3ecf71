"""The event sources of the screens, and pauses and detachment of the host process."""

from __future__ import annotations

import pathlib
import time

import pytest
from recorded_runs import make_run
from sessions import expect_failure

from advisor.ask.run_options import RunOptions
from advisor.cli import run_host as hosting
from advisor.cli.run_host import Gate
from advisor.context import Context
from advisor.domain.event_folding import fold
from advisor.domain.run_events import (
    Finished,
    WorkerEnded,
    WorkerReported,
)
from advisor.execute.drafts import prepare
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.tui import session as tui_session
from advisor.tui.session import RecordingPlayback, RunSession, StartHost
from probes.wire.events import PhaseStarted
from probes.wire.outcome import Outcome
from probes.wire.shape import Shape


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Run:
    return make_run(Store(tmp_path), finished=True)


def test_an_event_file_read_in_pieces_gives_the_same_state(run: Run) -> None:
    file = run.directory / "events.jsonl"
    whole, expected = file.read_bytes(), fold(run.events())
    file.write_bytes(b"")
    session = RunSession(run)
    for end in range(0, len(whole) + 97, 97):
        file.write_bytes(whole[:end])
        session.refresh()
    assert session.state == expected


def test_a_recording_is_played_back_at_its_own_times(run: Run) -> None:
    clock = [0.0]
    session = RunSession(run, source=RecordingPlayback(run, 2.0, lambda: clock[0]))
    events = run.events()
    for now in (1.0, 3.0, 100.0):
        clock[0] = now
        session.refresh()
        assert session.state == fold([event for event in events if event.at <= 2 * now])


def test_the_answer_so_far_is_that_of_a_run_that_stops_now(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tui_session, "evaluate", lambda *arguments, **options: (arguments, options))
    session = RunSession(run)
    session.refresh()
    rank = session.ranking_job(0.0)
    assert rank is not None
    assert rank() == session.decide()


def test_a_pause_stops_the_clock() -> None:
    now, states = [10.0], list[str]()
    gate = Gate(lambda: now[0], states.append)
    gate.pass_through()
    assert gate.clock() == 10
    gate.close()

    def send_state(state: str) -> None:
        states.append(state)
        if state == "paused":
            now[0] += 5
            gate.open()

    gate._send_state = send_state
    gate.pass_through()
    assert states == ["paused", "going"]
    assert gate.clock() == 10


def test_a_run_pauses_only_between_sections() -> None:
    ended = WorkerEnded(arm="quick", process=0, outcome=Outcome())
    building = WorkerReported(
        arm="quick", process=0, worker_event=PhaseStarted(phase="build", shape=Shape(1))
    )
    assert [hosting._is_between_sections(each) for each in (ended, building)] == [True, False]


@pytest.mark.slow
def test_an_arm_is_skipped_before_its_worker_starts_and_not_after_it_has_ended(
    tui_context: Context, fake_host: StartHost
) -> None:
    run_options = RunOptions(
        gpu="cpu", batch_sizes="3", budget="1s", all_arms=True, workflows="quick"
    )
    run = prepare(run_options, tui_context)
    run.control.send("cancel")  # to an earlier process
    session = RunSession(run, fake_host(run, 0.5))
    session.refresh()
    assert session.why_not_skipped("quick") == ""
    session.skip("quick")
    while not session.is_finished:
        assert session.is_running
        time.sleep(0.1)
        session.refresh()
    failure = expect_failure(session.state.processes["quick"][0].outcome, "skipped")
    assert failure.skip_cause == "user"
    check = session.state.quiet_check
    assert check is not None
    assert check.allowed_seconds == 0.5


@pytest.mark.slow
def test_a_detached_run_continues_to_its_end(tui_context: Context, fake_host: StartHost) -> None:
    run = prepare(
        RunOptions(gpu="cpu", batch_sizes="3", budget="1s", all_arms=True, workflows="quick"),
        tui_context,
    )
    host = fake_host(run, None)
    session = RunSession(run, host)
    while not session.state.opened:
        time.sleep(0.01)
        session.refresh()
    session.toggle_pause()
    while not session.is_paused:
        time.sleep(0.01)
    session.toggle_pause()
    host.detach()
    end = time.monotonic() + 60
    while not isinstance(run.events()[-1].run_event, Finished) and time.monotonic() < end:
        time.sleep(0.1)
    session = RunSession(run)
    session.refresh()
    assert session.is_finished
    assert not host.is_running or host._process.wait(10) == 0
