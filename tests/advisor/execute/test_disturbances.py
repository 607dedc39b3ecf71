"""Disturbances during the measurement are found; undisturbed runs raise no alarm."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator

import builders
import msgspec
import pytest
import sessions
from builders import BASELINE, DUPLICATE
from simulation import NOISE_LEVELS, SimulatedMachine, SimulatedSession, simulate_run

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide import replay, trust
from advisor.decide.decision import decide
from advisor.decide.drift import MIN_ROUNDS
from advisor.decide.summary import summarise
from advisor.domain.answer import Answer
from advisor.domain.question import Budget
from advisor.domain.results import Results
from advisor.domain.run_events import Conditions
from advisor.errors import MachineUnfitError
from advisor.execute import execution
from advisor.probing.conditions import CpuReading

pytestmark = pytest.mark.slow

LIMITS = builders.shipped_catalogue().presets.guard


def simulate(regime: str, seed: int, shift: tuple[int, float] | None = None) -> Results:
    """Return the results of a simulated race of three arms and the baseline's duplicate.

    `shift` is a visit number and the change of the log seconds of `compiled` from this visit on.
    """
    gaps = {BASELINE: 0.0, DUPLICATE: 0.0, "compiled": 0.005, "other": -0.005}
    session = SimulatedSession(SimulatedMachine(NOISE_LEVELS[regime], random.Random(seed)), gaps)
    if shift:
        session.shifts["compiled"] = shift
    budget = Budget(name="standard", measuring_seconds=120, most_rounds=40)
    question = builders.question(budget=budget, seed=seed)
    # An answer would end the race before it has enough rounds to show a change.
    run = simulate_run(session, ["compiled", "other"], question, lambda *_: False)
    races = replay.results_by_shape(run.state, question)
    return summarise(run.state, races, dtype="float32")


def shifts(results: Results) -> dict[str, float]:
    return {
        entry.arm: cell.shift
        for entry in results.measurements
        for cell in entry.cells
        if cell.shift
    }


def without_shifts(results: Results) -> Results:
    """Return the results as if no speed had changed during the measurement."""
    steady = tuple(
        msgspec.structs.replace(
            entry,
            cells=tuple(msgspec.structs.replace(cell, shift=0.0) for cell in entry.cells),
        )
        for entry in results.measurements
    )
    return msgspec.structs.replace(results, measurements=steady)


@pytest.mark.parametrize("share", [0.25, -0.2], ids=["throttled", "settles late"])
@pytest.mark.parametrize("visit", [3, 8])
def test_a_change_of_speed_during_the_race_is_always_found(visit: int, share: float) -> None:
    runs = {seed: simulate("normal", seed, (visit, math.log1p(share))) for seed in range(6)}
    # A run whose race ended too soon after the change cannot show it.
    changed = {
        seed: results
        for seed, results in runs.items()
        if len(results.log_speedups["compiled"]["1"]) >= visit + MIN_ROUNDS
    }
    assert changed
    for seed, results in changed.items():
        found = shifts(results)
        assert set(found) == {"compiled"}, seed
        assert found["compiled"] == pytest.approx(share, abs=0.05)
        unchanged = trust.grade(without_shifts(results), "CLEAR")[1]
        assert {*trust.grade(results, "CLEAR")[1]} > {*unchanged}


def test_undisturbed_runs_hardly_raise_an_alarm() -> None:
    alarms = []
    for seed in range(30):
        results = simulate(("quiet", "independent", "normal")[seed % 3], seed)
        visits = results.visits
        assert (visits.discarded, visits.unfit, visits.stalled_calls) == (0, 0, 0), seed
        steady = all(measurement.steady for measurement in results.measurements)
        if shifts(results) or not steady:
            alarms.append(seed)
    # 60 series with a probability of a false alarm of 0.1 % each.
    assert len(alarms) <= 1, alarms


class BusyMonitor:
    """Stands for the monitor of a machine with a busy processor."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Monitor nothing."""
        yield

    def energy_joules(self) -> float | None:
        """Return that energy is not known."""
        return None

    def read_counters(self, process: int) -> CpuReading:
        """Return counters that are not used."""
        del process
        return CpuReading(0.0, 0, 0, None, None)

    def conditions_since(self, before: CpuReading, process: int) -> Conditions:
        """Return that the worker waited for a processor half of the time."""
        del before, process
        return Conditions(seconds=0.05, stolen_share=0.0, queued_share=0.5, throttled_seconds=0.0)


@pytest.fixture(scope="module")
def busy_answer(module_context: Context) -> Answer:
    """The answer of a run on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "ConditionsMonitor", lambda _gpu: BusyMonitor())
        answers = Answers(batch_sizes="2", budget="1", all_arms=True, workflows="quick")
        return decide(sessions.execute_run(module_context, answers))


def test_no_more_visits_are_discarded_than_the_limits_allow(busy_answer: Answer) -> None:
    visits = busy_answer.results.visits
    # The first visit of each of the three arms may be discarded in any case.
    assert 0 < visits.discarded <= LIMITS.most_discarded_share * visits.made + 3
    assert visits.unfit == visits.made - visits.discarded


def test_a_run_on_a_busy_machine_has_the_lowest_trust(busy_answer: Answer) -> None:
    assert trust.is_unfit(busy_answer.results)
    assert trust.grade(busy_answer.results, "CLEAR")[0] == "D"
    if busy_answer.recommendation is None:
        assert busy_answer.problem is not None
        assert busy_answer.problem.name == MachineUnfitError.name
    else:
        assert busy_answer.recommendation.trust == "D"
