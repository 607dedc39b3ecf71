"""End, suspend and pause the processes of a worker, those that it started included.

A busy process would take CPU time from the worker that is timed. The thread pools of many stacks
spin for a moment after a call; `wait_until_idle` waits for that. Some stacks poll for work without
end, in a thread or in a process of their own; those processes are stopped (SIGSTOP) while other
workers are timed. So are all processes of the workers that build meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Iterable

import psutil

from probes.watchdog import find_processes

#: File in a control directory: the user skipped this worker.
SKIPPED_FILE = "skipped"
#: Times that the processes of a worker are collected and killed; they may start others meanwhile.
MAX_SWEEPS = 10
#: Seconds of each sampling pass, and the CPU share above which a process counts as busy. The short
#: first pass clears the processes that do nothing; the second pass confirms the rest.
SAMPLING_PASSES = ((0.1, 0.0), (0.5, 0.1))
#: ONNX Runtime's threads spin for 60 ms after a call (measured with 1.31 on two processors).
MAX_SPIN_SECONDS = 0.5
SPIN_POLL_SECONDS = 0.005
#: Longest time to suspend a worker: its watchdog may still have to start it, and its processes may
#: start others meanwhile.
MAX_STOPPING_SECONDS = 2.0
#: Consecutive polls without a runnable thread after which a process counts as idle.
IDLE_POLLS = 2


def kill_worker(popen: subprocess.Popen[bytes], directory: pathlib.Path) -> None:
    """Kill the worker's process group and all its other processes, and wait for the worker."""
    # The watchdog, which is `popen`, is killed last: it adopts the processes whose parents are
    # killed. Without it they could not be found.
    for _ in range(MAX_SWEEPS):
        others = [each for each in process_tree(directory, popen.pid) if each.pid != popen.pid]
        if not others:
            break
        send_signal(others, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
    popen.wait()
    kill_process_tree(directory)


def kill_process_tree(directory: pathlib.Path) -> None:
    send_signal(process_tree(directory), signal.SIGKILL)


def process_tree(directory: pathlib.Path, session: int = 0) -> list[psutil.Process]:
    """Return every running process of the worker in this control directory, or in this session."""
    # Every worker has its own session. A process in the advisor's session belongs to no worker for
    # that reason alone.
    found = find_processes(str(directory), sessions={session}, spared=os.getsid(0))
    running = []
    for pid in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                running.append(process)
    return running


def skip(directory: pathlib.Path) -> None:
    """Kill the worker in this control directory and record that the user skipped it.

    Any thread may call this.
    """
    # The worker may have put a link there.
    with contextlib.suppress(OSError):
        os.close(os.open(directory / SKIPPED_FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    kill_process_tree(directory)


def suspend_processes(directory: pathlib.Path, except_pid: int) -> None:
    """Stop the processes of the worker in this control directory, and those that they start.

    Its watchdog, `except_pid`, goes on: it ends the others when the advisor is gone.
    """
    stopped: set[psutil.Process] = set()
    deadline = time.monotonic() + MAX_STOPPING_SECONDS
    while time.monotonic() < deadline:
        tree = process_tree(directory)
        running = {each for each in tree if each.pid != except_pid} - stopped
        if running:
            send_signal(running, signal.SIGSTOP)
            stopped |= running
        elif stopped or not tree:
            return
        else:
            time.sleep(SPIN_POLL_SECONDS)  # the watchdog has not started the worker yet


def find_busy_processes(idle: Iterable[psutil.Process]) -> dict[psutil.Process, float]:
    """Return the CPU shares of those that are busy, in processors, while they should be idle."""
    shares = dict.fromkeys(idle, 1.0)
    for seconds, threshold in SAMPLING_PASSES if shares else ():
        before = {process: _cpu_seconds(process) for process in shares}
        started = time.monotonic()
        time.sleep(seconds)
        elapsed = time.monotonic() - started
        shares = {
            process: (_cpu_seconds(process) - used) / elapsed for process, used in before.items()
        }
        shares = {process: share for process, share in shares.items() if share > threshold}
        if not shares:
            break
    return shares


def wait_until_idle(pid: int, max_seconds: float = MAX_SPIN_SECONDS) -> None:
    deadline = time.monotonic() + max_seconds
    idle_polls = 0
    while idle_polls < IDLE_POLLS and time.monotonic() < deadline:
        idle_polls = 0 if _has_runnable_thread(pid) else idle_polls + 1
        time.sleep(SPIN_POLL_SECONDS)


def send_signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _has_runnable_thread(pid: int) -> bool:
    with contextlib.suppress(OSError):
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                stat = (thread / "stat").read_text(encoding="utf-8", errors="replace")
                # The state is the first field after the name, which may contain ")" itself.
                if stat.rpartition(")")[2].split()[0] == "R":
                    return True
    return False
