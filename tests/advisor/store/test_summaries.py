"""Stored answers of runs: they hold for one version and for the events they were decided from."""

from __future__ import annotations

import pathlib

import pytest
from recorded_runs import make_run

from advisor.domain.answer import AnswerSummary
from advisor.domain.interval import Interval
from advisor.store import summaries
from advisor.store.store import Store
from advisor.store.summaries import FILE_NAME, load_summary, save_summary

SUMMARY = AnswerSummary(
    arm="compiled",
    decision_word="OPEN",
    trust="C",
    speedup=Interval(value=2.0, low=1.9, high=None),
    headline="Use",
)


def test_a_summary_holds_for_its_version_and_events(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(Store(tmp_path), finished=True)
    assert load_summary(run) is None
    save_summary(run, SUMMARY, run.events_bytes() - 1)
    assert load_summary(run) is None
    save_summary(run, SUMMARY, run.events_bytes())
    assert load_summary(run) == SUMMARY
    monkeypatch.setattr(summaries, "__version__", "0.0.0")
    assert load_summary(run) is None


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b'{"arm": "compiled"}', b"[" * 100_000])
def test_a_damaged_summary_is_none(content: bytes, tmp_path: pathlib.Path) -> None:
    run = make_run(Store(tmp_path), finished=True)
    (run.directory / FILE_NAME).write_bytes(content)
    assert load_summary(run) is None
    save_summary(run, SUMMARY, run.events_bytes())
    assert load_summary(run) == SUMMARY


def test_a_summary_that_cannot_be_written_is_not_stored(tmp_path: pathlib.Path) -> None:
    run = make_run(Store(tmp_path), finished=True)
    (run.directory / FILE_NAME).mkdir()
    save_summary(run, SUMMARY, run.events_bytes())
    assert load_summary(run) is None
