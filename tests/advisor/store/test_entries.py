"""Cached entries of the history hold for one version and for the events they were made from."""

from __future__ import annotations

import pathlib

import pytest
from known_runs import HISTORY, make_run

from advisor.domain.answer import AnswerSummary
from advisor.domain.interval import Interval
from advisor.store import runs
from advisor.store.runs import ENTRY, load_entry
from advisor.store.store import Store

SUMMARY = AnswerSummary(
    arm="compiled",
    decision_word="OPEN",
    trust="C",
    speedup=Interval(value=2.0, low=1.9, high=None),
    headline="Use",
)


def cached_answer(store: Store) -> AnswerSummary | None:
    (entry,) = store.history()
    return entry.answer


def test_an_entry_and_its_answer_hold_for_their_version_and_events(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, store = make_run(home), Store(home)
    (entry,) = store.history()
    assert load_entry(str(run.directory), run.events_bytes()) == entry
    assert load_entry(str(run.directory), run.events_bytes() - 1) is None
    store.save_answer(entry, SUMMARY, run.events_bytes() - 1)
    assert cached_answer(store) is None
    store.save_answer(entry, SUMMARY, run.events_bytes())
    assert cached_answer(store) == SUMMARY
    monkeypatch.setattr(runs, "__version__", "0.0.0")
    assert cached_answer(store) is None


def test_an_entry_of_another_run_is_not_used(three_runs: Store, home: pathlib.Path) -> None:
    before = three_runs.history()
    first, second = (home / "runs" / run_id / ENTRY for run_id in HISTORY[:2])
    first.write_bytes(second.read_bytes())
    assert three_runs.history() == before


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b'{"entry": 1}', b"[" * 100_000])
def test_a_damaged_entry_is_made_again(
    content: bytes, three_runs: Store, home: pathlib.Path
) -> None:
    before = three_runs.history()
    file = home / "runs" / HISTORY[0] / ENTRY
    file.write_bytes(content)
    assert three_runs.history() == before
    assert file.read_bytes() != content


def test_the_history_works_where_an_entry_cannot_be_written(
    three_runs: Store, home: pathlib.Path
) -> None:
    (home / "runs" / HISTORY[0] / ENTRY).mkdir()
    assert [entry.run_id for entry in three_runs.history()] == HISTORY
