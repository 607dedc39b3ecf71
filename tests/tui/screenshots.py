"""Draw the real screens as SVG, as the README shows them: `python tests/tui/screenshots.py RUN`.

Without a run they come from one made by hand, whose figures nobody measured: to look at, not to
publish.
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

from onscreen import lines_of, settle, shown, wait_for, wait_for_screen  # noqa: E402 - tests are no package
from recorded_runs import make_run  # noqa: E402 - tests are no package

from advisor import applicability  # noqa: E402 - as above
from advisor.context import Context  # noqa: E402 - as above
from advisor.domain.machine import Machine  # noqa: E402 - as above
from advisor.pipeline.draft import DraftRun  # noqa: E402 - as above
from advisor.question.answers import Answers  # noqa: E402 - as above
from advisor.store import Run, Store  # noqa: E402 - as above
from advisor.tui.app import AdvisorApp  # noqa: E402 - as above
from advisor.tui.options import LaunchOptions  # noqa: E402 - as above
from advisor.tui.run.session import Session  # noqa: E402 - as above

PLACE = HERE / "screenshots"
SIZE = (100, 30)


class OnItsMachine(AdvisorApp):
    """The questions on the machine of a run, with the catalogue as it is today."""

    CSS_PATH = str(pathlib.Path(inspect.getfile(AdvisorApp)).with_name("styles.tcss"))

    def __init__(self, run: Run, world: Context) -> None:
        self.header = run.header()
        super().__init__(
            LaunchOptions(answers=Answers(model=self.header.question.model.name)), world
        )

    def _look_at_machine(self) -> Machine:
        return self.header.machine

    def _propose(self) -> DraftRun:
        here, asked = self.header.machine, self.header.question
        return DraftRun(
            self.catalogue, here, asked, applicability.plan(asked, here, self.catalogue)
        )


async def draw(run: Run, world: Context) -> None:
    """Go through the screens and keep a picture of each."""
    PLACE.mkdir(exist_ok=True)
    async with shown(OnItsMachine(run, world), SIZE) as pilot:
        await wait_for(pilot, lambda: pilot.app.machine is not None)  # type: ignore[attr-defined]
        for words in ("Where will it run", "sum to 100", "ways to"):
            await pilot.press("enter")
            await wait_for(pilot, lambda words=words: words in lines_of(pilot))  # type: ignore[misc]
        await settle(pilot)
        pilot.app.save_screenshot("plan.svg", str(PLACE))
    app = AdvisorApp(LaunchOptions(), world)
    async with shown(app, SIZE) as pilot:
        app.runs.open(str(run.directory))
        await wait_for_screen(pilot, "Results")
        app.save_screenshot("results.svg", str(PLACE))
        await pilot.press("enter")
        await wait_for_screen(pilot, "Detail")
        app.save_screenshot("detail.svg", str(PLACE))
    session = Session.replay(str(run.directory), 1.0)
    events = run.events()
    session.follower.source = Until(events[: len(events) * 3 // 5])
    app = AdvisorApp(LaunchOptions(), world)
    async with shown(app, SIZE) as pilot:
        session.look()
        rank = session.ranking(0.0)
        if rank is not None:
            session.lead(rank())
        app.runs.show(session)
        await wait_for_screen(pilot, "Live")
        pilot.app.save_screenshot("live.svg", str(PLACE))


class Until:
    """The beginning of a recorded run."""

    def __init__(self, events: list) -> None:  # type: ignore[type-arg]
        self._events = events

    def poll(self) -> list:  # type: ignore[type-arg]
        """Return it, once."""
        events, self._events = self._events, []
        return events

    def now(self, last: float) -> float:
        """Return the time of the last event."""
        return last


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        own = Context(environment=dict(os.environ), store=Store(pathlib.Path(home)))
        asyncio.run(
            draw(
                Run(pathlib.Path(sys.argv[1]))
                if sys.argv[1:]
                else make_run(own.store, finished=True),
                own,
            )
        )
