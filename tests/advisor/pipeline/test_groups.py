"""When memory is short for all arms at once they race in groups, each with the baseline and the best so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from builders import BASELINE, DUPLICATE

from advisor import pipeline
from advisor.domain.events import Ended, Happening, Heard, RaceOpened
from advisor.domain.plan import REFERENCE
from advisor.domain.said import Ready, Visited
from advisor.pipeline import World, racing
from advisor.probing import visits
from advisor.question.answers import Answers
from advisor.race import Verdict

ARMS = {BASELINE, "quick", "alike", "misbehaving/floods", "narrow/served"}


class Tight:
    """Room for four workers that are built: the baseline, its duplicate and two more."""

    def __init__(self, watch: object) -> None:
        del watch
        self.built: set[str] = set()

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Heard) and isinstance(happening.said, Ready) and happening.arm != REFERENCE:
            self.built.add(happening.arm)
        elif isinstance(happening, Ended):
            self.built.discard(happening.arm)

    def is_left(self) -> bool:
        return len(self.built) < 4


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "Room", Tight)


@pytest.mark.usefixtures("tight")
def test_all_arms_are_raced_though_they_do_not_fit_together_even_after_a_break(fake_world: Callable[[], World]) -> None:
    answers = Answers(batch_sizes="2", budget="6", workflows="quick,alike,misbehaving/floods,narrow/served")
    run = pipeline.prepare(answers, fake_world())
    opened = 0
    broken_off = pipeline.execute(run, fake_world())
    for event in broken_off:
        opened += isinstance(event.happening, RaceOpened)
        said = event.happening.said if isinstance(event.happening, Heard) else None
        if opened == 2 and isinstance(said, Visited):
            break
    broken_off.close()  # type: ignore[attr-defined]
    for _ in pipeline.execute(run, fake_world()):
        pass

    decision = pipeline.decide(run)
    groups = decision.state.groups[2]
    assert len(groups) == 3
    assert {arm for group in groups for arm in group.arms} == {*ARMS, DUPLICATE}
    assert all({BASELINE, DUPLICATE} < set(group.arms) and len(group.arms) <= 4 for group in groups)
    assert all("quick" in group.arms for group in groups), "the best so far stays"
    assert [group.first_round for group in groups] == sorted({group.first_round for group in groups}), "rounds are counted on"
    (race,) = decision.results.races
    assert race.best == "quick"
    assert {*race.tied, *race.unresolved, *race.eliminated} == ARMS
    assert {measurement.arm for measurement in decision.results.measurements} == ARMS
    assert decision.state.finished
    assert racing.waiting_arms(decision.state, run.header().question) == set()


def verdict(kind: Any, best: str, *, tied: tuple[str, ...] = (), unresolved: tuple[str, ...] = (), rounds: int = 4, **out: int) -> Verdict:
    return Verdict(kind, best, (best, *tied), unresolved, rounds, out)


@pytest.mark.parametrize(
    ("earlier", "later", "together"),
    [
        (verdict("PROVEN", "a", b=4), verdict("PROVEN", "a", rounds=9, c=9), verdict("PROVEN", "a", rounds=9, b=4, c=9)),
        (verdict("PROVEN", "a", b=4), verdict("PROVEN", "c", rounds=9, a=9), verdict("PROVEN", "c", rounds=9, b=4, a=9)),
        (verdict("TIE", "a", tied=("b",)), verdict("PROVEN", "a", rounds=9, c=9), verdict("TIE", "a", tied=("b",), rounds=9, c=9)),
        (verdict("SAFE", "a", unresolved=("b",)), verdict("TIE", "a", tied=("c",)), verdict("SAFE", "a", tied=("c",), unresolved=("b",))),
        (verdict("TIE", "a", tied=("b",)), verdict("PROVEN", "c", a=9), verdict("INCONCLUSIVE", "c", unresolved=("b",), a=9)),
        (verdict("INCONCLUSIVE", "a", unresolved=("b",)), verdict("PROVEN", "a", b=9), verdict("PROVEN", "a", b=9)),
    ],
)
def test_two_groups_together_say_no_more_than_was_shown(earlier: Verdict, later: Verdict, together: Verdict) -> None:
    assert racing.join_verdicts(earlier, later) == together
