"""Speed-ups from paired rounds, from the fastest calls and from the fastest visits."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence

import builders
import pytest
from builders import BASELINE, replace
from built_measurements import RACES, only_measurement, repeated_run, run_with, summarise
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide import fastest_calls
from advisor.decide.intervals import t_quantile, trimmed_mean
from advisor.decide.rounds import (
    FASTEST_SHARE,
    compare_undisturbed,
    paired_log_speedups,
    race_log_speedups,
    summarise_undisturbed,
    undisturbed_level,
)
from advisor.domain.measurement import Cell, Measurement
from advisor.domain.results import Results
from advisor.domain.run_events import Conditions, ConditionsRecorded
from advisor.domain.run_state import RunState
from probes.events import Visited
from probes.shape import Shape

TRUTH = 3.0
SLOWDOWNS = [9.0, 8.5, 9.2, 9.1, 8.8, 9.0, 9.3, 8.9]
NO_WAITS: Mapping[str, float] = {}


def visits(
    seed: int, typical: float, slowdowns: Sequence[float], undisturbed: Sequence[float]
) -> list[Visited]:
    """Return visits of 40 calls that vary by a few per cent.

    In each visit other work slows all calls but a share that is `undisturbed`.
    """
    draw = random.Random(seed)
    made = builders.visits([typical] * len(slowdowns))
    return [
        replace(
            visit,
            seconds=tuple(
                typical * draw.uniform(1.0, 1.03) * (1.0 if draw.random() < share else slowdown)
                for _ in range(40)
            ),
        )
        for visit, slowdown, share in zip(made, slowdowns, undisturbed, strict=True)
    ]


def summarised(
    slowdowns: Sequence[float],
    *,
    undisturbed: Sequence[float] = (0.15,) * 8,
    unfit: str | None = None,
    waited: Mapping[str, float] = NO_WAITS,
) -> Results:
    """Return the results of a run in which other work slows the baseline alone.

    `waited` has by arm the share of each visit during which its threads wait for a processor.
    """
    quiet = [1.0] * len(slowdowns)
    arms = {
        BASELINE: visits(0, 0.003, slowdowns, undisturbed),
        "compiled": visits(1, 0.003 / TRUTH, quiet, quiet),
    }
    return summarised_arms(arms, unfit=unfit, waited=waited)


def summarised_arms(
    arms: Mapping[str, Sequence[Visited]],
    *,
    unfit: str | None = None,
    waited: Mapping[str, float] = NO_WAITS,
) -> Results:
    recorded = {
        arm: [
            ConditionsRecorded(
                arm=arm,
                process=0,
                shape=Shape(1),
                round=visit.round,
                conditions=Conditions(
                    seconds=1.0,
                    stolen_share=0.0,
                    queued_share=waited.get(arm),
                    throttled_seconds=None,
                ),
                unfit=unfit,
                discarded=False,
            )
            for visit in made
        ]
        for arm, made in arms.items()
    }
    state = builders.run_state(
        {
            arm: builders.process(*made, visit_conditions=tuple(recorded[arm]))
            for arm, made in arms.items()
        }
    )
    return summarise(state, RACES)


def only_cell(results: Results) -> tuple[Measurement, Cell]:
    measured = only_measurement(results)
    (cell,) = measured.cells
    return measured, cell


@pytest.mark.parametrize("first", [1.0, 0.6])
def test_on_a_quiet_machine_the_paired_rounds_count(first: float) -> None:
    measured, cell = only_cell(summarised([first] + [1.0] * 7))
    assert cell.fastest_calls is None
    assert measured.speedup.value == pytest.approx(TRUTH, rel=0.02)


def test_a_contradiction_widens_the_interval_and_the_fastest_calls_count() -> None:
    results = summarised(SLOWDOWNS)
    measured, cell = only_cell(results)
    assert cell.fastest_calls is not None
    for speedup in (cell.speedup, measured.speedup):
        assert speedup.value == pytest.approx(TRUTH, rel=0.03)
        assert builders.known(speedup.low) < TRUTH < 8 * TRUTH < builders.known(speedup.high)
    baseline = next(each for each in results.measurements if each.arm == BASELINE)
    ratio = baseline.cells[0].seconds.median / cell.seconds.median
    assert ratio == pytest.approx(cell.speedup.value)


def test_where_other_work_explains_the_contradiction_only_the_fastest_calls_count() -> None:
    results = summarised(SLOWDOWNS, unfit="it waited for a processor")
    measured, cell = only_cell(results)
    times = {entry.arm: entry.cells[0].seconds.median for entry in results.measurements}
    assert times[BASELINE] == pytest.approx(0.003, rel=0.02)
    assert times["compiled"] == pytest.approx(0.003 / TRUTH, rel=0.02)
    for speedup in (cell.speedup, measured.speedup):
        assert speedup.value == pytest.approx(TRUTH, rel=0.03)
        assert builders.known(speedup.low) < TRUTH < builders.known(speedup.high) < 1.5 * TRUTH


def test_an_arm_of_busier_rounds_may_have_missed_the_quiet_ones() -> None:
    """The same program is no slower for having joined when the machine was busier."""
    busier = [1.0] * 4 + [1.5] * 4
    arms = {
        BASELINE: visits(0, 0.003, SLOWDOWNS, (0.15,) * 8),
        "compiled": visits(1, 0.003 / TRUTH, busier, (0.0,) * 8),
        "late": visits(2, 0.003 / TRUTH, busier, (0.0,) * 8)[4:],
    }
    results = summarised_arms(arms, unfit="it waited for a processor")
    compiled, late = (
        next(each.speedup for each in results.measurements if each.arm == arm)
        for arm in ("compiled", "late")
    )
    assert late.value == pytest.approx(compiled.value, rel=0.03)
    assert builders.known(late.low) < TRUTH / 1.5
    assert builders.known(late.high) > TRUTH


@pytest.mark.parametrize(("undisturbed", "holds"), [(0.0, True), (0.15, False)])
def test_where_no_call_was_undisturbed_all_may_have_waited(undisturbed: float, holds: bool) -> None:
    """A tail of fast calls shows what an undisturbed call takes; without one, nothing does."""
    calm, queued, both = (
        only_cell(
            summarised(SLOWDOWNS, undisturbed=(undisturbed,) * 8, unfit="busy", waited=waited)
        )[1].speedup
        for waited in (NO_WAITS, {BASELINE: 0.95}, {BASELINE: 0.95, "compiled": 0.9})
    )
    assert queued.low is not None
    assert queued.low == pytest.approx(builders.known(calm.low) * (0.05 if holds else 1.0))
    assert queued.low < TRUTH
    assert queued.high == calm.high
    assert queued.value == pytest.approx(calm.value * (1.05 / 2 if holds else 1.0))
    # The calls of the arm all take as long, so each of them may have waited, too.
    assert both.low == queued.low
    assert builders.known(both.high) == pytest.approx(10 * builders.known(calm.high))
    assert both.value == pytest.approx(queued.value * 2 / 1.1)


@pytest.mark.parametrize(
    ("milliseconds", "share"),
    [([2.5, 2.6, 2.8], 1.0), ([10.0, 10.2, 10.6], 0.4), ([10, 14, 20], 1e-3), ([80] * 3, 1.25e-4)],
)
def test_undisturbed_calls_are_short_faster_than_typical_and_agree_over_visits(
    milliseconds: list[float], share: float
) -> None:
    visits = [[each / 1e3, *([0.08] * 7)] for each in milliseconds]
    assert fastest_calls.least_share(visits, waited=1.2, threads=2) == pytest.approx(share)


@pytest.mark.parametrize(("milliseconds", "share"), [(0.04, 1.0), (0.9, 1.0), (1.1, 0.05)])
def test_a_call_that_is_shorter_than_any_wait_did_not_wait(
    milliseconds: float, share: float
) -> None:
    visits = [[milliseconds / 1e3] * 8] * 2
    assert fastest_calls.least_share(visits, waited=0.95, threads=1) == pytest.approx(share)


def test_on_a_busy_machine_a_few_calls_may_all_have_waited() -> None:
    """Two visits of three calls, each of which took a hundred times as long as it would."""
    baseline = visits(0, 0.003, SLOWDOWNS, (0.15,) * 8)
    few = [replace(each, seconds=(0.1,) * 3) for each in baseline[:2]]
    arms = {BASELINE: baseline, "compiled": few}
    measured, cell = only_cell(
        summarised_arms(arms, unfit="it waited for a processor", waited={"compiled": 0.99})
    )
    assert cell.fastest_calls is not None
    assert builders.known(measured.speedup.low) < 0.03
    assert builders.known(measured.speedup.high) > TRUTH


@pytest.mark.parametrize("unfit", [None, "it waited for a processor"])
def test_on_a_busy_machine_equal_processes_differ_by_their_fastest_calls(unfit: str | None) -> None:
    slow = [30.0] * 4 + [1.0] * 4
    arms = {
        BASELINE: visits(0, 0.003, slow, (0.15,) * 8),
        builders.DUPLICATE: visits(2, 0.003, slow[::-1], (0.15,) * 8),
        "compiled": visits(1, 0.001, [1.0] * 8, (0.15,) * 8),
    }
    floor = builders.known(summarised_arms(arms, unfit=unfit).noise_floor)
    assert floor < 0.1 if unfit else floor > 1.0


@pytest.mark.parametrize(
    ("reported", "threads"), [("4", 4), ("0", 1), ("many", 1), ("9" * 5000, 1), (None, 1)]
)
def test_the_threads_that_a_worker_reports_are_a_number(reported: str | None, threads: int) -> None:
    settings = {} if reported is None else {"threads": reported}
    assert fastest_calls._threads(settings) == threads


def test_undisturbed_calls_in_one_visit_of_many_lower_the_interval_alone() -> None:
    all_, one = (
        only_cell(summarised(SLOWDOWNS, undisturbed=shares, unfit="busy"))[1].fastest_calls
        for shares in ((0.15,) * 8, (0.5, *(0.0,) * 7))
    )
    assert all_ is not None
    assert one is not None
    assert builders.known(one.low) < 0.7 * builders.known(all_.low)
    assert one.high == pytest.approx(all_.high, rel=0.05)


def test_few_calls_have_no_second_estimate() -> None:
    (cell,) = only_measurement(summarise(run_with(0.1, 0.1, 0.1, against=0.9), RACES)).cells
    assert cell.fastest_calls is None


ROUNDS = 7
#: The arm is twice as fast as the baseline.
LOG_TRUTH = math.log(2.0)


def test_the_level_lies_between_the_fastest_times() -> None:
    level = undisturbed_level([[3.0, 1.0, 2.0], [5.0, 4.0]])
    assert level == pytest.approx(1.0 + FASTEST_SHARE * 4)
    assert undisturbed_level([[7.0]]) == 7.0


def disturbed_run(
    noise: random.Random, processes: int = 8
) -> tuple[list[list[float]], list[list[float]]]:
    """Return log times of a baseline and an arm on a machine that other work disturbs.

    It disturbs all times of some processes, the baseline more than the arm, and single visits.
    """
    baseline: list[list[float]] = []
    compiled: list[list[float]] = []
    for _ in range(processes):
        burden = noise.choice((0.0, 0.0, 0.3, noise.uniform(0.1, 0.6)))
        offset = noise.gauss(0, 0.005)
        for series, level, share in ((baseline, LOG_TRUTH, 1.0), (compiled, offset, 0.7)):
            series.append(
                [
                    level + share * burden + abs(noise.gauss(0, 0.02)) + burst(noise)
                    for _ in range(ROUNDS)
                ]
            )
    return baseline, compiled


def burst(noise: random.Random) -> float:
    return noise.expovariate(4) if noise.random() < 0.1 else 0.0


def test_disturbances_move_the_level_less_than_the_mean() -> None:
    noise = random.Random(1)
    runs = [disturbed_run(noise) for _ in range(40)]
    levels = [math.log(compare_undisturbed(*run).value) for run in runs]
    means = [
        statistics.fmean(
            trimmed_mean([first - second for first, second in zip(*pair, strict=True)])
            for pair in zip(*run, strict=True)
        )
        for run in runs
    ]
    assert statistics.stdev(levels) < statistics.stdev(means) / 3
    assert statistics.fmean(levels) == pytest.approx(LOG_TRUTH, abs=0.01)
    assert statistics.fmean(means) > LOG_TRUTH + 0.03


@pytest.mark.slow
@pytest.mark.parametrize("processes", [6, 8])
def test_two_runs_of_the_same_arm_differ_by_no_more_than_their_errors_allow(processes: int) -> None:
    noise = random.Random(2)
    runs = [compare_undisturbed(*disturbed_run(noise, processes)) for _ in range(160)]
    outside = [
        abs(math.log(one.value / two.value))
        > t_quantile(0.975, 2 * (processes - 1)) * math.hypot(one.log_error, two.log_error)
        for one, two in zip(runs[::2], runs[1::2], strict=True)
    ]
    assert statistics.fmean(outside) <= 0.05


Rounds = dict[int, dict[str, Visited]]


def rounds_of(seconds: dict[str, list[float]]) -> Rounds:
    """Return the visits by round; an arm with fewer figures left after them."""
    rounds: Rounds = {}
    for arm, each in seconds.items():
        for visit in builders.visits(each):
            rounds.setdefault(visit.round, {})[arm] = visit
    return rounds


def test_a_drift_of_the_baseline_does_not_put_a_loser_ahead() -> None:
    # The baseline is twice as slow while the loser is in the race.
    rounds = rounds_of({BASELINE: [2.0, 2.0, 1.0, 1.0], "winner": [0.1] * 4, "loser": [0.11, 0.11]})
    loser = race_log_speedups(rounds, BASELINE, "loser", "winner")
    winner = race_log_speedups(rounds, BASELINE, "winner", "winner")
    assert trimmed_mean(paired_log_speedups(rounds, BASELINE, "loser")) > trimmed_mean(winner)
    assert trimmed_mean(winner) - trimmed_mean(loser) == pytest.approx(math.log(1.1))
    assert len(loser) == 2


@given(
    st.lists(st.floats(0.5, 2.0), min_size=3, max_size=6),
    st.lists(st.floats(0.05, 0.2), min_size=6, max_size=6),
    st.lists(st.floats(0.05, 0.2), min_size=2, max_size=6),
)
def test_two_arms_differ_by_the_rounds_that_both_were_in(
    baseline: list[float], best: list[float], other: list[float]
) -> None:
    count = len(baseline)
    left = other[: count - 1]
    rounds = rounds_of({BASELINE: baseline, "best": best[:count], "other": left})
    difference = trimmed_mean(race_log_speedups(rounds, BASELINE, "best", "best")) - trimmed_mean(
        race_log_speedups(rounds, BASELINE, "other", "best")
    )
    direct = trimmed_mean(
        tuple(math.log(mine / one) for mine, one in zip(left, best, strict=False))
    )
    assert difference == pytest.approx(direct, abs=1e-9)


def test_arms_of_other_rounds_keep_their_figures() -> None:
    rounds = rounds_of({BASELINE: [1.0] * 4, "best": [0.1, 0.1]})
    rounds[3]["later"] = rounds[4]["later"] = builders.visits([0.2])[0]
    assert race_log_speedups(rounds, BASELINE, "later", "best") == paired_log_speedups(
        rounds, BASELINE, "later"
    )


#: Seconds of the visits in each process; in the last one other work slows the baseline.
SECONDS = {
    BASELINE: (*([[0.4, 0.4, 0.4]] * 5), [0.9, 0.9, 0.9]),
    "compiled": (*([[0.2, 0.2, 0.2]] * 5), [0.3, 0.3, 0.3]),
}


def run_of(processes: int) -> RunState:
    """Return a run whose arms have this many processes."""
    return repeated_run({arm: seconds[:processes] for arm, seconds in SECONDS.items()})


def test_the_fastest_visits_of_six_processes_are_compared() -> None:
    found = builders.known(summarise_undisturbed(run_of(6), BASELINE, "compiled", Shape(1)))
    assert found.value == pytest.approx(2.0)
    assert found.processes == 6
    assert found.log_error >= 0


def test_rounds_of_the_baseline_alone_do_not_count() -> None:
    state = run_of(6)
    more = tuple(
        replace(process, visits=(*process.visits, *builders.visits([0.1] * 9, first_round=10)))
        for process in state.processes[BASELINE]
    )
    state = replace(state, processes={**state.processes, BASELINE: more})
    found = builders.known(summarise_undisturbed(state, BASELINE, "compiled", Shape(1)))
    assert found.value == pytest.approx(2.0)


@pytest.mark.parametrize(("processes", "size"), [(5, 1), (6, 4)], ids=["few", "without visits"])
def test_few_processes_do_not_show_the_error(processes: int, size: int) -> None:
    assert summarise_undisturbed(run_of(processes), BASELINE, "compiled", Shape(size)) is None


def test_equal_speeds_of_a_busy_machine_are_no_loss() -> None:
    calls = [((own,), (0.095,)) for own in (0.8,) * 9 + (0.1, 0.1)]
    for busy, doubt in ((True, "busy"), (False, "contradictory")):
        speedup, why = fastest_calls.compare_in_turns(calls, 0.2, busy=busy)
        assert why == doubt
        assert builders.known(speedup.low) < 0.13
        assert builders.known(speedup.high) > 1.0
