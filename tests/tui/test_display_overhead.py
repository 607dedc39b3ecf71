"""Whether drawing disturbs the timing: what is concluded from figures, and a check with a pretend stack."""

from __future__ import annotations

import pytest
from onscreen import asynchronous, lines_of, shown, wait_for, wait_for_screen

from advisor.context import Context
from advisor.question.answers import Answers
from advisor.tui import observer
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions

#: Seconds of a call in eight rounds, with the noise of a quiet machine.
STILL = [0.0100, 0.0101, 0.0099, 0.0100, 0.0102, 0.0100, 0.0099, 0.0101]
OTHER = [0.0101, 0.0100, 0.0100, 0.0099, 0.0101, 0.0101, 0.0100, 0.0100]


@pytest.mark.parametrize(
    ("factor", "status", "words"),
    [(1.0, "ok", "no effect beyond it"), (1.1, "warn", "drawing disturbs the timing")],
)
def test_an_effect_counts_beyond_the_noise_floor(factor: float, status: str, words: str) -> None:
    drawn = [seconds * factor for seconds in OTHER]
    finding = observer.tell({0: STILL, 1: OTHER, 2: drawn, 3: OTHER})
    assert finding.status == status
    assert words in finding.what
    assert f"10 Hz {factor - 1:+.0%}"[:-1] in finding.what.replace("-0.0", "+0.0")


@asynchronous
async def test_the_doctor_checks_the_display(
    tui_world: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer.observe, "__defaults__", (2,))
    async with shown(AdvisorApp(LaunchOptions(answers=Answers(gpu="cpu")), tui_world)) as pilot:
        pilot.app.action_doctor()  # type: ignore[attr-defined]
        await wait_for_screen(pilot, "Doctor")
        await wait_for(pilot, lambda: "python" in lines_of(pilot))
        await pilot.press("o")
        await wait_for(pilot, lambda: "times so far" in lines_of(pilot))
        await wait_for(pilot, lambda: "noise floor" in lines_of(pilot))
        assert "times so far" not in lines_of(pilot)
        assert pilot.app.screen._drawing is None  # type: ignore[attr-defined]
