"""Cells, intervals, results and figures of servers; keywords change single fields."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import builders
from builders import BASELINE, CREATED, replace

from advisor.decide.results import collect_results
from advisor.domain.measurement import CallSeconds, Cell, Interval, Measurement, Throughput
from advisor.domain.question import LoadQuestion, RequestLengths
from advisor.domain.results import Efficiency, Platform, RaceResult, Results, SustainedCheck
from advisor.domain.run_state import RunState
from advisor.domain.serving import RateLevel, ServedArm, ServingResults
from probes.events import Serving
from probes.outcome import Failure, Outcome
from probes.shape import Shape


def interval(value: float, spread: float = 0.0, **changes: Any) -> Interval:
    """Return an interval that extends by `spread`, as a share, to both sides."""
    return Interval(value=value, low=value / (1 + spread), high=value * (1 + spread), **changes)


def cell(ratio: float = 1.5, /, spread: float = 0.0, size: int = 1, **changes: Any) -> Cell:
    made = Cell(
        shape=Shape(size),
        processes=2,
        seconds=CallSeconds(median=0.01, low=None, high=None, samples=100),
        throughput=Throughput(value=100.0, unit="samples/s"),
        speedup=interval(ratio, spread),
        tflops=None,
    )
    return replace(made, **changes)


def measured(name: str, *speedups: float, spread: float = 0.01, **changes: Any) -> Measurement:
    """Return an arm with these speed-ups at the batch sizes 1, 4, 16 and so on."""
    cells = tuple(cell(one, spread, 4**place) for place, one in enumerate(speedups))
    mean = math.exp(math.fsum(math.log(one) for one in speedups) / len(speedups))
    made = builders.measurement(name, cells=cells, **changes)
    return replace(made, speedup=interval(mean, spread))


def against_baseline(*arms: Measurement, **changes: Any) -> Results:
    """Return results of these arms and of the baseline, at the batch sizes of the first arm."""
    ones = [1.0] * len(arms[0].cells) if arms else [1.0]
    return raced(measured(BASELINE, *ones, spread=0.0), *arms, **changes)


def raced(*arms: Measurement, noise_floor: float | None = 0.004, **changes: Any) -> Results:
    """Return results of these arms with a race at each batch size of the first."""
    races = tuple(
        builders.race_result(each.shape.batch_size, noise_floor=noise_floor)
        for each in arms[0].cells
    )
    return builders.results(*arms, races=races, noise_floor=noise_floor, **changes)


def sustained(**changes: Any) -> SustainedCheck:
    made = SustainedCheck(
        shape=Shape(4),
        arms=("one", "two"),
        burst_ratio=1.0,
        sustained_ratio=1.0,
        agrees=True,
        joules_per_call={},
    )
    return replace(made, **changes)


def load(**changes: Any) -> LoadQuestion:
    made = LoadQuestion(
        name="mine",
        lengths=(RequestLengths(input_tokens=8, output_tokens=4),),
        ttft_seconds=0.5,
        itl_seconds=0.05,
    )
    return replace(made, **changes)


def rate_level(rate: float, **changes: Any) -> RateLevel:
    """Return what a server with a goodput of 10 requests/s shows at a rate."""
    made = RateLevel(
        rate=rate,
        share=rate / 10,
        requests=50,
        failed=0,
        met=0.98,
        tokens_per_second=rate * 4,
        ttft_seconds=(0.1, 0.2, 0.3),
        itl_seconds=(0.01, 0.02, 0.03),
    )
    return replace(made, **changes)


def served_arm(arm: str = "engine", **changes: Any) -> ServedArm:
    made = ServedArm(
        arm=arm,
        goodput=interval(10.0, 0.2),
        tokens_per_second=40.0,
        levels=(),
        blocks=8,
        discarded=0,
        requests=500,
        failed=0,
        command="serve",
    )
    return replace(made, **changes)


def serving(*arms: ServedArm) -> ServingResults:
    return ServingResults(arms=arms, process_deviation=0.02)


def started_server(**changes: Any) -> Serving:
    """Return what a worker reports of its server."""
    made = Serving(
        url="http://127.0.0.1:52605",
        model="model",
        command="",
        settings={"batching": "continuous"},
        fields={},
        tokenizer="/runs/1/scratch/checkpoint",
        vocabulary=10,
        word="t{:07d}",
        separator=" ",
    )
    return replace(made, **changes)


def platform(name: str, refused: tuple[str, ...] = (), **efficiencies: float) -> Platform:
    """Return a run on a platform; the names of workflows have `_` for `-`.

    Half of the application efficiency is the architectural one.
    """
    return Platform(
        name=name,
        run=f"run-{name}",
        created=CREATED,
        efficiencies={
            workflow.replace("_", "-"): Efficiency(
                workflow=workflow.replace("_", "-"),
                application_efficiency=value,
                architectural_efficiency=value / 2,
            )
            for workflow, value in efficiencies.items()
        },
        refused=refused,
    )


WRONG = Outcome(Failure("incorrect", phase="done", reason="its last output was wrong"))
RACES = {Shape(1): builders.race_result(1)}


def summarise(state: RunState, races: dict[Shape, RaceResult]) -> Results:
    return collect_results(state, races, builders.question(), builders.NOISE)


def only_measurement(results: Results) -> Measurement:
    (measurement,) = (entry for entry in results.measurements if entry.arm != BASELINE)
    return measurement


def repeated_run(seconds: Mapping[str, Sequence[Sequence[float]]]) -> RunState:
    """Return a run with these seconds by arm, process and round, in its race and repetitions."""
    processes = {
        arm: [
            builders.process(*builders.visits(rounds), repeat=number)
            for number, rounds in enumerate(of_arm)
        ]
        for arm, of_arm in seconds.items()
    }
    repeats = dict.fromkeys(range(1, max(map(len, seconds.values()))), tuple(seconds))
    return builders.run_state(processes, repeats=repeats)


def run_with(
    *seconds: float, against: float | Sequence[float] = 0.4, **changes: object
) -> RunState:
    """Return a run in which `compiled` takes these seconds and the baseline takes `against`."""
    times = [against] * len(seconds) if isinstance(against, float) else against
    baseline = builders.process(*builders.visits(times))
    return builders.run_state(
        {BASELINE: baseline, "compiled": builders.process(*builders.visits(seconds), **changes)}
    )
