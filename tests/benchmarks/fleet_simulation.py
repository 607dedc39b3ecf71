"""A thousand races of a fleet, of which 2 % of the attempts are lost: what the caller pays for each, and whether its memory grows.

Two views, because no single machine has 200 nodes. "simulated": 200 pretend nodes in virtual time
with seeded delays; what runs for real is the caller, which hears, stores and keeps everything.
"ray": a real Ray on this machine with a few pretend GPUs; what runs for real is all but the race,
whose recorded events are told again without a pause. Targets: every race is answered or reported
with a reason; the caller's memory grows by no more than the answer that it keeps (a few KiB) for
each finished race.
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

import figures
import psutil
import recorded_runs

from advisor.domain.fleet import FLEET_SCHEMA, Answered, Contention, FleetRecord, Order, Pool
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent
from advisor.fleet import Begun, Cluster, Delivered, Notice, Told, Undone, ask, keep
from advisor.fleet.node import Packed, Task
from advisor.question.answers import Answers
from advisor.store import Run, Store

KIND = "FAKE"
FAILING, MOST_ATTEMPTS = 0.02, 4
#: A race that never succeeds, so that one is reported.
DOOMED = 50
#: Races after which memory is compared: before, everything is loaded and pools are filled.
SETTLED = 200


class VirtualNodes:
    """Pretend nodes whose races take seeded times; their words come in the order of a virtual clock."""

    def __init__(self, recorded: Run, nodes: int, seed: int) -> None:
        self.header, self.events = recorded.header(), tuple(recorded.events())
        self.nodes = nodes
        self.chance = random.Random(seed)
        self.told = 0

    def devices(self) -> Mapping[str, int]:
        return {KIND: self.nodes}

    def run(self, tasks: Mapping[int, Task], pools: tuple[Pool, ...]) -> Iterator[Notice]:
        del pools
        queue, due = (
            [(number, 1) for number in tasks],
            list[tuple[float, int, int, Iterator[tuple[float, Notice]]]](),
        )
        free, now = [f"node-{number}" for number in range(self.nodes)], 0.0
        while queue or due:
            while queue and free:
                number, attempt = queue.pop(0)
                words = self._words(number, attempt, free.pop(), now, queue, free)
                heapq.heappush(due, (now, number, attempt, words))
            now, number, attempt, words = heapq.heappop(due)
            for at, notice in words:
                yield notice
                self.told += 1
                heapq.heappush(due, (at, number, attempt, words))
                break

    def _words(
        self,
        number: int,
        attempt: int,
        node: str,
        now: float,
        queue: list[tuple[int, int]],
        free: list[str],
    ) -> Iterator[tuple[float, Notice]]:
        """Yield what one attempt says, each word with the time of the next; then the node is free, or gone and another takes its place."""
        token, step = f"{number}-{attempt}", self.chance.uniform(0.5, 5.0)
        is_lost = number == DOOMED or self.chance.random() < FAILING
        last = self.chance.randrange(len(self.events)) if is_lost else len(self.events)
        yield (
            now + step,
            Begun(number=number, token=token, node=node, device="0", header=self.header),
        )
        for event in self.events[:last]:
            now += step
            yield now + step, Told(number=number, token=token, event=event)
        free.append(f"{node}'" if is_lost else node)
        if not is_lost:
            yield (
                now,
                Delivered(
                    number=number,
                    token=token,
                    packed=Packed(node=node, device="0", header=self.header, events=self.events),
                ),
            )
        elif attempt < MOST_ATTEMPTS:
            queue.append((number, attempt + 1))
        else:
            yield (
                now,
                Undone(
                    number=number, reason="WorkerCrashedError: its node was lost with every attempt"
                ),
            )


def replay(
    marks: pathlib.Path,
    seed: int,
    header: Header,
    events: tuple[LoggedEvent, ...],
    task: Task,
    node: str,
    gpu: str,
    tell: Any,
) -> Packed:
    """Tell recorded events at once on a real worker of Ray; some attempts end with their process."""
    attempt = len(list(marks.glob(f"{task.number}-*"))) + 1
    (marks / f"{task.number}-{attempt}").touch()
    chance = random.Random(f"{seed} {task.number} {attempt}")
    begun = time.time()
    tell(header)
    for event in events:
        if task.number == DOOMED or chance.random() < FAILING / len(events):
            os._exit(1)
        tell(event)
    times = f"{begun} {time.time()}".encode()
    return Packed(node=node, device=gpu, header=header, events=events, logs={"times": times})


def follow(cluster: Cluster, store: Store, races: int, devices: int) -> dict[str, Any]:
    """Ask and keep as the command line does; return what it took."""
    order = Order(
        fleet_id="20261121-120000-51b0",
        created="2026-11-21T12:00:00+00:00",
        models=tuple(f"synthetic/ffn@{8 * number}x16" for number in range(1, races + 1)),
        pools=(Pool(kind=KIND, count=devices),),
    )
    blank = FleetRecord(schema=FLEET_SCHEMA, order=order)
    process, answered, notices = psutil.Process(), list[Answered](), 0
    memory, costs, lags = list[int](), list[float](), list[float]()
    begun, used = time.perf_counter(), time.process_time()
    for said in ask(order, Answers(), cluster, store):
        notices += not isinstance(said, (Answered, Contention))
        if isinstance(said, Delivered) and "times" in said.packed.logs:
            lags.append(time.time() - float(said.packed.logs["times"].split()[1]))
        if isinstance(said, Answered):
            answered.append(said)
            keep(blank, answered, (), store)
            now = time.process_time()
            costs.append(now - used)
            used = now
            memory.append(process.memory_info().rss)
    seconds = time.perf_counter() - begun
    kept = store.fleets.find("latest").answered
    settled = min(SETTLED, len(memory) // 2)
    return {
        "races": races,
        "devices": devices,
        "answered": sum(one.reason is None for one in kept),
        "reported": sum(one.reason is not None for one in kept),
        "attempts": sum(len(one.attempts) for one in kept),
        "seconds": seconds,
        "notices": notices,
        "notices_per_second": notices / seconds,
        "caller_cpu_seconds_per_race_median": statistics.median(costs),
        "caller_cpu_seconds_per_race_last_tenth": statistics.median(costs[-max(1, races // 10) :]),
        "caller_rss_mib_settled": memory[settled] / 2**20,
        "caller_rss_mib_end": memory[-1] / 2**20,
        "caller_bytes_per_finished_race": (memory[-1] - memory[settled])
        / max(1, len(memory) - 1 - settled),
        "lag_seconds_median": statistics.median(lags) if lags else None,
    }


def simulate(races: int, seed: int, nodes: int, recorded: Run, store: Store) -> dict[str, Any]:
    """Have pretend nodes work in virtual time."""
    return follow(VirtualNodes(recorded, nodes, seed), store, races, nodes)


def run_ray(
    races: int, seed: int, devices: int, count: int, recorded: Run, store: Store
) -> dict[str, Any]:
    """Have a real Ray place, carry and retry; add how long a device is idle between two races, and how long a race itself takes there."""
    import ray  # noqa: PLC0415 - the simulated view does without

    from advisor.fleet.cluster import LOCAL, RayCluster  # noqa: PLC0415 - as above

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with tempfile.TemporaryDirectory() as place:
        work = functools.partial(
            replay, pathlib.Path(place), seed, recorded.header(), tuple(recorded.events())[:count]
        )
        own = {
            "num_cpus": devices,
            "num_gpus": devices,
            "resources": {f"accelerator_type:{KIND}": 1},
            "object_store_memory": 100 << 20,
        }
        cluster = RayCluster(LOCAL, work, say_busy, **own)
        try:
            found = follow(cluster, store, races, devices)
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
        **found,
        "idle_seconds_between_races_median": statistics.median(idle),
        "seconds_inside_median": statistics.median(inside),
    }


def say_busy(task: Task, node: str, gpus: object) -> Contention:
    """Stand for the check: the pretend GPUs are none to be timed on."""
    del gpus
    return Contention(
        node=node, kind=task.kind, model=task.answers.model, free=False, words="not looked at"
    )


def sorted_spans(store: Store, races: int) -> dict[str, list[tuple[float, float]]]:
    """Return when each device was at work, in order."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for answered in store.fleets.find("latest").answered[:races]:
        if answered.reason is None:
            last = answered.attempts[-1]
            begin, end = (store.find(last.run_id).directory / "times").read_text().split()
            spans.setdefault(f"{last.node} {last.device}", []).append((float(begin), float(end)))
    return {device: sorted(times) for device, times in spans.items()}


def main() -> None:
    """Run both views, or the one that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--races", type=int, default=1000)
    parser.add_argument(
        "--nodes", type=int, default=200, help="pretend nodes of the simulated view"
    )
    parser.add_argument(
        "--devices",
        type=int,
        default=4,
        help="pretend GPUs of the real Ray: each has a process of its own",
    )
    parser.add_argument(
        "--events", type=int, default=80, help="events of each race on the real Ray"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("simulated", "ray"))
    parser.add_argument("--out", type=pathlib.Path, default=figures.RESULTS)
    options = parser.parse_args()
    views: dict[str, Callable[[Run, Store], dict[str, Any]]] = {
        "simulated": functools.partial(simulate, options.races, options.seed, options.nodes),
        "ray": functools.partial(
            run_ray, options.races, options.seed, options.devices, options.events
        ),
    }
    found = {}
    for name, view in views.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as home:
                recorded = recorded_runs.make_run(
                    Store(pathlib.Path(home) / "recorded"), finished=True
                )
                found[name] = view(recorded, Store(pathlib.Path(home) / "home"))
    keys = list(dict.fromkeys(key for one in found.values() for key in one))
    rows = [[key, *(_text(one.get(key)) for one in found.values())] for key in keys]
    figures.publish(
        "fleet_simulation",
        f"{options.races} races of a fleet",
        ["", *found],
        rows,
        found,
        options.out,
    )


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else f"{value:,}"


if __name__ == "__main__":
    main()
