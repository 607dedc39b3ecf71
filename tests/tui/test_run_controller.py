"""Runs through the screens: skipped, asked once more, taken up again, left behind without a trace."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable

import msgspec
import psutil
import pytest
from onscreen import asynchronous, lines_of, shown, wait_for, wait_for_screen
from recorded_runs import make_run

from advisor.context import Context
from advisor.domain.outcome import Skipped
from advisor.domain.run_events import Finished, LoggedEvent, RunEvent
from advisor.errors import GpuNotAttachedError
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.question.answers import Answers
from advisor.report.document import encode
from advisor.store import Run, Store
from advisor.tui import documents
from advisor.tui.app import AdvisorApp
from advisor.tui.documents import document_of
from advisor.tui.options import LaunchOptions
from advisor.tui.run.host_process import Host
from advisor.tui.run.retry import failed_arms, propose_again
from advisor.tui.run.session import Session
from advisor.tui.screens.results import Results
from advisor.tui.widgets.table import Table


class Copyist:
    """Stands for the process that works on a run: it writes what another run came to, one event at a time."""

    def __init__(self, run: Run, events: list[LoggedEvent]) -> None:
        self._run, self._events = run, events
        self.is_paused = False

    @property
    def is_running(self) -> bool:
        return bool(self._events)

    def look(self) -> None:
        if not self._events:
            return
        with self._run.writer() as writer:
            writer.append(self._events.pop(0))


def test_a_run_taken_up_again_after_any_event_comes_to_the_same_document(
    tmp_path: pathlib.Path,
) -> None:
    run = make_run(Store(tmp_path), finished=True)
    file = run.directory / "events.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    events, watched = run.events(), Session.of(run)
    watched.look()
    whole = encode(document_of(watched.judge()))
    for kept in range(1, len(lines)):
        file.write_bytes(
            b"".join(lines[:kept]) + lines[kept][:5]
        )  # killed while it wrote the next one
        session = Session.of(run, Copyist(run, events[kept:]))  # type: ignore[arg-type]
        while not session.is_over:
            session.look()
        assert encode(document_of(session.judge())) == whole, kept


def sleepers() -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] == ["sleep", "3601"]
    ]


@asynchronous
async def test_an_arm_that_hangs_is_skipped_and_asked_once_more_and_left_behind_without_a_trace(
    tui_world: Context, fake_host: Callable[[Run], Host]
) -> None:
    answers = Answers(gpu="cpu", workflows="misbehaving/escapes", batch_sizes="1", budget="2")
    async with shown(
        AdvisorApp(LaunchOptions(answers=answers), tui_world, start_host=fake_host)
    ) as pilot:
        assert isinstance(pilot.app, AdvisorApp)
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, "Live")
        await pilot.press("s")
        await wait_for(pilot, lambda: "compared with it" in lines_of(pilot))
        await wait_for(pilot, sleepers)
        pilot.app.screen.query_one(Table).point_at("misbehaving/escapes")
        await pilot.press("s")
        await wait_for_screen(pilot, "Results")
        assert sleepers() == []
        screen = pilot.app.screen
        assert isinstance(screen, Results)
        assert isinstance(
            screen.original.state.processes["misbehaving/escapes"][0].outcome, Skipped
        )
        assert failed_arms(screen.original) == ("misbehaving/escapes",)
        await pilot.press("x")
        await wait_for(pilot, lambda: "skipped by the user in the phase build" in lines_of(pilot))
        await pilot.press("f")
        await wait_for_screen(pilot, "Live")
        session = pilot.app.runs.session
        assert session is not None
        assert session.follower.header.question.workflows == ("misbehaving/escapes",)
        await wait_for(pilot, sleepers)
        await pilot.press("q", "c")
        await wait_for(pilot, lambda: pilot.app.return_value is not None)
    assert pilot.app.return_value == 130
    assert psutil.wait_procs(sleepers(), 30)[1] == []


@asynchronous
async def test_a_run_whose_process_was_killed_is_resumed_from_the_history(
    tui_world: Context, fake_host: Callable[[Run], Host]
) -> None:
    run = prepare(Answers(gpu="cpu", batch_sizes="1", budget="2", workflows="quick"), tui_world)
    host = fake_host(run)
    async with shown(AdvisorApp(LaunchOptions(), tui_world, start_host=fake_host)) as pilot:
        await wait_for(
            pilot, lambda: "race-opened" in {tag_of(event.run_event) for event in run.events()}
        )
        host._process.kill()
        host.end()
        measured = len(run.events())
        pilot.app.action_history()  # type: ignore[attr-defined]
        await wait_for_screen(pilot, "History")
        pilot.app.screen.query_one(Table).point_at(run.directory.name)
        await pilot.press("r")
        await wait_for_screen(pilot, "Results")
        assert lines_of(pilot).splitlines()[1].startswith((" Use ", " Tie "))
    events = run.events()
    assert isinstance(events[-1].run_event, Finished)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert "resumed" in {tag_of(event.run_event) for event in events[measured:]}


def tag_of(run_event: RunEvent) -> str:
    return str(run_event.__struct_config__.tag)


def test_what_failed_on_a_gpu_that_is_gone_is_not_asked_again(tmp_path: pathlib.Path) -> None:
    header = make_run(Store(tmp_path), finished=True).header()
    asked = msgspec.structs.replace(
        header.question, gpu="GPU-gone", device="cuda", python=sys.executable
    )
    with pytest.raises(GpuNotAttachedError):
        propose_again(msgspec.structs.replace(header, question=asked), ("broken/default",))


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (".html", "<!doctype html>"),
        (".md", "| compiled |"),
        (".csv", "compiled,"),
        (".json", '"compiled"'),
    ],
)
def test_a_run_is_exported_as_its_file_name_says(
    ending: str, words: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / f"out{ending}"
    decision = decide(make_run(Store(tmp_path), finished=True))
    documents.write(documents.document_of(decision), file, decision.state)
    assert words in file.read_text().lower()
    assert set(documents.MAKERS) == {".html", ".md", ".csv", ".json"}
    assert not list(tmp_path.glob(".*"))
