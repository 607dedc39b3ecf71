"""Answers of runs for lists: each is decided once, and again when its events change."""

from __future__ import annotations

import pathlib

from recorded_runs import make_run

from advisor.pipeline.answer_summaries import read_summaries
from advisor.store.runs import ENTRY
from advisor.store.store import Store


def test_the_summary_of_a_run_is_stored_and_follows_its_events(tmp_path: pathlib.Path) -> None:
    store = Store(tmp_path)
    run = make_run(store, finished=True)

    def arm() -> str | None:
        (summary,) = read_summaries(store, store.history()).values()
        return summary.arm

    assert arm() == "compiled"
    file = run.directory / ENTRY
    file.write_bytes(file.read_bytes().replace(b'"compiled"', b'"exported"'))
    assert arm() == "exported"
    with (run.directory / "events.jsonl").open("a") as events:
        events.write(" ")
    assert arm() == "compiled"
    file.write_bytes(b"\xff")
    assert arm() == "compiled"
