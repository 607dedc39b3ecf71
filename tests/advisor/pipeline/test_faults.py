"""What goes wrong while times are taken is seen and said; what goes right is never said to be wrong."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterator

import builders
import pytest
from builders import BASELINE, DUPLICATE
from simulation import REGIMES, Environment, SimulatedRun, SimulatedSession

from advisor import catalogue, measure
from advisor.context import Context
from advisor.domain.measurement import Results
from advisor.domain.question import Budget
from advisor.domain.run_events import Conditions
from advisor.pipeline import execution, racing, replay
from advisor.pipeline.arms import plan_of
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.probing.conditions import CpuReading
from advisor.question.answers import Answers
from advisor.recommend import trust
from advisor.report import document

RULES = catalogue.load().presets.guard
MARGIN = 0.02
#: What is said only of a fault.
ALARMS = ("stalled", "changed while", "settled", "discarded", "busy or held down")


def simulate(regime: str, seed: int, shift: tuple[int, float] | None = None) -> Results:
    """Return the results of a simulated run of three arms; `shift` changes one of them from a visit on."""
    gaps = {BASELINE: 0.0, DUPLICATE: 0.0, "compiled": 0.005, "other": -0.005}
    session = SimulatedSession(Environment(REGIMES[regime], random.Random(seed)), gaps)
    if shift:
        session.shifts["compiled"] = shift
    run = SimulatedRun(["compiled", "other"])
    question = builders.question(
        budget=Budget(name="standard", measuring_seconds=120, most_rounds=40), seed=seed
    )
    run.take(session.start([(arm, 0) for arm in plan_of(run.state).arms]))
    run.take(racing.drive(session, lambda: run.state, question, RULES, session.environment.clock))  # type: ignore[arg-type]
    run.take(session.stop())
    return measure.summarise(
        run.state, replay.results_by_batch_size(run.state, question), dtype="float32", margin=MARGIN
    )


def shifts(results: Results) -> dict[str, float]:
    return {
        entry.arm: cell.shift
        for entry in results.measurements
        for cell in entry.cells
        if cell.shift
    }


@pytest.mark.parametrize("share", [0.25, -0.2], ids=["throttled", "settles late"])
@pytest.mark.parametrize("visit", [3, 4, 5, 8])
def test_a_speed_that_changes_while_it_is_measured_is_seen_every_time(
    visit: int, share: float
) -> None:
    runs = {seed: simulate("normal", seed, (visit, math.log1p(share))) for seed in range(30)}
    # An arm that was not visited any more then has shown nothing of it.
    lasted = {
        seed: results
        for seed, results in runs.items()
        if len(results.log_speedups["compiled"][1]) > visit
    }
    assert lasted
    for seed, results in lasted.items():
        found = shifts(results)
        assert set(found) == {"compiled"}, seed
        assert found["compiled"] == pytest.approx(share, abs=0.05)
        assert any(
            "the speed changed while it was measured: compiled by" in lack
            for lack in trust.grade(results, "PROVEN")[1]
        )


def test_in_200_clean_runs_there_is_no_false_alarm() -> None:
    for seed in range(200):
        results = simulate(("quiet", "independent", "normal")[seed % 3], seed)
        said = [
            lack
            for lack in trust.grade(results, "PROVEN")[1]
            if any(alarm in lack for alarm in ALARMS)
        ]
        assert said == [], seed


class BusyGuard:
    """Stands for a machine on which another process keeps a processor busy."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Watch nothing."""
        yield

    def energy_joules(self) -> float | None:
        """Count nothing."""
        return None

    def read(self, process: int) -> CpuReading:
        """Return counters that nobody uses."""
        del process
        return CpuReading(0.0, 0, 0, None, None)

    def conditions_since(self, before: CpuReading, process: int) -> Conditions:
        """Return that the worker waited for a processor half of the time."""
        del before, process
        return Conditions(seconds=0.05, stolen_share=0.0, queued_share=0.5, throttled_seconds=0.0)


def test_a_run_beside_a_busy_process_says_so_and_is_not_trusted(
    fake_world: Callable[[], Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "Guard", lambda _gpu: BusyGuard())
    run = prepare(Answers(batch_sizes="2", budget="3", workflows="quick"), fake_world())
    for _ in execute(run, fake_world()):
        pass
    decision = decide(run)
    advice, visits = decision.recommendation, decision.results.visits
    assert advice is not None
    assert advice.trust == "D"
    # However unfit the machine, no more than the share that the rules allow, and the first of each
    # arm.
    assert 0 < visits.discarded <= RULES.most_discarded_share * visits.made + 3
    assert visits.unfit == visits.made - visits.discarded
    assert any(
        f"during {visits.unfit} of {visits.made} visits that count" in reason
        for reason in advice.trust_reasons
    )
    assert any("measure again when the machine is quiet" in step for step in advice.next_steps)
    composed = document.compose(decision)
    assert composed.race is not None
    assert composed.race.discarded == visits.discarded
