"""Two runs side by side: differences first, and no verdict between runs that asked different things."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import msgspec
import pytest
from onscreen import asynchronous, lines_of, settle, shown, wait_for_screen
from recorded_runs import make_run

from advisor.context import Context
from advisor.domain.measurement import Generation, Seconds, Throughput
from advisor.pipeline.decision import decide
from advisor.report.document import RunDocument
from advisor.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.comparing import lay_side_by_side
from advisor.tui.documents import document_of
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.compare import Compare
from advisor.tui.text import figure


@pytest.fixture
def document(tmp_path: pathlib.Path) -> RunDocument:
    return slowed(document_of(decide(make_run(Store(tmp_path), finished=True))), 1.0)


def slowed(document: RunDocument, factor: float) -> RunDocument:
    """Return the document with all times multiplied, and bounded within one percent."""
    entries = []
    for entry in document.workflows:
        cells = []
        for cell in entry.cells:
            median = cell.seconds.median * factor
            seconds = Seconds(
                median=median, low=median * 0.99, high=median * 1.01, samples=cell.seconds.samples
            )
            cells.append(msgspec.structs.replace(cell, seconds=seconds))
        entries.append(msgspec.structs.replace(entry, cells=tuple(cells)))
    return msgspec.structs.replace(document, workflows=tuple(entries))


def generating(document: RunDocument) -> RunDocument:
    """Return the document as if its calls had generated text, at the rate that their time gives."""
    unknown: dict[str, Any] = dict.fromkeys(Generation.__struct_fields__)
    entries = []
    for entry in document.workflows:
        cells = tuple(
            msgspec.structs.replace(
                cell,
                generation=Generation(**unknown),
                throughput=Throughput(value=32 / cell.seconds.median, unit="tokens/s"),
            )
            for cell in entry.cells
        )
        entries.append(msgspec.structs.replace(entry, cells=cells))
    return msgspec.structs.replace(document, workflows=tuple(entries))


def asked(document: RunDocument, **changes: Any) -> RunDocument:
    return msgspec.structs.replace(
        document, question=msgspec.structs.replace(document.question, **changes)
    )


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "same"), (1.5, "slower"), (0.5, "faster")])
def test_every_arm_of_both_runs_has_a_row_with_the_verdict_of_the_command(
    document: RunDocument, factor: float, verdict: str
) -> None:
    sides = lay_side_by_side(document, slowed(document, factor))
    assert [row.arm for row in sides.rows] == [
        entry.arm for entry in document.workflows if entry.cells
    ]
    assert {row.verdict for row in sides.rows} == {verdict}
    assert {round(row.speed.value, 6) for row in sides.rows if row.speed} == {round(1 / factor, 6)}


def test_times_of_other_questions_stand_side_by_side_without_a_verdict(
    document: RunDocument,
) -> None:
    sides = lay_side_by_side(document, asked(document, dtype="float16"))
    assert {(row.verdict, row.speed) for row in sides.rows} == {("not compared", None)}
    assert all(row.first and row.second for row in sides.rows)


def test_an_arm_of_one_run_is_in_that_run_only(document: RunDocument) -> None:
    without = msgspec.structs.replace(
        document, workflows=tuple(entry for entry in document.workflows if entry.arm != "exported")
    )
    assert {
        row.verdict for row in lay_side_by_side(document, without).rows if row.arm == "exported"
    } == {"only in A"}
    assert {
        row.verdict for row in lay_side_by_side(without, document).rows if row.arm == "exported"
    } == {"only in B"}


@asynchronous
async def test_generated_text_is_compared_by_its_rate(
    document: RunDocument, tui_world: Context
) -> None:
    texts = [generating(each) for each in (document, slowed(document, 2.0))]
    cell = texts[0].workflows[0].cells[0]
    rate = cell.throughput.value
    async with shown(AdvisorApp(LaunchOptions(), tui_world), (140, 30)) as pilot:
        await pilot.app.push_screen(Compare(lay_side_by_side(*texts)))
        await wait_for_screen(pilot, "Compare")
        assert "A tok/s" in lines_of(pilot)
        assert f"{figure(rate)} [{figure(rate / 1.01)}, {figure(rate / 0.99)}]" in lines_of(pilot)
        await pilot.app.pop_screen()
        await pilot.app.push_screen(Compare(lay_side_by_side(texts[0], document)))
        await settle(pilot)
        assert "A ms" in lines_of(pilot)


@asynchronous
async def test_two_marked_runs_are_compared(tui_world: Context, tmp_path: pathlib.Path) -> None:
    world = dataclasses.replace(tui_world, store=Store(tmp_path))
    runs = [make_run(world.store, finished=finished) for finished in (True, False)]
    async with shown(AdvisorApp(LaunchOptions(), world)) as pilot:
        pilot.app.action_history()  # type: ignore[attr-defined]
        await wait_for_screen(pilot, "History")
        await pilot.press("c")
        assert pilot.app.screen.__class__.__name__ == "History"
        await pilot.press("space", "down", "space", "c")
        await wait_for_screen(pilot, "Compare")
        assert all(run.directory.name[-11:] in lines_of(pilot) for run in runs)
        assert "? cannot tell" in lines_of(pilot)
        await pilot.press("d", "escape")
        await wait_for_screen(pilot, "History")


@asynchronous
async def test_what_forbids_a_verdict_stands_before_the_figures(
    document: RunDocument, tui_world: Context
) -> None:
    async with shown(AdvisorApp(LaunchOptions(), tui_world), (140, 30)) as pilot:
        await pilot.app.push_screen(
            Compare(lay_side_by_side(document, asked(slowed(document, 2.0), dtype="float16")))
        )
        await wait_for_screen(pilot, "Compare")
        assert "! precision           float32  \N{RIGHTWARDS ARROW}  float16" in lines_of(pilot)
        assert lines_of(pilot).index("! precision") < lines_of(pilot).index("A ms")
        assert "! Not like for like" in lines_of(pilot)
        assert "A faster" not in lines_of(pilot)
        await pilot.app.pop_screen()
        await pilot.app.push_screen(Compare(lay_side_by_side(document, slowed(document, 2.0))))
        await settle(pilot)
        assert "0.50x [0.49x, 0.51x]  > A faster" in lines_of(pilot)
