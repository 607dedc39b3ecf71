"""Time `history` and `compare` with 1,000 stored runs.

`python tests/benchmarks/stored_runs.py [HOME]` prints a table. The runs are copies, each with its
own id, of the newest finished run in HOME; without HOME, of a synthetic run. The table has the wall
and the processor time of whole commands. Both depend on the machine, so it includes `--version`.
"""

from __future__ import annotations

import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

import builders
import msgspec

from advisor.domain.run_events import Finished, Planned
from advisor.store.runs import Run
from advisor.store.store import Store

RUNS, REPEATS = 1000, 5
COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")


def read_template(home: pathlib.Path | None) -> tuple[bytes, bytes]:
    """Return the encoded header and events of the run to copy."""
    if home is not None:
        newest = next(entry for entry in Store(home).history() if entry.finished)
        run: Run = Store(home).find(newest.run_id)
        return (run.directory / "run.json").read_bytes(), (
            run.directory / "events.jsonl"
        ).read_bytes()
    events = builders.events(Planned(plan=builders.plan("compiled")), Finished())
    header = builders.header(catalogue=builders.shipped_catalogue())
    return msgspec.json.encode(header), b"".join(
        msgspec.json.encode(event) + b"\n" for event in events
    )


def store_copies(home: pathlib.Path, header: bytes, events: bytes) -> list[str]:
    """Store the copies and return their run ids."""
    ids = [
        f"20261121-{position // 60:04d}{position % 60:02d}-{position:04x}"
        for position in range(RUNS)
    ]
    fields = msgspec.json.decode(header)
    for run_id in ids:
        directory = home / "runs" / run_id
        directory.mkdir(parents=True)
        (directory / "run.json").write_bytes(msgspec.json.encode({**fields, "run_id": run_id}))
        (directory / "events.jsonl").write_bytes(events)
    return ids


def median_command_seconds(home: pathlib.Path, *arguments: str) -> tuple[float, float]:
    """Return the median wall and processor seconds of a command.

    The first call also builds the index of the store.
    """
    environment = {**os.environ, "P3_ADVISOR_HOME": str(home)}
    by_clock, of_processor = [], []
    for _ in range(REPEATS):
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [COMMAND, *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        by_clock.append(time.perf_counter() - start)
        of_processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(by_clock), statistics.median(of_processor)


def main() -> None:
    """Measure the commands and print the table."""
    home = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        test_home = pathlib.Path(folder)
        ids = store_copies(test_home, *read_template(home))
        for name, arguments in (
            ("--version", ["--version"]),
            ("history", ["history"]),
            ("history --model", ["history", "--model", "demo", "--json"]),
            ("compare", ["compare", ids[0], ids[-1]]),
        ):
            wall, processor = median_command_seconds(test_home, *arguments)
            sys.stdout.write(
                f"{name:18} {wall:6.2f} s wall time, {processor:6.2f} s processor time\n"
            )


if __name__ == "__main__":
    main()
