"""Parts of screens: the line of keys, letters to jump by, work in threads, and what is said of a defect."""

from __future__ import annotations

import pathlib
import threading
import uuid

import pytest
from onscreen import asynchronous, lines_of, replay, settle, shown, wait_for, wait_for_screen
from textual.widgets import Input
from textual.widgets._footer import FooterKey

from advisor.context import Context
from advisor.errors import SizeError, UserError
from advisor.store import Run
from advisor.tui import crash
from advisor.tui.app import AdvisorApp
from advisor.tui.background import Background
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.jump import Jump
from advisor.tui.widgets.keys import fit

HINTS = [
    ("leave_out", "space Leave out"),
    ("help", "? Help"),
    ("next", "\N{RETURN SYMBOL} Next"),
    ("sort", "o Sort"),
    ("app.leave", "q Quit"),
]


@pytest.mark.parametrize(
    ("width", "shown_places"),
    [(80, [1, 0, 2, 3, 4]), (45, [1, 0, 2, 3, 4]), (41, [1, 0, 2, 4]), (20, [1, 4]), (1, [1, 4])],
)
def test_help_comes_first_and_the_way_out_last_and_between_them_what_fits(
    width: int, shown_places: list[int]
) -> None:
    assert fit(HINTS, width) == shown_places


@asynchronous
async def test_a_letter_moves_to_any_part_of_a_screen(tui_world: Context) -> None:
    async with shown(AdvisorApp(LaunchOptions(), tui_world)) as pilot:
        await pilot.press("enter")
        await wait_for(pilot, lambda: "Where will it run" in lines_of(pilot))
        await pilot.press("ctrl+o")
        await wait_for_screen(pilot, "Jump")
        jump = pilot.app.screen
        assert isinstance(jump, Jump)
        letter, target = next(
            (letter, widget)
            for letter, widget in jump.targets.items()
            if widget.id == "batch_sizes"
        )
        assert f" {letter} " in lines_of(pilot)
        await pilot.press(letter, "4", ",", "8")
        await settle(pilot)
        assert isinstance(target, Input)
        assert target.value == "4,8"
        await pilot.press("ctrl+o")
        await wait_for_screen(pilot, "Jump")
        await pilot.press("escape")
        await wait_for_screen(pilot, "Setup")


@asynchronous
async def test_a_mouse_alone_reaches_an_exported_report(
    tui_world: Context, recorded: Run, tmp_path: pathlib.Path
) -> None:
    async def click(words: str) -> None:
        (hint,) = (hint for hint in pilot.app.screen.query(FooterKey) if hint.description == words)
        assert await pilot.click(hint)

    async with shown(replay(tui_world, recorded), (100, 30)) as pilot:
        await wait_for_screen(pilot, "Results")
        bar = pilot.app.screen.query_one("#weight-performance")
        assert await pilot.click(bar, offset=(90, 0))
        await wait_for(pilot, lambda: "with these weights" in lines_of(pilot))
        await click("Export")
        await wait_for_screen(pilot, "Export")
        file = tmp_path / "clicked.json"
        pilot.app.screen.query_one(Input).value = str(file)
        await click("Write")
        await wait_for(pilot, file.exists)
        await wait_for_screen(pilot, "Results")
        await click("Open")
        await wait_for_screen(pilot, "Detail")


def test_of_one_kind_of_work_only_what_was_asked_for_last_counts() -> None:
    handed, gate, done = list[object](), threading.Event(), threading.Event()

    def hand(function: object, value: object) -> None:
        function(value)  # type: ignore[operator]
        done.set()

    def refuse() -> int:
        raise SizeError("no", "yes")

    background = Background(hand, handed.append)
    background.do("rank", lambda: gate.wait(10) and "old", handed.append)
    background.do("rank", lambda: "new", handed.append)
    assert done.wait(10)
    done.clear()
    gate.set()
    assert done.wait(10)
    assert handed == ["new"]
    done.clear()
    background.do("other", refuse, handed.append)
    assert done.wait(10)
    assert isinstance(handed[-1], UserError)


def test_a_defect_is_told_without_the_values_of_variables(tmp_path: pathlib.Path) -> None:
    def fail(secret: str) -> None:
        raise KeyError(len(secret))

    password = uuid.uuid4().hex
    with pytest.raises(KeyError) as defect:
        fail(password)
    told = crash.report(defect.value, tmp_path, "20261121-120000")
    written = (tmp_path / "crash-20261121-120000.txt").read_text()
    assert "KeyError" in told.what
    assert str(tmp_path) in told.what
    assert "test_a_defect_is_told" in written
    assert password not in written


def test_a_defect_ends_the_screens_and_leaves_a_report(tui_world: Context) -> None:
    @asynchronous
    async def run() -> None:
        app = AdvisorApp(LaunchOptions(), tui_world)
        async with shown(app) as pilot:
            app.background.do("defect", lambda: 1 / 0, print)
            await wait_for(pilot, lambda: app.defect is not None)

    with pytest.raises(ZeroDivisionError):
        run()
    (report,) = pathlib.Path(tui_world.environment["P3_ADVISOR_HOME"]).glob("crash-*.txt")
    assert "ZeroDivisionError" in report.read_text()
