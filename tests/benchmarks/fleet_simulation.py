"""Measure the caller's cost and memory in 1,000 races of a fleet that loses 2 % of the attempts.

There are two modes, because no single machine has 200 nodes.

- "simulated": 200 simulated nodes run in virtual time with seeded delays. Only the caller is real:
  it receives, stores and keeps all events.
- "ray": a real Ray runs on this machine with a few simulated GPUs. Everything but the race is real;
  the race replays recorded events without a pause.

Targets: every race is answered or reported with a reason. For each finished race, the caller's
memory grows by no more than the answer that it keeps (a few KiB).
"""

from __future__ import annotations

import argparse
import functools
import heapq
import itertools
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import benchmark_report
import psutil
import recorded_runs

from advisor.domain.fleet import (
    FLEET_SCHEMA,
    AssignmentResult,
    FleetRecord,
    FleetRequest,
    Pool,
)
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent
from advisor.fleet.events import Cluster, Completed, Failed, Progress, Started, TaskEvent
from advisor.fleet.node import NodeRunResult, Task
from advisor.fleet.run_fleet import run_fleet, save_record
from advisor.question.answers import Answers
from advisor.store.runs import Run
from advisor.store.store import Store

DEVICE_KIND = "FAKE"
LOSS_PROBABILITY, MAX_ATTEMPTS = 0.02, 4
#: A race of which every attempt is lost, so that one race is reported as failed.
ALWAYS_LOST_RACE = 50
#: Races before the first memory reading. Until then modules are loaded and pools are filled.
SETTLED_RACES = 200


class SimulatedCluster:
    """Simulated nodes with seeded race durations; events arrive in the order of a virtual clock."""

    def __init__(self, recorded: Run, nodes: int, seed: int) -> None:
        self.header, self.events = recorded.header(), tuple(recorded.events())
        self.nodes = nodes
        self.rng = random.Random(seed)

    def devices(self) -> Mapping[str, int]:
        return {DEVICE_KIND: self.nodes}

    def run(self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]) -> Iterator[TaskEvent]:
        del pools
        queue, pending = (
            [(number, 1) for number in tasks],
            list[tuple[float, int, int, Iterator[tuple[float, TaskEvent]]]](),
        )
        free, now = [f"node-{number}" for number in range(self.nodes)], 0.0
        while queue or pending:
            while queue and free:
                number, attempt = queue.pop(0)
                attempt_events = self._attempt_events(number, attempt, free.pop(), now, queue, free)
                heapq.heappush(pending, (now, number, attempt, attempt_events))
            now, number, attempt, attempt_events = heapq.heappop(pending)
            for at, event in attempt_events:
                yield event
                heapq.heappush(pending, (at, number, attempt, attempt_events))
                break

    def _attempt_events(
        self,
        number: int,
        attempt: int,
        node: str,
        now: float,
        queue: list[tuple[int, int]],
        free: list[str],
    ) -> Iterator[tuple[float, TaskEvent]]:
        """Yield the events of one attempt, each with the virtual time of the next event.

        Afterwards the node is free again. A lost node is replaced by a new one.
        """
        token, step = f"{number}-{attempt}", self.rng.uniform(0.5, 5.0)
        is_lost = number == ALWAYS_LOST_RACE or self.rng.random() < LOSS_PROBABILITY
        last = self.rng.randrange(len(self.events)) if is_lost else len(self.events)
        yield (
            now + step,
            Started(number=number, token=token, node=node, device="0", header=self.header),
        )
        for event in self.events[:last]:
            now += step
            yield now + step, Progress(number=number, token=token, logged_event=event)
        free.append(f"{node}'" if is_lost else node)
        if not is_lost:
            yield (
                now,
                Completed(
                    number=number,
                    token=token,
                    result=NodeRunResult(
                        node=node, device="0", header=self.header, events=self.events
                    ),
                ),
            )
        elif attempt < MAX_ATTEMPTS:
            queue.append((number, attempt + 1))
        else:
            yield (
                now,
                Failed(
                    number=number,
                    reason="WorkerCrashedError: each attempt lost its node",
                ),
            )


def replay_race(
    attempts_directory: pathlib.Path,
    seed: int,
    header: Header,
    events: tuple[LoggedEvent, ...],
    task: Task,
    node: str,
    gpu: str,
    report: Any,
) -> NodeRunResult:
    """Report recorded events without a pause from a Ray worker; some attempts kill the process."""
    attempt = len(list(attempts_directory.glob(f"{task.number}-*"))) + 1
    (attempts_directory / f"{task.number}-{attempt}").touch()
    rng = random.Random(f"{seed} {task.number} {attempt}")
    start = time.time()
    report(header)
    for event in events:
        if task.number == ALWAYS_LOST_RACE or rng.random() < LOSS_PROBABILITY / len(events):
            os._exit(1)
        report(event)
    times = f"{start} {time.time()}".encode()
    return NodeRunResult(node=node, device=gpu, header=header, events=events, logs={"times": times})


def run_and_measure(cluster: Cluster, store: Store, races: int, devices: int) -> dict[str, Any]:
    """Run a fleet, store its results as the command line does, and return its costs."""
    request = FleetRequest(
        fleet_id="20261121-120000-51b0",
        created="2026-11-21T12:00:00+00:00",
        models=tuple(f"synthetic/ffn@{8 * number}x16" for number in range(1, races + 1)),
        pools=(Pool(kind=DEVICE_KIND, count=devices),),
    )
    empty_record = FleetRecord(schema=FLEET_SCHEMA, request=request)
    process, answered, event_count = psutil.Process(), list[AssignmentResult](), 0
    rss_bytes, cpu_seconds, delivery_lags = list[int](), list[float](), list[float]()
    start, used = time.perf_counter(), time.process_time()
    for event in run_fleet(request, Answers(), cluster, store):
        event_count += not isinstance(event, AssignmentResult)
        if isinstance(event, Completed) and "times" in event.result.logs:
            delivery_lags.append(time.time() - float(event.result.logs["times"].split()[1]))
        if isinstance(event, AssignmentResult):
            answered.append(event)
            save_record(empty_record, answered, store)
            now = time.process_time()
            cpu_seconds.append(now - used)
            used = now
            rss_bytes.append(process.memory_info().rss)
    seconds = time.perf_counter() - start
    stored = store.fleets.find("latest").answered
    settled = min(SETTLED_RACES, len(rss_bytes) // 2)
    return {
        "races": races,
        "devices": devices,
        "answered": sum(assignment.reason is None for assignment in stored),
        "reported": sum(assignment.reason is not None for assignment in stored),
        "attempts": sum(len(assignment.attempts) for assignment in stored),
        "seconds": seconds,
        "notices": event_count,
        "notices_per_second": event_count / seconds,
        "caller_cpu_seconds_per_race_median": statistics.median(cpu_seconds),
        "caller_cpu_seconds_per_race_last_tenth": statistics.median(
            cpu_seconds[-max(1, races // 10) :]
        ),
        "caller_rss_mib_settled": rss_bytes[settled] / 2**20,
        "caller_rss_mib_end": rss_bytes[-1] / 2**20,
        "caller_bytes_per_finished_race": (rss_bytes[-1] - rss_bytes[settled])
        / max(1, len(rss_bytes) - 1 - settled),
        "lag_seconds_median": statistics.median(delivery_lags) if delivery_lags else None,
    }


def run_simulated(races: int, seed: int, nodes: int, recorded: Run, store: Store) -> dict[str, Any]:
    """Run the races on simulated nodes in virtual time."""
    return run_and_measure(SimulatedCluster(recorded, nodes, seed), store, races, nodes)


def run_ray(
    races: int, seed: int, devices: int, count: int, recorded: Run, store: Store
) -> dict[str, Any]:
    """Run the races on a real Ray, which places and retries them.

    Add the median duration of a race and the median time that a device is idle between two races.
    """
    import ray  # noqa: PLC0415 - the simulated mode does not need it

    from advisor.fleet.cluster import LOCAL, RayCluster  # noqa: PLC0415 - as above

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with tempfile.TemporaryDirectory() as directory:
        work = functools.partial(
            replay_race,
            pathlib.Path(directory),
            seed,
            recorded.header(),
            tuple(recorded.events())[:count],
        )
        ray_options = {
            "num_cpus": devices,
            "num_gpus": devices,
            "resources": {f"accelerator_type:{DEVICE_KIND}": 1},
            "object_store_memory": 100 << 20,
        }
        cluster = RayCluster(LOCAL, work, **ray_options)
        try:
            results = run_and_measure(cluster, store, races, devices)
        finally:
            cluster.close()
    spans = sorted_spans(store, races)
    idle = [
        later[0] - before[1]
        for spans_of_device in spans.values()
        for before, later in itertools.pairwise(spans_of_device)
    ]
    inside = [end - begin for spans_of_device in spans.values() for begin, end in spans_of_device]
    return {
        **results,
        "idle_seconds_between_races_median": statistics.median(idle),
        "seconds_inside_median": statistics.median(inside),
    }


def sorted_spans(store: Store, races: int) -> dict[str, list[tuple[float, float]]]:
    """Return the start and end time of each race, sorted, by device."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for answered in store.fleets.find("latest").answered[:races]:
        if answered.reason is None:
            last = answered.attempts[-1]
            begin, end = (store.find(last.run_id).directory / "times").read_text().split()
            spans.setdefault(f"{last.node} {last.device}", []).append((float(begin), float(end)))
    return {device: sorted(times) for device, times in spans.items()}


def main() -> None:
    """Run both modes, or the one that `--only` selects."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--races", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=200, help="nodes of the simulated mode")
    parser.add_argument(
        "--devices",
        type=int,
        default=4,
        help="simulated GPUs of the real Ray: each has its own process",
    )
    parser.add_argument(
        "--events", type=int, default=80, help="events of each race on the real Ray"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("simulated", "ray"))
    parser.add_argument("--out", type=pathlib.Path, default=benchmark_report.RESULTS)
    options = parser.parse_args()
    modes: dict[str, Callable[[Run, Store], dict[str, Any]]] = {
        "simulated": functools.partial(run_simulated, options.races, options.seed, options.nodes),
        "ray": functools.partial(
            run_ray, options.races, options.seed, options.devices, options.events
        ),
    }
    results = {}
    for name, run_mode in modes.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as home:
                recorded = recorded_runs.make_run(
                    Store(pathlib.Path(home) / "recorded"), finished=True
                )
                results[name] = run_mode(recorded, Store(pathlib.Path(home) / "home"))
    keys = list(dict.fromkeys(key for result in results.values() for key in result))
    rows = [[key, *(format_value(result.get(key)) for result in results.values())] for key in keys]
    benchmark_report.publish(
        "fleet_simulation",
        f"{options.races} races of a fleet",
        ["", *results],
        rows,
        results,
        options.out,
    )


def format_value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else f"{value:,}"


if __name__ == "__main__":
    main()
