"""When memory is too short for all arms at once, they race in groups.

Each group contains the baseline, its duplicate and the best arms so far.
"""

from __future__ import annotations

import contextlib
import functools
import math
import pathlib
import shutil
import types
from collections.abc import Collection, Iterator
from typing import Any

import builders
import msgspec
import pytest
import sessions
from sessions import LimitedMemory, expect_failure
from simulation import SimulatedSession, active_of, new_recorder

from advisor.ask.context import Context
from advisor.decide.answers import answer_from_state
from advisor.decide.rounds import visits_by_round
from advisor.domain.answer import Answer, encode
from advisor.domain.question import Budget
from advisor.domain.run_events import ArmsAdded, RaceOpened, RepetitionStarted, RunEvent
from advisor.execute import remaining, repetitions
from advisor.execute.execution import execute
from advisor.probing import session as probing_session
from advisor.report import figures, markdown, page, text_report
from advisor.report.answer_files import answer_of_run
from advisor.report.tables import list_tables
from probes.events import Visited
from probes.outcome import Outcome
from probes.shape import Shape

FAKES = pathlib.Path(__file__).parents[2] / "fakes"
ARMS = {builders.BASELINE, "quick", "alike", "misbehaving/floods", "narrow/served"}
#: Memory for the baseline, its duplicate and two more arms.
MOST_BUILT = 4


def test_arms_that_do_not_fit_together_race_in_groups_with_controls_and_best_arm(
    module_context: Context,
) -> None:
    """The run is interrupted in its second race."""
    asked = sessions.short_options("quick,alike,misbehaving/floods,narrow/served", budget="2s")
    run = sessions.create_run(module_context, asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probing_session, "MemoryHeadroom", lambda _: LimitedMemory(MOST_BUILT))
        opened_races = 0
        with contextlib.closing(execute(run, module_context)) as events:  # type: ignore[type-var]
            for event in events:
                opened_races += isinstance(event.run_event, RaceOpened)
                if opened_races == 2 and isinstance(sessions.worker_event_of(event), Visited):
                    break
        sessions.exhaust(execute(run, module_context))
    state, results = run.state(), answer_of_run(run).results
    groups = state.groups[Shape(2)]
    assert len(groups) == 3
    assert {arm for group in groups for arm in group.arms} == {*ARMS, builders.DUPLICATE}
    assert set(results.by_arm) == ARMS
    assert state.finished
    assert remaining.waiting_arms(state, run.header().question) == set()
    assert all({builders.BASELINE, builders.DUPLICATE} < set(group.arms) for group in groups)
    assert all(len(group.arms) <= MOST_BUILT for group in groups)
    assert all("quick" in group.arms for group in groups)
    first_rounds = [group.first_round for group in groups]
    assert first_rounds == sorted(set(first_rounds)), "rounds are numbered on"
    (race,) = results.races
    assert race.best == "quick"
    assert {*race.eliminated} <= ARMS - {"quick"}


@pytest.mark.slow
def test_an_arm_that_fails_alone_in_its_group_does_not_end_the_races(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing_session, "MemoryHeadroom", lambda _: LimitedMemory(3))
    asked = sessions.short_options("quick,misbehaving/raises,narrow/served")
    answer = answer_of_run(sessions.execute_run(context, asked))
    assert set(answer.results.by_arm) == {builders.BASELINE, "quick", "narrow/served"}


class MemoryLimitedSession(SimulatedSession):
    """Memory for three built workers: the baseline and two more."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.built: set[str] = set()
        self.most_built = 0
        self.headroom = types.SimpleNamespace(fits_another_worker=lambda: len(self.built) < 3)

    def build(self, arm: str, **_: Any) -> Iterator[RunEvent]:
        self.built.add(arm)
        self.most_built = max(self.most_built, len(self.built))
        yield from ()

    def stop(self, arms: Collection[str] | None = None) -> Iterator[RunEvent]:
        self.built -= set(self.built if arms is None else arms)
        return super().stop(arms)


def test_a_repetition_runs_in_groups_that_fit_in_memory_each_with_the_baseline() -> None:
    arms = ["a", "b", "c", "d", "e"]
    session = MemoryLimitedSession(dict.fromkeys([builders.BASELINE, *arms], 0.0))
    recorder = new_recorder(arms)
    budget = Budget(name="standard", measuring_seconds=9, most_rounds=9, repeats=1)
    header = builders.header_of(*map(builders.workflow, arms), budget=budget)
    recorder.record(RepetitionStarted(repeat=1, arms=(builders.BASELINE, *arms)))
    answer_of = functools.partial(answer_from_state, header)
    active = active_of(session, recorder, header.question, answer_of)
    sessions.exhaust(recorder.record_each(repetitions.repeat_arms(active)))
    assert session.most_built == 3
    rounds = visits_by_round(recorder.state, Shape(1), repeat=1)
    visited = [set(rounds[number]) for number in sorted(rounds)]
    assert visited == [
        *[{builders.BASELINE, "a", "b"}] * budget.repeat_rounds,
        *[{builders.BASELINE, "c", "d"}] * budget.repeat_rounds,
        *[{builders.BASELINE, "e"}] * budget.repeat_rounds,
    ]
    assert repetitions.is_repetition_complete(recorder.state, 1, header.question)


#: Workflows whose outputs vary at the check or after the race, unless they run on one thread.
THREADED = ("threaded", "later")


def test_the_fallback_is_measured_after_the_outputs_have_varied(own_context: Context) -> None:
    workflows = own_context.probes / "workflows"
    for name in THREADED:
        shutil.copy(workflows / "misbehaving.py", workflows / f"{name}.py")
    with (own_context.catalogue_directory / "workflows.toml").open("a") as file:
        file.write((FAKES / "catalogue" / "threaded.toml").read_text())
    run = sessions.execute_run(own_context, sessions.short_options(",".join(THREADED)))
    added = sessions.of_kind(run.events(), ArmsAdded)
    processes, answer = run.state().processes, answer_of_run(run)
    for name in THREADED:
        fallback = f"{name}/one-thread"
        (because,) = [
            each.because for each in added if fallback in {planned.id for planned in each.added}
        ]
        assert name in because
        expect_failure(processes[name][-1].outcome, "nondeterministic")
        assert processes[fallback][-1].outcome == Outcome()
        assert fallback in answer.results.by_arm
    assert sum(len(each.added) for each in added) == len(THREADED)


SHAPES = [Shape(1, 8), Shape(2, 8), Shape(1, 32), Shape(2, 32)]


@pytest.fixture(scope="module")
def answer(module_context: Context) -> Answer:
    lengths = {"input_tokens": "8,32", "length_mix": "8:3,32:1"}
    asked = sessions.short_options("quick", batch_sizes="1,2", **lengths)
    return answer_of_run(sessions.execute_run(module_context, asked))


def test_every_shape_has_its_race_and_counts_by_its_share(answer: Answer) -> None:
    assert [race.shape for race in answer.results.races] == SHAPES
    quick = answer.results.by_arm["quick"]
    assert {cell.shape: cell.weight for cell in quick.cells} == dict(
        zip(SHAPES, (1.5, 1.5, 0.5, 0.5), strict=True)
    )
    mean = math.fsum(cell.weight * math.log(cell.speedup.value) for cell in quick.cells) / 4
    assert math.log(quick.speedup.value) == pytest.approx(mean)


def test_tables_and_documents_have_figures_by_length(answer: Answer) -> None:
    head, *rows = next(each.rows for each in list_tables(answer) if each.name == "shapes")
    tokens, share, batch = (head.index(name) for name in ("tokens", "share", "batch"))
    shown = [(row[tokens], row[share], row[batch]) for row in rows]
    lengths = (("8", "38 %"), ("32", "12 %"))
    assert shown == [(*length, size) for length in lengths for size in "12"]
    for output in (text_report.render(answer), markdown.render(answer), page.render(answer)):
        assert all(name in output for name in ("share", "quick", "38 %"))
    read = msgspec.json.decode(encode(answer), type=Answer)
    assert [each.shape for each in builders.known(read.recommendation).advice_by_shape] == SHAPES
    quick = [row for row in figures.rows(read) if row["arm"] == "quick"]
    assert [(row["input_tokens"], row["batch_size"]) for row in quick] == [
        (shape.input_tokens, shape.batch_size) for shape in SHAPES
    ]
