"""What a fleet has answered, in the terminal program: rows for models and devices, a filter, and the way to each run."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from onscreen import SIZES, asynchronous, lines_of, shown, shown_at, wait_for, wait_for_screen
from recorded_runs import make_run

from advisor.context import Context
from advisor.domain.fleet import (
    FLEET_SCHEMA,
    Answered,
    Assignment,
    Attempt,
    Contention,
    FleetRecord,
    Order,
    Pool,
)
from advisor.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions

HOSTILE = "[/red]"


def keep_answer(
    store: Store, fleet_id: str, run_id: str, *, reason: str = "the fleet has lost its last L40S"
) -> None:
    """Keep the answer of a fleet: one cell with a run, one without."""
    order = Order(
        fleet_id=fleet_id,
        created="2026-11-21T12:00:00+00:00",
        models=("demo", HOSTILE),
        pools=(Pool(kind="H200"), Pool(kind="L40S")),
    )
    first = Assignment(number=1, model="demo", kind="H200")
    answered = (
        Answered(assignment=first, attempts=(Attempt(run_id=run_id, node="n1", device="0"),)),
        Answered(
            assignment=Assignment(number=2, model=HOSTILE, kind="L40S"),
            attempts=(),
            reason=reason,
            next_step="add one",
        ),
    )
    contention = Contention(
        node="n1", kind="H200", model="demo", free=False, words="races take turns"
    )
    store.fleets.keep(
        FleetRecord(schema=FLEET_SCHEMA, order=order, answered=answered, contentions=(contention,))
    )


@pytest.fixture
def world(tui_world: Context, tmp_path: pathlib.Path) -> Context:
    """Two fleets have answered."""
    store = Store(tmp_path / "stored")
    run_id = make_run(store, finished=True).header().run_id
    keep_answer(store, "20261120-120000-0001", run_id, reason="nobody came")
    keep_answer(store, "20261121-120000-0002", run_id)
    return dataclasses.replace(tui_world, store=store)


@asynchronous
async def test_a_row_leads_to_its_run_and_says_why_there_is_none(world: Context) -> None:
    async with shown(AdvisorApp(LaunchOptions(), world)) as pilot:
        pilot.app.action_history()  # type: ignore[attr-defined]
        await wait_for_screen(pilot, "History")
        await pilot.press("f")
        await wait_for_screen(pilot, "Fleet")
        for size in reversed(SIZES):
            screen = await shown_at(pilot, size)
            assert all(
                words in screen
                for words in ("demo", "H200", HOSTILE, "no answer", "races take turns")
            )
        assert "node n1, device 0" in lines_of(pilot)
        await pilot.press("down")
        await wait_for(
            pilot, lambda: f"{HOSTILE} on L40S: the fleet has lost its last L40S" in lines_of(pilot)
        )
        await pilot.press("enter")
        await wait_for(pilot, lambda: "no run behind this row" in lines_of(pilot))
        await pilot.press("up", "enter")
        await wait_for_screen(pilot, "Results")


@asynchronous
async def test_rows_are_filtered_and_older_fleets_are_a_key_away(world: Context) -> None:
    async with shown(AdvisorApp(LaunchOptions(), world), (100, 30)) as pilot:
        pilot.app.action_fleet()  # type: ignore[attr-defined]
        await wait_for_screen(pilot, "Fleet")
        await pilot.press("slash", *"l40s", "enter")
        await wait_for(pilot, lambda: "H200 " not in lines_of(pilot).split("node")[0])
        await wait_for(pilot, lambda: HOSTILE in lines_of(pilot))
        await pilot.press("escape")
        await wait_for(pilot, lambda: "H200" in lines_of(pilot))
        await pilot.press("left_square_bracket")
        await wait_for(pilot, lambda: "Fleet 20261120-120000-0001" in lines_of(pilot))
        await pilot.press("left_square_bracket", "right_square_bracket")
        await wait_for(pilot, lambda: "Fleet 20261121-120000-0002" in lines_of(pilot))
        await pilot.press("escape")
        await wait_for_screen(pilot, "Setup")


@asynchronous
async def test_without_a_fleet_there_is_only_a_word(
    tui_world: Context, tmp_path: pathlib.Path
) -> None:
    async with shown(
        AdvisorApp(LaunchOptions(), dataclasses.replace(tui_world, store=Store(tmp_path)))
    ) as pilot:
        pilot.app.action_history()  # type: ignore[attr-defined]
        await wait_for_screen(pilot, "History")
        await pilot.press("f")
        await wait_for(pilot, lambda: "there is no fleet" in lines_of(pilot))
