"""Tests of the list of stored runs."""

from __future__ import annotations

import pathlib

import builders
from known_runs import HISTORY, IDS, make_run

from advisor.domain.run_events import Finished
from advisor.store.runs import HistoryEntry
from advisor.store.store import Store


def run_ids(entries: list[HistoryEntry]) -> list[str]:
    return [entry.run_id for entry in entries]


def test_the_history_is_newest_first_with_model_and_device(three_runs: Store) -> None:
    entries = three_runs.history()
    assert run_ids(entries) == HISTORY
    assert [entry.finished for entry in entries] == [True, False, True]
    assert {(entry.model, entry.device) for entry in entries} == {("synthetic/ffn@8x16", "CPU")}
    assert entries == three_runs.history()


def test_the_history_has_the_measured_gpu(home: pathlib.Path) -> None:
    two = (
        builders.gpu(uuid="GPU-a", name="NVIDIA A100"),
        builders.gpu(uuid="GPU-b", name="NVIDIA H200"),
    )
    Store(home).create(
        builders.header(
            question=builders.question(device="cuda", gpu="GPU-b"),
            machine=builders.gpu_machine(*two),
        )
    )
    assert [entry.device for entry in Store(home).history()] == ["NVIDIA H200"]


def test_the_history_updates_a_run_that_has_finished(home: pathlib.Path) -> None:
    made = make_run(home)
    assert [entry.finished for entry in Store(home).history()] == [False]
    with made.writer() as writer:
        writer.append(builders.events(Finished())[0])
    assert [entry.finished for entry in Store(home).history()] == [True]


def test_the_history_drops_removed_runs(three_runs: Store, home: pathlib.Path) -> None:
    three_runs.history()
    (home / "runs" / IDS[2] / "run.json").unlink()
    assert run_ids(three_runs.history()) == HISTORY[1:]


def test_the_history_omits_a_damaged_run(three_runs: Store, home: pathlib.Path) -> None:
    (home / "runs" / IDS[1] / "run.json").write_bytes(b"rubbish")
    assert run_ids(three_runs.history()) == [IDS[2], IDS[0]]
