"""Target of the campaign: random keys on the screens, over runs with hostile names."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import pathlib
import random
import sys
from typing import Any
from unittest import mock

import mutations
import onscreen
import program
import recorded_runs
from targets import Target
from textual.app import App

from advisor.context import Context
from advisor.question.answers import Answers
from advisor.store.runs import Run
from advisor.store.store import Store
from advisor.tui.app import AdvisorApp
from advisor.tui.options import LaunchOptions
from advisor.tui.run.host_process import HostProcess
from advisor.tui.steps import plan

KEYS = (
    *"abcdefghijklmnoprstuvwxyz0123456789/?+-=<>.,!",
    *("enter", "enter", "escape", "tab", "shift+tab", "space", "up", "down", "left", "right"),
    *("home", "end", "pageup", "pagedown", "backspace", "delete", "f1", "ctrl+e", "ctrl+p"),
)
#: Stands for the process that works on a run: it reads commands and sends no events.
IDLE_HOST = (sys.executable, "-c", "import sys; sys.stdin.read()")
SIZES = ((80, 24), (60, 16), (140, 40), (20, 5))
KEYS_IN_A_SESSION = 30


class Screens(Target):
    """Sessions of random keys, each of which presses `KEYS_IN_A_SESSION` keys."""

    name = "screens"

    def make_input(self, chance: random.Random) -> Any:
        return {
            "keys": [chance.choice(KEYS) for _ in range(KEYS_IN_A_SESSION)],
            "size": chance.choice(SIZES),
            "name": chance.choice([value for value in mutations.HOSTILE if isinstance(value, str)]),
            "replay": chance.random() < 0.4,
        }

    def try_input(self, value: Any) -> None:
        home = self.fresh()
        run = recorded_runs.make_run(Store(home), finished=True)
        header = json.loads((run.directory / "run.json").read_bytes())
        header["question"]["model"]["name"] = value["name"]
        (run.directory / "run.json").write_text(json.dumps(header), encoding="utf-8")
        before = pathlib.Path.cwd()
        os.chdir(home)
        try:
            # An environment is not really created.
            with mock.patch.object(plan, "ADVISOR_COMMAND", ("/bin/false",)):
                asyncio.run(self._press(value, home, run))
        finally:
            os.chdir(before)

    async def _press(self, value: Any, home: pathlib.Path, run: Run) -> None:
        context = Context(
            environment={**os.environ, "P3_ADVISOR_HOME": str(home)},
            store=Store(home),
            now=lambda: dt.datetime(2026, 11, 21, 12, 0, tzinfo=dt.timezone.utc),
            random=random.Random(0),
        )
        app = AdvisorApp(
            LaunchOptions(
                answers=Answers(gpu="cpu"),
                replay=str(run.directory) if value["replay"] else "",
                speed=1000.0,
            ),
            context,
            start_host=lambda started: HostProcess(started, IDLE_HOST),
        )
        async with onscreen.running_app(app, tuple(value["size"])) as pilot:
            for key in value["keys"]:
                if not app.is_running or app._exit:
                    break
                await pilot.press(key)
                check_app(app)
            with contextlib.suppress(Exception):
                await pilot.pause()
            check_app(app)


def check_app(app: AdvisorApp) -> None:
    """Raise `DefectError` if the screens have crashed."""
    problem = app.defect or getattr(App, "_exception", None) or app._exception
    if problem is not None:
        raise program.DefectError(f"{type(problem).__name__}: {problem}")
