"""Several threads may read runs: a crash of the process would lose the terminal program."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import builders
from known_runs import IDS, make_run

from advisor.domain.run_events import Finished, Planned, Resumed

#: The first reads of a new process, in eight threads at once. Threads take turns as often as they
#: can, so that they meet inside msgspec.
FIRST_READS = """
import pathlib, sys, threading
from advisor.store.runs import Run

sys.setswitchinterval(1e-6)
run, begin = Run(pathlib.Path(sys.argv[1])), threading.Barrier(8)

def read():
    begin.wait()
    assert len(run.events()) == 3
    assert run.header().run_id

threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_read_a_run_for_the_first_time_do_not_crash(home: pathlib.Path) -> None:
    made = make_run(
        home,
        IDS[0],
        *builders.events(Planned(plan=builders.plan("compiled")), Resumed(), Finished()),
    )
    for _ in range(3):
        subprocess.run([sys.executable, "-c", FIRST_READS, str(made.directory)], check=True)
