"""What starts of new processes say: the line of the answer, the table, and a limit of the user."""

from __future__ import annotations

import builders
import built_answers
import msgspec
import pytest

from advisor.decide.decision import evaluate
from advisor.domain.answer import Answer
from advisor.domain.constraints import FIGURES, START, Constraint
from advisor.domain.measurement import COLD, Start
from advisor.domain.run_state import RunState
from advisor.report.parts import tables
from probes.wire.outcome import Outcome

COLD_START = Start(way=COLD, title="nothing kept", seconds=57.9, call_seconds=0.01)
SAVED = Start(
    way="saved",
    title="the file",
    loads_on="the same GPU",
    source="a page",
    seconds=3.1,
    call_seconds=0.02,
    shipped_bytes=18 << 20,
    lines=2,
)
BROKEN = Start(way="other", title="the package", failure="it is broken")
UNCHECKED = Start(way="early", title="the cache", seconds=0.5, failure="it was not checked")

ARMS = (builders.BASELINE, builders.DUPLICATE, "compiled")


def run_state(*starts: Start, finished: bool = True) -> RunState:
    """Return a run in which `compiled` wins and has these starts."""
    return builders.run_state(
        {
            arm: builders.process(*builders.visits([seconds] * 4), outcome=Outcome())
            for arm, seconds in zip(ARMS, (0.4, 0.4, 0.1), strict=True)
        },
        opened={1: ARMS},
        closed={1: "decided"},
        starts={"compiled": starts} if starts else {},
        finished=finished,
    )


def answer(*starts: Start) -> Answer:
    return evaluate(built_answers.finished_header(), run_state(*starts))


def test_the_answer_has_the_cold_start_and_the_fastest_way() -> None:
    (line,) = built_answers.headline(answer(COLD_START, SAVED, BROKEN), "start")
    assert all(figure in line for figure in ("57.9 s", "3.1 s", "18 MiB", "2 lines", "the file"))
    (cold,) = built_answers.headline(answer(COLD_START), "start")
    assert "57.9 s" in cold
    assert "line" not in cold
    slightly_slower = Start(way="kept", title="the folder", seconds=3.14, lines=0)
    (line,) = built_answers.headline(answer(COLD_START, SAVED, slightly_slower), "start")
    assert "the folder" in line
    assert not built_answers.headline(answer(BROKEN), "start")
    assert not built_answers.headline(answer(), "start")


def test_the_table_has_every_way_with_its_calls_and_the_notes_what_failed() -> None:
    found = {table.name: table for table in tables(answer(COLD_START, SAVED, BROKEN))}
    _, cold, saved, broken = found["starts"].rows
    assert [row[2] for row in (cold, saved, broken)] == ["57.9", "3.1", "-"]
    assert any("it is broken" in note for note in found["starts"].notes)
    assert any("the same GPU" in note and "a page" in note for note in found["starts"].notes)
    assert "starts" not in {table.name for table in tables(answer())}


@pytest.mark.parametrize(("limit", "is_met"), [(10.0, True), (3.0, False)])
def test_a_limit_of_the_start_is_met_by_the_fastest_way(limit: float, is_met: bool) -> None:
    get = FIGURES[START].get
    assert get(builders.measurement(starts=(COLD_START, SAVED, BROKEN, UNCHECKED))) == SAVED.seconds
    assert get(builders.measurement(starts=(BROKEN, UNCHECKED))) is None
    header = built_answers.finished_header()
    constraint = Constraint(criterion=START, at_most=limit)
    question = msgspec.structs.replace(header.question, constraints=(constraint,))
    header = msgspec.structs.replace(header, question=question)

    def fails(state: RunState, arm: str) -> bool:
        scores = {scored.arm: scored for scored in evaluate(header, state).scores}
        return bool(scores[arm].failures)

    assert fails(run_state(COLD_START, SAVED), "compiled") != is_met
    assert fails(run_state(COLD_START, SAVED), builders.BASELINE), "its start is not known"
    running = run_state(finished=False)
    assert not fails(running, "compiled"), "starts are measured last"
    assert evaluate(header, running).question.constraints == (constraint,)
