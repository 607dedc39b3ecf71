"""How quick the history and a comparison are with a thousand stored runs, as a table.

`python tests/benchmarks/stored_runs.py [HOME]`; each run is a copy, under another id, of the newest
finished run in HOME, or of one made by hand. Times are those of whole commands, by the clock and by
what the processor did; they hold for the machine they were taken on, so those of `--version` stand
beside them.
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
from advisor.store import Run, Store

RUNS, REPEATS = 1000, 5
COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")


def template(home: pathlib.Path | None) -> tuple[bytes, bytes]:
    """Return header and events to be copied."""
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


def fill(home: pathlib.Path, header: bytes, events: bytes) -> list[str]:
    """Store the copies; return their ids."""
    ids = [f"20261121-{place // 60:04d}{place % 60:02d}-{place:04x}" for place in range(RUNS)]
    fields = msgspec.json.decode(header)
    for run_id in ids:
        place = home / "runs" / run_id
        place.mkdir(parents=True)
        (place / "run.json").write_bytes(msgspec.json.encode({**fields, "run_id": run_id}))
        (place / "events.jsonl").write_bytes(events)
    return ids


def seconds(home: pathlib.Path, *arguments: str) -> tuple[float, float]:
    """Return the median seconds that a command takes once the index is there, by the clock and of the processor."""
    environment = {**os.environ, "P3_ADVISOR_HOME": str(home)}
    by_clock, of_processor = [], []
    for _ in range(REPEATS):
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [COMMAND, *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        by_clock.append(time.perf_counter() - begun)
        of_processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(by_clock), statistics.median(of_processor)


def main() -> None:
    """Measure and print."""
    home = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        ids = fill(place, *template(home))
        for name, arguments in (
            ("--version", ["--version"]),
            ("history", ["history"]),
            ("history --model", ["history", "--model", "demo", "--json"]),
            ("compare", ["compare", ids[0], ids[-1]]),
        ):
            clock, processor = seconds(place, *arguments)
            sys.stdout.write(
                f"{name:18} {clock:6.2f} s by the clock, {processor:6.2f} s of the processor\n"
            )


if __name__ == "__main__":
    main()
