"""Check the measurements on an NVIDIA GPU, and print the results as JSON.

Run `python tests/stacks/gpu.py`, or name some checks: memory agreement ramp equal killed crowded.
It needs a GPU, torch and some minutes. Kept results are in `evidence/measuring/`.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import datetime as dt
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]

import msgspec
import psutil

from advisor.catalogue import rubric_files
from advisor.context import Context
from advisor.domain.event_folding import fold
from advisor.domain.run_events import RaceOpened, WorkerEnded, WorkerReported
from advisor.machine import detection, gpus
from advisor.measure.rounds import log_median_seconds
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.pipeline.stored.arms import plan_of
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.device_memory import DeviceMemoryMonitor
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor
from advisor.question.answers import Answers
from advisor.statistics.race import Race
from advisor.store.runs import Run
from advisor.store.store import Store
from probes import protocol
from probes.measuring import timing
from probes.wire.events import BlockTimed, PhaseStarted

MEBIBYTE = 1 << 20
BLOCK = "synthetic/ffn@tinyllama"
SETTLED_SECONDS = 1.0


def uuid() -> str:
    found, problem = gpus.detect_gpus()
    assert found, problem
    return found[0].uuid


def make_context() -> Context:
    return Context(environment=dict(os.environ), store=Store(pathlib.Path(tempfile.mkdtemp())))


# NVML sees allocations made by PyTorch and by others


def hold() -> None:
    """Make the allocation of each input line and confirm it, until the input ends.

    A line is `torch` or `cudaMalloc` and a number of MiB. It runs in its own process.
    """
    import torch  # noqa: PLC0415 - only this process needs it

    torch.zeros(1, device="cuda")
    libraries = {
        line.split()[-1]
        for line in pathlib.Path("/proc/self/maps").read_text().splitlines()
        if "libcudart" in line
    }
    runtime = ctypes.CDLL(next(iter(libraries)))
    allocated: list[Any] = []
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        allocator, mebibytes = line.split()
        if allocator == "torch":
            allocated.append(
                torch.empty(int(mebibytes) * MEBIBYTE, dtype=torch.uint8, device="cuda")
            )
        else:
            pointer = ctypes.c_void_p()
            assert (
                runtime.cudaMalloc(
                    ctypes.byref(pointer), ctypes.c_size_t(int(mebibytes) * MEBIBYTE)
                )
                == 0
            )
        torch.cuda.synchronize()
        print("done", flush=True)  # noqa: T201


@contextlib.contextmanager
def holder() -> Iterator[Callable[[str], None]]:
    """Yield a function that allocates GPU memory in another process, which ends afterwards."""
    with subprocess.Popen(
        [sys.executable, __file__, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"

        def allocate(order: str) -> None:
            assert process.stdin
            assert process.stdout
            print(order, file=process.stdin, flush=True)
            assert process.stdout.readline() == "done\n"

        yield allocate
        process.stdin.close()


def used(monitor: DeviceMemoryMonitor) -> int:
    """Return the bytes in use by NVML."""
    found = monitor.used_bytes()
    assert found is not None, "NVML does not report the memory"
    return found


def memory() -> dict[str, Any]:
    """Compare allocations with NVML's figures, and return what remains after the process ends."""
    monitor = DeviceMemoryMonitor([uuid()])
    begin = used(monitor)
    errors: dict[str, int] = {}
    with holder() as allocate:
        for allocator in ("torch", "cudaMalloc"):
            for mebibytes in (64, 256, 1024):
                before = used(monitor)
                allocate(f"{allocator} {mebibytes}")
                time.sleep(SETTLED_SECONDS)
                errors[f"{allocator} {mebibytes} MiB"] = (
                    used(monitor) - before - mebibytes * MEBIBYTE
                )
    time.sleep(SETTLED_SECONDS)
    return {"error_bytes": errors, "left_after_the_process_bytes": used(monitor) - begin}


# The same callables, timed by other tools


def agreement(repeats: int = 10) -> dict[str, Any]:
    """Time the same callables with our blocks, with Triton's and with PyTorch's benchmark."""
    import torch  # noqa: PLC0415 - only this needs it

    torch.inference_mode().__enter__()
    found: dict[str, Any] = {}
    for name, rows, layers in (
        ("1 layer, 16x32 tokens", 512, 1),
        ("22 layers, 16x32 tokens", 512, 22),
        ("22 layers, 64x32 tokens", 2048, 22),
    ):
        stack = [
            torch.nn.Linear(*pair, device="cuda", dtype=torch.bfloat16)
            for _ in range(layers)
            for pair in ((2048, 5632), (5632, 2048))
        ]
        module = torch.nn.Sequential(*stack)
        value = torch.randn(rows, 2048, device="cuda", dtype=torch.bfloat16)
        times = time_with_each_tool(module, value, repeats)
        ours = statistics.median(times["p3-advisor"])
        found[name] = {
            tool: {
                "median_seconds": statistics.median(each),
                "ratio": statistics.median(each) / ours,
                "spread": statistics.stdev(each) / statistics.mean(each),
            }
            for tool, each in times.items()
        }
    return found


def time_with_each_tool(module: Any, value: Any, repeats: int) -> dict[str, list[float]]:
    """Time `module(value)` with each tool in turn; return the seconds of each repeat by tool."""
    import torch  # noqa: PLC0415 - only this needs it
    import triton.testing as triton  # noqa: PLC0415
    from torch.utils import benchmark  # noqa: PLC0415

    warmth = timing.warm_up(module, [value], torch.cuda.synchronize, 1.0)
    block = timing.size_block(warmth.typical_seconds, 0.05)
    times: dict[str, list[float]] = collections.defaultdict(list)
    for _ in range(repeats):
        timed = timing.time_block(module, [value], torch.cuda.synchronize, block)
        times["p3-advisor"].append(statistics.median(timed.seconds))
        times["p3-advisor, enqueued"].append(timed.enqueue_seconds)
        calls, taken = timing.sustain(module, [value], torch.cuda.synchronize, 0.3)
        times["p3-advisor, sustained"].append(taken / calls)
        milliseconds = triton.do_bench(lambda: module(value), return_mode="median")
        times["triton do_bench"].append(milliseconds * 1e-3)
        timer = benchmark.Timer(
            "module(value)",
            globals={"module": module, "value": value},
            num_threads=torch.get_num_threads(),
        )
        times["torch.utils.benchmark"].append(timer.blocked_autorange(min_run_time=0.2).median)
    return times


# Time until the clocks are stable


def ramp(idle_seconds: float = 3.0, repeats: int = 3) -> dict[str, Any]:
    """After a pause, call for two seconds without one.

    Return the median call of each tenth of a second, divided by that of the last second.
    """
    import torch  # noqa: PLC0415 - only this needs it

    torch.inference_mode().__enter__()
    module = torch.nn.Sequential(
        *[torch.nn.Linear(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(8)]
    )
    value = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    module(value)
    courses = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        time.sleep(idle_seconds)
        tenths: list[list[float]] = [[] for _ in range(20)]
        begin = time.perf_counter()
        while (since := time.perf_counter() - begin) < len(tenths) / 10:
            start = time.perf_counter()
            module(value)
            torch.cuda.synchronize()
            tenths[int(since * 10)].append(time.perf_counter() - start)
        typical = statistics.median(each for tenth in tenths[10:] for each in tenth)
        courses.append([round(statistics.median(tenth) / typical, 4) for tenth in tenths])
    return {"idle_seconds": idle_seconds, "tenths_of_a_second": courses}


# Two equal workers


@contextlib.contextmanager
def two_workers(batch_sizes: str) -> Iterator[tuple[Session, tuple[str, str]]]:
    """Yield a session with two workers of eager PyTorch that have built."""
    context = make_context()
    run = prepare(
        Answers(model=BLOCK, batch_sizes=batch_sizes, workflows="pytorch-eager/default"), context
    )
    header, state = run.header(), fold(run.events())
    run_config = RunConfig(
        question=header.question,
        machine=header.machine,
        arms_directory=run.arms,
        scratch_directory=run.scratch,
        probes_directory=context.probes,
        minimum_engaged_share=0.5,
        accuracy=rubric_files.read_shipped_accuracy(),
        environment=context.environment,
    )
    first, second = plan_of(state).arms
    with Supervisor(header.catalogue.presets.deadlines) as supervisor:
        session = Session(supervisor, run_config, ConditionsMonitor())
        for _ in session.start_reference(first, 0):
            pass
        for _ in session.start([(first, 0), (second, 0)]):
            pass
        for arm in (first, second):
            for _ in session.build(arm.id):
                pass
        yield session, (first.id, second.id)


def equal(seconds: float = 60.0) -> dict[str, Any]:
    """Race two equal workers repeatedly; return how often a race calls them different."""
    kinds: dict[str, int] = {}
    ratios = []
    with two_workers("16") as (session, arms):
        end, seed = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            race = Race(arms, arms[0], seed=seed)
            while not race.finished:
                for arm in race.next_round():
                    for _ in session.visit(arm, 16, race.rounds):
                        pass
                    visit = session.last_visit(arm)
                    assert visit
                    race.record(arm, log_median_seconds(visit))
            kinds[race.verdict.kind] = kinds.get(race.verdict.kind, 0) + 1
            ratios.append(race.ratio(arms[1], to=arms[0]).value)
            seed += 1
    return {
        "races": seed,
        "verdicts": kinds,
        "called_different": kinds.get("PROVEN", 0),
        "beyond_2_percent": sum(abs(ratio - 1) > 0.02 for ratio in ratios),
        "median_ratio": statistics.median(ratios),
        "lowest_ratio": min(ratios),
        "highest_ratio": max(ratios),
    }


# A worker that dies does not affect the others


def kill_worker(run: Run, arm: str) -> None:
    """Kill the arm's worker only, as the kernel does when memory runs out."""
    mark = str(run.arms / arm.replace("/", "+") / "0")
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(protocol.MARK_VARIABLE) == mark and "worker.py" in " ".join(
                process.cmdline()
            ):
                process.kill()


def statuses(run: Run) -> dict[str, str]:
    answer = decide(run)
    failed = {
        arm.arm: f"{arm.status}: {arm.reason}"
        for arm in answer.unmeasured
        if arm.status not in {"excluded", "not-installed"}
    }
    return dict.fromkeys(answer.measurements, "completed") | failed


def killed() -> dict[str, Any]:
    """Kill one worker in its build and another in a visit.

    Return the arms' statuses, the memory that each death frees, and what remains after the run.
    """
    building, visiting = "torch-compile-inductor", "torch-compile-cudagraphs"
    context, monitor = make_context(), DeviceMemoryMonitor([uuid()])
    before = used(monitor)
    run = prepare(
        Answers(
            model=BLOCK, batch_sizes="16", workflows=f"{building}/default,{visiting},pytorch-eager"
        ),
        context,
    )
    freed: dict[str, int] = {}
    held: dict[str, int] = {}
    visits = 0
    for event in execute(run, context):
        match event.run_event:
            case WorkerReported(arm=arm, worker_event=PhaseStarted(phase="build")) if (
                arm == building
            ):
                time.sleep(SETTLED_SECONDS)
                held[arm] = used(monitor)
                kill_worker(run, arm)
            case WorkerReported(arm=arm, worker_event=BlockTimed()) if arm == visiting:
                visits += 1
                if visits == 2:
                    held[arm] = used(monitor)
                    kill_worker(run, arm)
            case WorkerEnded(arm=arm) if arm in held and arm not in freed:
                time.sleep(SETTLED_SECONDS)
                freed[arm] = held[arm] - used(monitor)
            case _:
                pass
    time.sleep(SETTLED_SECONDS)
    return {
        "ends": statuses(run),
        "freed_bytes": freed,
        "left_after_the_run_bytes": used(monitor) - before,
    }


def crowded(free_gibibytes: int = 7) -> dict[str, Any]:
    """Leave too little GPU memory for all arms; return the raced arms and the statuses."""
    context, monitor = make_context(), DeviceMemoryMonitor([uuid()])
    found, _ = gpus.detect_gpus()
    run = None
    raced: tuple[str, ...] = ()
    with holder() as allocate:
        allocate(
            f"cudaMalloc {found[0].free_memory_bytes // MEBIBYTE - free_gibibytes * 1024 - 600}"
        )
        time.sleep(SETTLED_SECONDS)
        left = found[0].memory_bytes - used(monitor)
        names = (
            "pytorch-eager,torch-compile-inductor/default,torch-compile-inductor/reduce-overhead,"
            "torch-compile-cudagraphs"
        )
        run = prepare(
            Answers(model="synthetic/ffn-multilayer@tinyllama", batch_sizes="16", workflows=names),
            context,
        )
        for event in execute(run, context):
            if isinstance(event.run_event, RaceOpened):
                raced = event.run_event.arms
    return {"free_bytes": left, "raced": list(raced), "ends": statuses(run)}


CHECKS: dict[str, Callable[[], dict[str, Any]]] = {
    "memory": memory,
    "agreement": agreement,
    "ramp": ramp,
    "equal": equal,
    "killed": killed,
    "crowded": crowded,
}


def main(names: list[str]) -> None:
    """Run each check in its own process, so that it sees no other check's memory."""
    if names == ["hold"]:
        hold()
    elif len(names) == 1:
        print(json.dumps(CHECKS[names[0]]()))  # noqa: T201
    else:
        found, _ = gpus.detect_gpus()
        here = detection.detect(sys.executable, ["torch", "triton"])
        answers = {}
        for name in names or list(CHECKS):
            answer = subprocess.run(
                [sys.executable, __file__, name], stdout=subprocess.PIPE, check=False
            )
            answers[name] = (
                json.loads(answer.stdout)
                if answer.returncode == 0
                else {"failed": answer.returncode}
            )
        document = {
            "created": dt.datetime.now().astimezone().isoformat(timespec="seconds"),
            "gpu": msgspec.to_builtins(found[0]),
            "software": msgspec.to_builtins(here.software),
            **answers,
        }
        print(json.dumps(document, indent=1))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
