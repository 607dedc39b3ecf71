"""How near the goodput of simulated queues is to the true one, and how many intervals hold it.

Targets: a median within 5 %, and 90 to 98 % of the intervals hold the true goodput, for limits of
2, 5 and 10 service times and blocks of 50 to 500 requests. Usage: `queue_goodput.py [SERVERS
[FIRST_SEED [SLOWED_SHARE]]]`, by default 200 for each setting from seed 0 on, which takes five
minutes on one core. `SLOWED_SHARE` of the blocks have half more service time, as if something
else had used the host; the true goodput is that of the others. Prints a Markdown table.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent)]

import simulated_queue

SERVERS = 200
HEAD = """\
| limit | requests | median error | deviation | intervals that hold | interval | none |
|---|---|---|---|---|---|---|
"""


def row(load: simulated_queue.Load, servers: int, first_seed: int) -> str:
    truth = simulated_queue.true_goodput(load.limit)
    seeds = range(first_seed, first_seed + servers)
    found = [simulated_queue.measure_server(seed, load) for seed in seeds]
    known = [each for each in found if each is not None]
    ratios = np.array([each.value / truth for each in known])
    held = np.mean([each.low <= truth <= each.high for each in known])
    low: float = np.median([each.low / each.value for each in known])
    high: float = np.median([each.high / each.value for each in known])
    return (
        f"| {load.limit:g} | {load.requests} | {np.median(ratios) - 1:+.1%} | {ratios.std():.0%} | "
        f"{held:.0%} | {low - 1:+.0%} to {high - 1:+.0%} | {servers - len(known)} |"
    )


def main() -> None:
    given = sys.argv[1:]
    servers, first_seed, slowed_share = (*given, *(str(SERVERS), "0", "0")[len(given) :])
    sys.stdout.write(HEAD)
    for each in simulated_queue.LOADS:
        load = dataclasses.replace(each, slowed_share=float(slowed_share))
        sys.stdout.write(f"{row(load, int(servers), int(first_seed))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
