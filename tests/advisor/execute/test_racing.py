"""How long a race lasts, which visits are made again, and what it finds of known speeds."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator

import builders
import built_answers
import pytest
import sessions
from builders import BASELINE, replace
from simulation import (
    NOISE_LEVELS,
    QUIET_CONDITIONS,
    SimulatedSession,
    active_of,
    new_recorder,
    simulate_run,
)

from advisor.ask.context import Context
from advisor.decide import answers, trust
from advisor.decide.race import FEWEST_ROUNDS, Race, race_result, results_by_shape
from advisor.domain.errors import MachineUnfitError
from advisor.domain.measurement import Interval
from advisor.domain.question import Budget
from advisor.domain.recommendation import Decision
from advisor.domain.results import RaceResult
from advisor.domain.run_events import LoggedEvent, RunEvent, WorkerEnded
from advisor.domain.snippet import bounds
from advisor.execute import racing, remaining
from advisor.execute.active_run import Recorder, TimeSpan
from advisor.execute.racing import DECIDING_ROUNDS, RaceEnds, StopRule
from advisor.probing.conditions import ConditionsMonitor
from advisor.report.answer_files import answer_of_run
from probes.outcome import Failure, Outcome
from probes.shape import Shape

CRASHED = Failure("crashed", phase="measure", signal="SIGSEGV", reason="gone")
TWO_SIZES = builders.question(batch_sizes=(1, 4))
PRESETS = builders.shipped_catalogue().presets
VISIT_LIMITS = PRESETS.visit_limits


def test_a_race_with_too_few_rounds_gets_overtime_up_to_its_limit() -> None:
    ends = RaceEnds(*(TimeSpan(lambda: 0.0, 0.0, seconds) for seconds in (10.0, 60.0)))
    found = [ends.after(rounds).end for rounds in (0, DECIDING_ROUNDS - 1, DECIDING_ROUNDS)]
    assert found == [60.0, 60.0, 10.0]


class SessionWithFailingBaseline(SimulatedSession):
    """Workers of which the baseline's ends in the fourth round."""

    def visit(self, arm: str, shape: Shape, number: int) -> Iterator[RunEvent]:
        """Make the calls of one block, or end."""
        if arm != BASELINE or number < 4:
            yield from super().visit(arm, shape, number)
            return
        self.workers[arm].outcome = Outcome(CRASHED)
        yield WorkerEnded(arm=arm, process=0, outcome=Outcome(CRASHED))


def races_of(session: SimulatedSession, recorder: Recorder) -> Iterator[LoggedEvent]:
    """Race two batch sizes; there is always an answer, and no decision is asked for."""
    active = active_of(session, recorder, TWO_SIZES, lambda _: built_answers.answer())
    return recorder.record_each(racing.race_shapes(active))


def test_no_race_is_opened_after_the_baseline_has_ended() -> None:
    session = SessionWithFailingBaseline({BASELINE: 0.0, "compiled": 0.1})
    recorder = new_recorder(["compiled"])
    arms = [(each, 0) for each in recorder.state.plan.arms]
    sessions.exhaust(recorder.record_each(session.start(arms)))
    sessions.exhaust(races_of(session, recorder))
    state = recorder.state
    first = Shape(1)
    assert {shape: end.cause for shape, end in state.closed.items()} == {first: "baseline-ended"}
    assert set(state.last_groups) == {first}
    assert list(results_by_shape(state, TWO_SIZES)) == [first]
    assert remaining.needed_arms(state, TWO_SIZES) == []


def race_late_arm(others: dict[str, float], seconds: float) -> Recorder:
    """Race the baseline and others, then `late` in the seconds that are left after the races."""
    session = SimulatedSession({BASELINE: 0.0, **others, "late": 0.1})
    recorder = new_recorder([*others, "late"])
    *first, late = [(each, 0) for each in recorder.state.plan.arms]
    sessions.exhaust(recorder.record_each(session.start(first)))
    sessions.exhaust(races_of(session, recorder))
    sessions.exhaust(recorder.record_each(session.start([late])))
    asked = replace(TWO_SIZES, budget=replace(TWO_SIZES.budget, race_share=0.0))
    end = session.machine.clock() + seconds
    active = active_of(session, recorder, asked, lambda _: built_answers.answer(), end)
    sessions.exhaust(recorder.record_each(racing.race_shapes(active)))
    return recorder


def test_arms_that_join_at_the_end_of_the_run_have_the_fewest_rounds() -> None:
    state = race_late_arm({"compiled": 0.1}, 0.0).state
    visits = [visit.shape for visit in state.processes["late"][-1].visits]
    assert visits == [each for each in TWO_SIZES.shapes for _ in range(FEWEST_ROUNDS)]
    assert {end.cause for end in state.closed.values()} == {"out-of-time"}


def test_arms_that_join_late_race_against_the_leaders_at_every_shape() -> None:
    state = race_late_arm({"lost": 0.5, "leads": -0.5}, 1.0).state
    expected = {BASELINE, state.plan.duplicate, "leads", "late"}
    assert [set(state.last_groups[shape]) for shape in TWO_SIZES.shapes] == [expected, expected]
    visits = state.processes["late"][-1].visits
    assert {visit.shape for visit in visits} == {*TWO_SIZES.shapes}


def race_with(rounds: int, *, spread: float, log_speedup: float = 1.0) -> Race:
    """Return a race of two arms after this many rounds; the differences scatter by `spread`."""
    race = Race(["fast", "slow"], "slow", most_rounds=40)
    for number in range(rounds):
        for arm in race.next_round():
            race.record(arm, (arm == "fast") * (spread * (-1) ** number - log_speedup))
    return race


LIKELY = replace(
    built_answers.advice_of(built_answers.answer()).decision, word="LIKELY", certain=False
)


def test_a_race_ends_at_a_look_when_there_is_an_answer_and_its_intervals_are_narrow() -> None:
    rule = StopRule(lambda: LIKELY)
    assert not rule.may_end(race_with(DECIDING_ROUNDS - 1, spread=0.001))
    assert not rule.may_end(race_with(5, spread=0.001)), "5 rounds are no look"
    assert rule.may_end(race_with(DECIDING_ROUNDS, spread=0.001))
    races = [race_with(DECIDING_ROUNDS, spread=0.03, log_speedup=gain) for gain in (0.1, 2.0)]
    ends = [StopRule(lambda: LIKELY).may_end(each) for each in races]
    assert ends == [False, True], "a large gain need not be known as well as a small one"


@pytest.mark.parametrize("decision", [None, replace(LIKELY, word="OPEN")])
def test_a_race_goes_on_while_the_answer_does_not_stand(decision: Decision | None) -> None:
    assert not StopRule(lambda: decision).may_end(race_with(6, spread=0.001))


def test_a_race_goes_on_while_wide_intervals_shrink_and_ends_when_they_stop() -> None:
    rule = StopRule(lambda: LIKELY)
    assert not rule.may_end(race_with(4, spread=0.5))
    assert not rule.may_end(race_with(9, spread=0.5)), "the interval has shrunk"
    assert rule.may_end(race_with(9, spread=0.5)), "as wide as at the last look"


@pytest.mark.parametrize("serves_decision", [False, True])
@pytest.mark.parametrize("is_certain", [False, True])
def test_intervals_may_be_wider_where_the_budget_wants_a_decision_that_is_certain(
    *, is_certain: bool, serves_decision: bool
) -> None:
    rule = StopRule(lambda: replace(LIKELY, certain=is_certain), serves_decision)
    assert not rule.may_end(race_with(DECIDING_ROUNDS, spread=0.2))
    rule = StopRule(lambda: replace(LIKELY, certain=is_certain), serves_decision)
    assert rule.may_end(race_with(DECIDING_ROUNDS, spread=0.07)) == (is_certain and serves_decision)


@pytest.mark.parametrize(("skips_losing_arms", "rounds"), [(False, 6), (True, 4)])
def test_the_budget_says_whether_a_race_serves_the_decision(
    *, skips_losing_arms: bool, rounds: int
) -> None:
    session = SimulatedSession({BASELINE: 0.0, "fast": -0.2}, "noisy", random.Random(3))
    recorder = new_recorder(["fast"])
    arms = [(each, 0) for each in recorder.state.plan.arms]
    sessions.exhaust(recorder.record_each(session.start(arms)))
    budget = replace(builders.question().budget, skips_losing_arms=skips_losing_arms)
    question = builders.question(budget=budget)
    active = active_of(session, recorder, question, lambda _: built_answers.answer())
    sessions.exhaust(recorder.record_each(racing.race_shapes(active)))
    assert max(number for _, _, number in session.order) == rounds


def test_an_early_race_ends_at_the_first_look() -> None:
    races = [race_with(DECIDING_ROUNDS + more, spread=0.5) for more in (-1, 0, 1)]
    ends = [racing.ends_at_first_look(each) for each in races]
    assert ends == [False, True, False], "one more round is no look"


def test_a_visit_is_repeated_at_most_as_often_as_the_limit_allows() -> None:
    allowed = [racing.may_discard(0, 100, attempt, VISIT_LIMITS) for attempt in range(4)]
    assert allowed == [True, True, False, False]


def test_the_first_visit_may_be_discarded_and_later_ones_up_to_their_share() -> None:
    assert racing.may_discard(0, 0, 0, VISIT_LIMITS)
    assert not racing.may_discard(1, 1, 0, VISIT_LIMITS), "two of two"
    assert racing.may_discard(2, 9, 0, VISIT_LIMITS), "three of ten"
    assert not racing.may_discard(3, 9, 0, VISIT_LIMITS), "four of ten"


@pytest.mark.slow
def test_a_busy_machine_discards_only_the_allowed_visits_and_has_the_lowest_trust(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker always has waited for a processor half of the time."""
    busy = replace(QUIET_CONDITIONS, queued_share=0.5)
    monkeypatch.setattr(ConditionsMonitor, "conditions_since", lambda *_: busy)
    answer = answer_of_run(sessions.execute_run(context, sessions.short_options("quick")))
    visits = answer.results.visits
    # The first visit of each of the three arms may be discarded in any case.
    assert 0 < visits.discarded <= VISIT_LIMITS.most_discarded_share * visits.made + 3
    assert visits.unfit == visits.made - visits.discarded
    assert answer.results.is_unfit
    assert trust.judge_trust(answer.results, "CLEAR", gain=1.5)[0] == "D"
    if answer.recommendation is None:
        assert builders.known(answer.problem).name == MachineUnfitError.name
    else:
        assert answer.recommendation.trust == "D"


#: The shipped budget, without further rounds for an open decision.
STANDARD = Budget(name="standard", measuring_seconds=120, most_rounds=40, repeats=0)
WITHIN = 0.02
#: How much slower than the best each arm is, as a share.
SCENARIOS = {
    "clear": (0, 0.10, 0.20, 0.30, 0.50, 0.80, 1.00, 1.50),
    "typical": (0, 0.04, 0.06, 0.10, 0.20, 0.35, 0.60, 1.00),
    "hard": (0, 0.015, 0.03, 0.05, 0.08, 0.12, 0.20, 0.40),
    "tie": (0, 0.003, 0.005, 0.05, 0.10, 0.20, 0.40, 0.60),
}


@dataclasses.dataclass(frozen=True)
class Instance:
    gaps: dict[str, float]
    session: SimulatedSession
    result: RaceResult

    @property
    def regret(self) -> float:
        """How much slower the selected arm is than the best, as a share."""
        return math.expm1(self.gaps[self.result.best] - min(self.gaps.values()))


def race(noise: str, scenario: str, seed: int) -> Instance:
    """Race one instance with the code of the pipeline; the arms are in random order."""
    chance = random.Random(f"{noise}/{scenario}/{seed}")
    shares = SCENARIOS.get(scenario) or (
        0,
        *(math.expm1(chance.gammavariate(1.0, 0.35)) for _ in range(chance.randint(2, 15))),
    )
    names = [BASELINE, *(f"arm-{number}" for number in range(1, len(shares)))]
    chance.shuffle(names)
    gaps = {name: math.log1p(share) for name, share in zip(names, shares, strict=True)}
    session = SimulatedSession(gaps, noise, chance)
    question = builders.question(budget=STANDARD, seed=seed)
    _, state = simulate_run(session, question, repeats=False)
    return Instance(gaps, session, race_result(state, Shape(1), question))


@pytest.mark.slow
def test_the_selected_arm_is_within_two_percent_of_the_best() -> None:
    from scipy.stats import binomtest  # noqa: PLC0415 - slow to import

    made = [
        race(noise, scenario, seed)
        for noise in NOISE_LEVELS
        for scenario in (*SCENARIOS, "random")
        for seed in range(5)
    ]
    right = sum(instance.regret <= WITHIN + 1e-9 for instance in made)
    lower_bound = binomtest(right, len(made), alternative="greater").proportion_ci().low
    assert lower_bound >= 0.95, f"{right} of {len(made)} within 2 % of the best"
    assert sorted(instance.regret for instance in made)[math.ceil(0.99 * len(made)) - 1] <= 0.03


def test_the_same_seed_visits_in_the_same_order_and_decides_the_same() -> None:
    first, second, other = (race("noisy", "hard", seed) for seed in (1, 1, 2))
    assert first.session.order == second.session.order
    assert first.result == second.result
    assert first.session.order != other.session.order


GAPS = {BASELINE: 0.0, "first": -0.5, "close": -0.47, "middle": -0.2, "slower": 0.1}
RUNS = 20
#: Shares of compatible pairs, and of intervals that contain the truth.
MOST_COMPATIBLE, LEAST_COVERAGE = 0.95, 0.93


def simulate(noise: str, seed: int) -> dict[str, Interval]:
    session = SimulatedSession(GAPS, noise, random.Random(seed))
    question = builders.question(budget=PRESETS.budgets["quick"], seed=seed)
    results = answers.answer_from_state(*simulate_run(session, question)).results
    return {
        entry.arm: entry.cells[0].speedup for entry in results.measurements if entry.arm != BASELINE
    }


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["quiet", "normal", "noisy"])
def test_intervals_of_two_runs_overlap_and_contain_the_truth(noise: str) -> None:
    runs = [simulate(noise, seed) for seed in range(RUNS)]
    overlaps = [
        bounds(one[arm])[0] <= bounds(two[arm])[1] and bounds(two[arm])[0] <= bounds(one[arm])[1]
        for one, two in itertools.combinations(runs, 2)
        for arm in one
    ]
    covered = [
        bounds(interval)[0] <= math.exp(-GAPS[arm]) <= bounds(interval)[1]
        for run in runs
        for arm, interval in run.items()
    ]
    assert sum(overlaps) >= MOST_COMPATIBLE * len(overlaps)
    assert sum(covered) >= LEAST_COVERAGE * len(covered)
