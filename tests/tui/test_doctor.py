"""The display-overhead check of the doctor screen, with a fake stack."""

from __future__ import annotations

import pytest
from onscreen import async_test, running_app, screen_text, wait_for, wait_for_screen, wait_for_text

from advisor.context import Context
from advisor.doctor import display_overhead
from advisor.question.answers import Answers
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.screens.doctor import DoctorScreen


@async_test
async def test_the_doctor_screen_measures_the_display_overhead(
    tui_context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display_overhead.measure_display_overhead, "__kwdefaults__", {"rounds": 2})
    app = AdvisorApp(LaunchOptions(answers=Answers(gpu="cpu")), tui_context)
    async with running_app(app) as pilot:
        app.action_doctor()
        screen = await wait_for_screen(pilot, DoctorScreen)
        await wait_for_text(pilot, "python")
        await pilot.press("o")
        await wait_for(pilot, lambda: screen.drawing_timer is not None)
        await wait_for_text(pilot, "times so far")
        await wait_for(pilot, lambda: screen.drawing_timer is None)
        await wait_for_text(pilot, "observer")
        assert "times so far" not in screen_text(pilot)
