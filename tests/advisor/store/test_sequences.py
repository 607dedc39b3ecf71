"""What was appended to the store stays, whatever sequence of steps follows."""

from __future__ import annotations

import contextlib
import pathlib
import random
import shutil
import tempfile
from typing import Any

import hypothesis
import msgspec
import pytest
import recorded_runs
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from advisor.domain.run_events import LoggedEvent
from advisor.errors import UserError
from advisor.pipeline.stored.remaining import newest_resumable
from advisor.store import export_file
from advisor.store.runs import ENTRY, Run
from advisor.store.store import Store


def recorded_events() -> tuple[Any, list[LoggedEvent]]:
    """Return the header and the events of a complete run."""
    with tempfile.TemporaryDirectory() as home:
        run = recorded_runs.make_run(Store(pathlib.Path(home)), finished=True)
        return run.header(), run.events()


HEADER, EVENTS = recorded_events()
pytestmark = pytest.mark.slow


class StoreMachine(RuleBasedStateMachine):
    """Creates, extends, cuts off, exports, imports and deletes runs; `stored` says what is kept."""

    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.home = pathlib.Path(tempfile.mkdtemp())
        self.store = Store(self.home)
        self.stored: dict[str, list[LoggedEvent]] = {}
        self.numbers = iter(range(10**6))

    def teardown(self) -> None:
        shutil.rmtree(self.home)

    @rule(target=runs)
    def create(self) -> str:
        run_id = f"20261121-1200{next(self.numbers) % 60:02d}-{next(self.numbers):04x}"
        run = self.store.create(msgspec.structs.replace(HEADER, run_id=run_id))
        self.stored[run_id] = []
        self._append(run, 1)
        return run_id

    def _append(self, run: Run, count: int) -> None:
        events = self.stored[run.directory.name]
        with run.writer() as writer:
            for event in EVENTS[len(events) : len(events) + count]:
                writer.append(event)
                events.append(event)

    @rule(run_id=runs, count=st.integers(1, 40))
    def append(self, run_id: str, count: int) -> None:
        self._append(self.store.find(run_id), count)

    @rule(run_id=runs, size=st.integers(1, 60))
    def leave_a_partial_line(self, run_id: str, size: int) -> None:
        """Do what a writer does that is killed while it writes."""
        events = self.stored[run_id]
        if len(events) < len(EVENTS):
            line = msgspec.json.encode(EVENTS[len(events)])
            with (self.store.run_directory(run_id) / "events.jsonl").open("ab") as file:
                file.write(line[: min(size, len(line) - 1)])

    @rule(run_id=runs, text=st.text(max_size=40))
    def note(self, run_id: str, text: str) -> None:
        self.store.find(run_id).write_note(text)
        assert "\n" not in self.store.find(run_id).note()

    @rule(run_id=runs)
    def write_twice(self, run_id: str) -> None:
        """Refuse a second writer."""
        run = self.store.find(run_id)
        with run.writer():
            assert run.is_active()
            try:
                with run.writer():
                    message = "two writers"
                    raise AssertionError(message)
            except UserError:
                pass
        assert not run.is_active()

    @rule(run_id=consumes(runs))
    def delete(self, run_id: str) -> None:
        self.store.delete(run_id)
        del self.stored[run_id]

    @rule(run_id=runs)
    def export_and_import(self, run_id: str) -> None:
        run = self.store.find(run_id)
        with contextlib.suppress(UserError):
            content = export_file.encode_run(run, None)
            header, events = export_file.decode_run(content, "sent")
            with tempfile.TemporaryDirectory() as other:
                copy = export_file.import_run(Store(pathlib.Path(other)), header, events)
                assert len(copy.events()) == len(self.stored[run_id])

    @rule(run_id=runs, seed=st.integers(0, 2**16))
    def damage_the_entry(self, run_id: str, seed: int) -> None:
        file = self.home / "runs" / run_id / ENTRY
        if file.exists():
            content = bytearray(file.read_bytes())
            chance = random.Random(seed)
            for _ in range(20):
                content[chance.randrange(len(content))] = chance.randrange(256)
            file.write_bytes(content)

    @rule(run_id=runs)
    def remove_the_entry(self, run_id: str) -> None:
        (self.home / "runs" / run_id / ENTRY).unlink(missing_ok=True)

    @rule()
    def leave_files_of_others(self) -> None:
        (self.home / "runs").mkdir(exist_ok=True)
        for name in ("stray", "20261121-broken", ".import-x"):
            (self.home / "runs" / name).mkdir(exist_ok=True)

    @invariant()
    def nothing_is_lost(self) -> None:
        for run_id, events in self.stored.items():
            assert Run(self.store.run_directory(run_id)).events() == events

    @invariant()
    def history_lists_every_run(self) -> None:
        assert {entry.run_id for entry in self.store.history()} == set(self.stored)

    @invariant()
    def resume_finds_a_run_or_says_why_not(self) -> None:
        with contextlib.suppress(UserError):
            run = newest_resumable(self.store)
            assert not run.state().finished


TestSequences = StoreMachine.TestCase
TestSequences.settings = hypothesis.settings(max_examples=5, stateful_step_count=20, deadline=None)
