"""Two runs side by side: differences first, and no verdict between runs that asked different things."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import builders
import msgspec
import pytest
from handmade import make_run
from onscreen import asynchronous, lines_of, settle, shown, wait_for_screen

from advisor import pipeline
from advisor.domain.measurement import Seconds
from advisor.domain.question import Synthetic
from advisor.pipeline import Decision
from advisor.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.comparing import compare
from advisor.tui.wishes import Wishes
from advisor.world import World


@pytest.fixture
def decision(tmp_path: pathlib.Path) -> Decision:
    return bounded(pipeline.decide(make_run(Store(tmp_path), finished=True)), 1.0)


def bounded(decision: Decision, factor: float) -> Decision:
    """Return the decision with all times multiplied, and bounded within one percent."""
    measurements = []
    for entry in decision.results.measurements:
        cells = []
        for cell in entry.cells:
            median = cell.seconds.median * factor
            seconds = Seconds(median=median, low=median * 0.99, high=median * 1.01, samples=cell.seconds.samples)
            cells.append(msgspec.structs.replace(cell, seconds=seconds))
        measurements.append(msgspec.structs.replace(entry, cells=tuple(cells)))
    return dataclasses.replace(decision, results=msgspec.structs.replace(decision.results, measurements=tuple(measurements)))


def asked(decision: Decision, **changes: Any) -> Decision:
    header = msgspec.structs.replace(decision.header, question=msgspec.structs.replace(decision.header.question, **changes))
    return dataclasses.replace(decision, header=header)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "same"), (1.015, "same"), (1.5, "first"), (0.5, "second")])
def test_times_differ_only_where_their_intervals_do(decision: Decision, factor: float, verdict: str) -> None:
    compared = compare(decision, bounded(decision, factor))
    assert compared.is_fair
    assert compared.differences == ()
    assert {row.verdict for row in compared.arms} == {verdict}
    for row in compared.arms:
        assert row.change == pytest.approx(factor - 1)


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("model", {"model": Synthetic(name="other", block="ffn", hidden=8, intermediate=16)}),
        ("batch sizes", {"batch_sizes": (1, 2)}),
        ("input tokens", {"input_tokens": 64}),
        ("precision", {"dtype": "bfloat16"}),
    ],
)
def test_another_question_forbids_a_verdict(decision: Decision, what: str, changes: dict[str, Any]) -> None:
    compared = compare(decision, asked(decision, **changes))
    assert [difference.what for difference in compared.differences if difference.forbids] == [what]
    assert {row.verdict for row in compared.arms} == {"not compared"}


def test_another_device_forbids_a_verdict_and_another_driver_does_not(decision: Decision) -> None:
    def on(**changes: Any) -> Decision:
        gpu = builders.gpu(**changes)
        machine = msgspec.structs.replace(decision.header.machine, gpus=(gpu,))
        return asked(dataclasses.replace(decision, header=msgspec.structs.replace(decision.header, machine=machine)), gpu=gpu.uuid)

    assert not compare(on(), on(name="NVIDIA A100")).is_fair
    newer = compare(on(), on(driver="600.1"))
    assert newer.is_fair
    assert [(each.what, each.first, each.second) for each in newer.differences] == [("driver", "580.65", "600.1")]


def test_other_versions_are_told_and_an_arm_of_one_run_is_not_compared(decision: Decision) -> None:
    kept = [msgspec.structs.replace(entry, versions=dict.fromkeys(entry.versions, "9.9")) for entry in decision.results.measurements[:-1]]
    results = msgspec.structs.replace(decision.results, measurements=tuple(kept))
    compared = compare(decision, dataclasses.replace(decision, results=results))
    assert any("9.9" in difference.second for difference in compared.differences)
    gone = decision.results.measurements[-1].arm
    assert {row.verdict for row in compared.arms if row.arm == gone} == {"only first"}


@asynchronous
async def test_two_marked_runs_are_compared(tui_world: World, tmp_path: pathlib.Path) -> None:
    world = dataclasses.replace(tui_world, store=Store(tmp_path))
    runs = [make_run(world.store, finished=finished) for finished in (True, False)]
    async with shown(AdvisorApp(Wishes(), world)) as pilot:
        pilot.app.action_history()  # type: ignore[attr-defined]
        await wait_for_screen(pilot, "History")
        await pilot.press("c")
        assert pilot.app.screen.__class__.__name__ == "History"
        await pilot.press("space", "down", "space", "c")
        await wait_for_screen(pilot, "Compare")
        assert all(run.directory.name in lines_of(pilot) for run in runs)
        assert lines_of(pilot).index("Nothing that was recorded differs") < lines_of(pilot).index("A ms")
        assert "too few visits" in lines_of(pilot)
        await pilot.press("d", "escape")
        await wait_for_screen(pilot, "History")


@asynchronous
async def test_what_forbids_a_verdict_stands_before_the_figures(decision: Decision, tui_world: World) -> None:
    from advisor.tui.screens.compare import Compare  # noqa: PLC0415 - what is shown

    async with shown(AdvisorApp(Wishes(), tui_world), (120, 30)) as pilot:
        await pilot.app.push_screen(Compare(compare(decision, asked(bounded(decision, 2.0), dtype="float16"))))
        await wait_for_screen(pilot, "Compare")
        assert "! precision          float32  \N{RIGHTWARDS ARROW}  float16" in lines_of(pilot)
        assert "! Not like for like" in lines_of(pilot)
        assert "A faster" not in lines_of(pilot)
        await pilot.app.pop_screen()
        await pilot.app.push_screen(Compare(compare(decision, bounded(decision, 2.0))))
        await settle(pilot)
        assert "+100.0%  > A faster" in lines_of(pilot)
        assert "[4.08, 4.16]" in lines_of(pilot)
