"""Foreign text is shown as text, whatever is in it."""

from __future__ import annotations

import dataclasses
import pathlib

import msgspec
import pytest
from onscreen import asynchronous, lines_of, replay, shown, wait_for, wait_for_screen
from recorded_runs import make_run

from advisor.context import Context
from advisor.store import Run, Store
from advisor.tui import text
from advisor.tui.app import AdvisorApp
from advisor.tui.ascii_only import to_ascii
from advisor.tui.options import LaunchOptions
from advisor.tui.run.logs import LogTail, clean
from advisor.tui.run.session import Session
from advisor.tui.screens.results import Results

HOSTILE = [
    "[/",
    "[/tmp/x]",
    "{'a':[true]}",
    "[red]x[/red]",
    "\x1b[31mred",
    "a\x00b\x07",
    "\u202eevil\u202c",
    "n" * 10000,
    "\ud800",
]


@pytest.mark.parametrize("words", HOSTILE, ids=lambda words: ascii(words[:20]))
def test_what_is_shown_has_no_control_and_no_direction(words: str) -> None:
    shown_words = text.plain(words)
    assert len(shown_words) <= text.LONGEST
    assert all(sign.isprintable() or sign == " " for sign in shown_words)
    assert text.plain("[/ [b]") == "[/ [b]"


@asynchronous
async def test_a_model_with_a_hostile_name_is_shown(tui_world: Context, recorded: Run) -> None:
    async with shown(replay(tui_world, recorded)) as pilot:
        await wait_for_screen(pilot, "Results")
        screen = pilot.app.screen
        assert isinstance(screen, Results)
        for words in HOSTILE[:-1]:
            header = screen.decision.header
            model = msgspec.structs.replace(header.question.model, name=words)
            header = msgspec.structs.replace(
                header, question=msgspec.structs.replace(header.question, model=model)
            )
            screen.original = screen.decision = dataclasses.replace(screen.decision, header=header)
            screen.draw()
            await pilot.pause()
            assert text.plain(words)[:4] in lines_of(pilot), ascii(words[:40])
            await pilot.press("enter")
            await wait_for_screen(pilot, "Detail")
            await pilot.press("3")
            await wait_for(pilot, lambda: "Measure it again" in lines_of(pilot))
            await pilot.press("escape")


@asynchronous
async def test_what_a_stack_prints_is_shown_as_text(
    tui_world: Context, tmp_path: pathlib.Path
) -> None:
    session = Session.of(make_run(Store(tmp_path), finished=False))
    session.look()
    log = session.follower.run.log_of(str(session.follower.active), 0)
    log.parent.mkdir(parents=True)
    log.write_bytes(
        "\n".join(words[:200] for words in HOSTILE[:-1]).encode()
        + b"\n\xff\xfe\n"
        + b"x" * 100_000
        + b"\nlast words\n"
    )
    async with shown(AdvisorApp(LaunchOptions(), tui_world), (100, 40)) as pilot:
        assert isinstance(pilot.app, AdvisorApp)
        pilot.app.runs.show(session)
        await wait_for_screen(pilot, "Live")
        await pilot.press("l")
        await wait_for(pilot, lambda: "last words" in lines_of(pilot))
        await wait_for(pilot, lambda: "its log ends: [/ oh" in lines_of(pilot))


def test_a_log_is_read_to_its_end_without_its_colours(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "log"
    tail = LogTail()
    assert tail.read(file, "arm") == []
    file.write_bytes(b"\x1b[31mred\x1b[0m\n10%\r20%\r100%\n\xff\xfe [/\n" + b"x" * 10_000_000)
    lines = tail.read(file, "arm")
    assert len(lines) <= 50
    assert all(len(line) <= text.LONGEST + 10 for line in lines)
    assert clean("\x1b[31mred\x1b[0m") == "red"
    assert clean("10%\r20%\r100%") == "100%"
    assert tail.read(file, "arm") == []


def test_ascii_keeps_the_width() -> None:
    assert to_ascii("\N{CHECK MARK} \N{FULL BLOCK}\N{LIGHT SHADE} \u4f60") == "+ #- ??"


@pytest.mark.parametrize(
    ("value", "shown_value"),
    [
        (None, "\N{EN DASH}"),
        (1.2345, "1.23"),
        (12.345, "12.3"),
        (1234.5, "1234"),
        (0.00123, "0.00123"),
    ],
)
def test_figures_have_three_digits(value: float | None, shown_value: str) -> None:
    assert text.figure(value) == shown_value


def test_durations_and_names_are_short() -> None:
    assert [text.duration(seconds) for seconds in (0, 61, 3661)] == ["00:00", "01:01", "1:01:01"]
    assert (
        text.squeeze("torch-compile-inductor/max-autotune", 21)
        == "torch-comp\N{HORIZONTAL ELLIPSIS}x-autotune"
    )
