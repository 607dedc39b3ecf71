"""The screens as text, as they were when somebody last looked at them: `python -m pytest tests/tui --update-goldens` writes them anew.

They come from a run made by hand, so that no figure changes from one day to the next.
"""

from __future__ import annotations

import pathlib
from typing import Any

import builders
import msgspec
import pytest
from onscreen import asynchronous, lines_of, shown, wait_for, wait_for_screen

from advisor.domain.events import Ended, Event, Finished, Heard, Planned, RaceClosed, RaceOpened, Spawned
from advisor.domain.outcome import Completed, Crashed, Entered, Ready
from advisor.domain.state import ProcessState
from advisor.pipeline import World
from advisor.store import Run, Store
from advisor.tui.app import AdvisorApp
from advisor.tui.session import Session
from advisor.tui.wishes import Wishes

GOLDENS = pathlib.Path(__file__).parent / "goldens"
SIZES = [(80, 24), (100, 30), (140, 40), (60, 16)]
SECONDS = {builders.BASELINE: 0.0094, builders.DUPLICATE: 0.0095, "compiled": 0.0041, "exported": 0.0039}
ROUNDS = 6


def said(arm: str, process: ProcessState) -> list[Heard]:
    words: list[Any] = [Entered(phase="import", batch_size=None), process.imported, Entered(phase="load", batch_size=None), process.loaded]
    for size in process.built:
        words += [Entered(phase="build", batch_size=size), process.built[size], process.checked[size], process.warm[size]]
    return [Heard(arm=arm, process=0, said=word) for word in [*words, process.engaged, process.memory, Ready()] if word is not None]


def make_run(store: Store, *, finished: bool) -> Run:
    """Return a run of four arms, one of which crashed; its figures are set by hand."""
    workflows = [
        builders.workflow(name, declared=builders.declared(lines_changed=lines)) for name, lines in (("compiled", 1), ("exported", 12))
    ]
    header = builders.header(
        question=builders.question(batch_sizes=(1,)), catalogue=builders.catalogue(*workflows, builders.workflow("broken"))
    )
    run = store.create(msgspec.structs.replace(header, run_id=f"20261121-12000{int(finished)}-0000"))
    happenings: list[object] = [Planned(plan=builders.plan("compiled", "exported", "broken", excluded=[builders.excluded()]))]
    for arm, seconds in SECONDS.items():
        happenings += [Spawned(arm=arm, process=0), *said(arm, builders.process(*builders.visits([seconds])))]
    crash = Crashed(phase="build", signal="SIGSEGV", reason="its process was ended by SIGSEGV; its log ends: [/ oh", fix="update it")
    happenings += [Spawned(arm="broken", process=0), Ended(arm="broken", process=0, outcome=crash)]
    happenings.append(RaceOpened(batch_size=1, arms=tuple(SECONDS)))
    for number in range(1, ROUNDS + 1 if finished else 4):
        for place, (arm, seconds) in enumerate(SECONDS.items()):
            (visit,) = builders.visits([seconds * (1 + 0.004 * ((number + place) % 3))], first_round=number)
            happenings.append(Heard(arm=arm, process=0, said=visit))
    if finished:
        happenings.append(RaceClosed(batch_size=1, reason="the verdict stands: PROVEN"))
        happenings += [Ended(arm=arm, process=0, outcome=Completed()) for arm in SECONDS]
        happenings.append(Finished())
    with run.writer() as writer:
        for number, happening in enumerate(happenings, start=1):
            writer.append(Event(seq=number, at=number / 2, happening=happening))  # type: ignore[arg-type]
    return run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("goldens"))


@pytest.fixture(scope="module")
def finished(store: Store) -> Run:
    return make_run(store, finished=True)


@pytest.fixture(scope="module")
def going_on(store: Store) -> Run:
    return make_run(store, finished=False)


def compare(name: str, size: tuple[int, int], text: str, *, update: bool) -> None:
    file = GOLDENS / f"{name}-{size[0]}x{size[1]}.txt"
    if update:
        GOLDENS.mkdir(exist_ok=True)
        file.write_text(text.rstrip() + "\n", encoding="utf-8")
    assert text.rstrip() + "\n" == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@asynchronous
async def test_results_and_detail_look_as_they_did(
    size: tuple[int, int], finished: Run, tui_world: World, request: pytest.FixtureRequest
) -> None:
    update = request.config.getoption("--update-goldens")
    async with shown(AdvisorApp(Wishes(replay=str(finished.directory), speed=1000), tui_world), size) as pilot:
        await wait_for_screen(pilot, "Results")
        compare("results", size, lines_of(pilot), update=update)
        await pilot.press("w", "right", "right", "right", "right")
        await pilot.pause(0.2)
        compare("explored", size, lines_of(pilot), update=update)
        await pilot.press("u", "w", "x")
        await pilot.pause(0.2)
        compare("why-not", size, lines_of(pilot), update=update)
        await pilot.press("x", "enter")
        await wait_for_screen(pilot, "Detail")
        compare("detail", size, lines_of(pilot), update=update)
        await pilot.press("2")
        await wait_for(pilot, lambda: "visit   1" in lines_of(pilot))
        await pilot.pause(0.3)
        compare("timing", size, lines_of(pilot), update=update)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@asynchronous
async def test_a_run_looks_as_it_did(size: tuple[int, int], going_on: Run, tui_world: World, request: pytest.FixtureRequest) -> None:
    async with shown(AdvisorApp(Wishes(), tui_world), size) as pilot:
        assert isinstance(pilot.app, AdvisorApp)
        session = Session.of(going_on)
        session.look()
        session.ranking(0.0)()  # type: ignore[misc]
        pilot.app.show_session(session)
        await wait_for_screen(pilot, "Live")
        shown_lines = [line for line in lines_of(pilot).splitlines() if "elapsed" not in line and "CPU" not in line]
        compare("live", size, "\n".join(shown_lines), update=request.config.getoption("--update-goldens"))
