"""Several screens may open answers at once: a crash would lose the terminal program."""

from __future__ import annotations

import pathlib
import subprocess
import sys

FILE = pathlib.Path(__file__).parents[2] / "stacks" / "evidence" / "cpu-demo.json"
#: The first reads of a new process, in eight threads at once; see `tests/advisor/store`.
FIRST_READS = """
import sys, threading
from advisor.report.opening import read_answer

sys.setswitchinterval(1e-6)
begin = threading.Barrier(8)

def read():
    begin.wait()
    assert read_answer(sys.argv[1]).scores

threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_open_an_answer_for_the_first_time_do_not_crash() -> None:
    for _ in range(3):
        subprocess.run([sys.executable, "-c", FIRST_READS, str(FILE)], check=True)
