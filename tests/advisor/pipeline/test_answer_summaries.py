"""Answers of runs for lists: each is decided once, and again when its events change."""

from __future__ import annotations

import pathlib

from recorded_runs import make_run

from advisor.pipeline.answer_summaries import read_summary
from advisor.store.store import Store
from advisor.store.summaries import FILE_NAME


def test_the_summary_of_a_run_is_stored_and_follows_its_events(tmp_path: pathlib.Path) -> None:
    run = make_run(Store(tmp_path), finished=True)
    summary = read_summary(run)
    assert (summary.arm, summary.trust) == ("compiled", "C")
    file = run.directory / FILE_NAME
    file.write_bytes(file.read_bytes().replace(b'"compiled"', b'"exported"'))
    assert read_summary(run).arm == "exported"
    with (run.directory / "events.jsonl").open("a") as events:
        events.write(" ")
    assert read_summary(run).arm == "compiled"
    file.write_bytes(b"\xff")
    assert read_summary(run).arm == "compiled"
