"""Draw the screens of the README as SVG: `python tests/tui/screenshots.py [RUN]`.

RUN is the directory of a stored run; without it, plan and progress show a recorded run of the
tests. Home and the results show the recorded run that is part of the program.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

from builders import replace  # noqa: E402 - tests are not installed
from onscreen import running_app  # noqa: E402 - tests are not installed
from recorded_runs import make_run  # noqa: E402 - as above

from advisor.ask import planning  # noqa: E402 - as above
from advisor.ask.context import Context  # noqa: E402 - as above
from advisor.ask.run_options import RunOptions  # noqa: E402 - as above
from advisor.domain.machine import Machine  # noqa: E402 - as above
from advisor.domain.run_events import LoggedEvent  # noqa: E402 - as above
from advisor.execute.drafts import DraftRun  # noqa: E402 - as above
from advisor.store.runs import Run  # noqa: E402 - as above
from advisor.store.store import Store  # noqa: E402 - as above
from advisor.tui import actions  # noqa: E402 - as above
from advisor.tui.app import AdvisorApp  # noqa: E402 - as above
from advisor.tui.followed_run import FollowedRun  # noqa: E402 - as above
from advisor.tui.home import list_examples  # noqa: E402 - as above
from advisor.tui.launch import LaunchOptions  # noqa: E402 - as above
from advisor.tui.live import LiveScreen  # noqa: E402 - as above
from advisor.tui.results import ResultsScreen  # noqa: E402 - as above

DIRECTORY = HERE / "screenshots"
SIZE = (100, 30)


class AppOnRecordedMachine(AdvisorApp):
    """Asks the questions on the machine of a run, with the current catalogue."""

    CSS_PATH = str(pathlib.Path(inspect.getfile(AdvisorApp)).with_name("styles.tcss"))

    def __init__(self, run: Run, context: Context) -> None:
        self.header = run.header()
        super().__init__(
            LaunchOptions(run_options=RunOptions(model=self.header.question.model.name)), context
        )

        actions.draft_or_answer = self._draft  # type: ignore[assignment]

    def _detect_machine(self) -> Machine:
        return self.header.machine

    def _draft(self, _: AdvisorApp, **__: str) -> DraftRun:
        machine, question = self.header.machine, self.header.question
        # No path of the machine stands in a picture.
        machine = replace(machine, software=replace(machine.software, executable="python"))
        plan = planning.plan(question, machine, self.catalogue)
        return DraftRun(self.catalogue, machine, question, plan)


async def draw_plan(run: Run, context: Context) -> None:
    app = AppOnRecordedMachine(run, context)
    async with running_app(app, SIZE) as pilot:
        await pilot.wait_for(lambda: app.machine is not None)
        await pilot.go_to_step(3)
        await pilot.settle()
        app.save_screenshot("plan.svg", str(DIRECTORY))


async def draw_results(context: Context) -> None:
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app, SIZE) as pilot:
        await pilot.wait_for(lambda: app.machine is not None)
        await pilot.settle()
        app.save_screenshot("home.svg", str(DIRECTORY))
        app.run_controller.open(str(next(iter(list_examples()))))
        await pilot.wait_for_screen(ResultsScreen)
        app.save_screenshot("results.svg", str(DIRECTORY))


async def draw_progress(run: Run, context: Context) -> None:
    followed = EarlierRun(run)
    app = AdvisorApp(LaunchOptions(), context)
    async with running_app(app, SIZE) as pilot:
        followed.refresh()
        rank = followed.ranking_job(0.0)
        if rank is not None:
            followed.set_provisional(rank())
        app.run_controller.show(followed)
        await pilot.wait_for_screen(LiveScreen)
        app.save_screenshot("live.svg", str(DIRECTORY))


class EarlierRun(FollowedRun):
    """A run of which a part of the events is stored, at the time of the last one."""

    def read_events(self) -> list[LoggedEvent]:
        events = [] if self.state.seq else self.run.events()
        return events[: len(events) * 4 // 5]

    def now(self) -> float:
        return self.state.at

    @property
    def is_running(self) -> bool:
        return True


async def draw(run: Run, context: Context) -> None:
    """Save a picture of each screen."""
    DIRECTORY.mkdir(exist_ok=True)
    await draw_plan(run, context)
    await draw_results(context)
    await draw_progress(run, context)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        own_context = Context(environment=dict(os.environ), store=Store(pathlib.Path(home)))
        chosen = (
            Run(pathlib.Path(sys.argv[1]))
            if sys.argv[1:]
            else make_run(own_context.store, finished=True)
        )
        asyncio.run(draw(chosen, own_context))
