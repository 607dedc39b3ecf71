"""Race two models on two GPUs of one host, in sequence and in parallel; run the contention check.

Needs two GPUs, but no Ray: it runs the code of a fleet's node in two processes. It prints the wall
times, each model's winner and speed-ups in both modes, and the verdict of the contention check for
each model, as soon as each is known. Target: where the check allows parallel races, both modes have
the same winners, and the parallel mode takes less wall time.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import math
import multiprocessing
import pathlib
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE)]

import benchmark_report
import msgspec

from advisor.domain.fleet import ContentionCheck
from advisor.domain.wire import decode_event
from advisor.fleet import contention, node
from advisor.fleet.node import NodeRunResult, Task
from advisor.pipeline.decision import decide
from advisor.question.answers import Answers
from advisor.store.store import Store

HOST = "host"


def run_assignment(task: bytes, gpu: str) -> bytes:
    """Run one race in this process."""
    return msgspec.msgpack.encode(
        node.run_assignment(msgspec.msgpack.decode(task, type=Task), HOST, gpu, lambda _: None)
    )


def race_all(
    models: Sequence[str], gpus: Sequence[str], answers: Answers, *, in_parallel: bool
) -> dict[str, Any]:
    """Race each model on its GPU; return the wall time and the result of each race."""
    start, context = time.perf_counter(), multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(len(models) if in_parallel else 1, context) as pool:
        races = {}
        for number, (model, gpu) in enumerate(zip(models, gpus, strict=True), start=1):
            task = Task(
                number=number,
                kind="gpu",
                answers=msgspec.structs.replace(answers, model=model),
                parallel_nodes=(HOST,) if in_parallel else (),
            )
            races[model] = pool.submit(run_assignment, msgspec.msgpack.encode(task), gpu)
        result = {
            model: msgspec.msgpack.decode(
                future.result(), type=NodeRunResult, dec_hook=decode_event
            )
            for model, future in races.items()
        }
    return {
        "seconds": time.perf_counter() - start,
        "answers": {model: summarise_result(entry) for model, entry in result.items()},
    }


def summarise_result(result: NodeRunResult) -> dict[str, Any]:
    """Return the answer of a race; for a race that failed before its run, only the reason."""
    if result.header is None:
        return {"problem": result.reason}
    with tempfile.TemporaryDirectory() as home:
        run = Store(pathlib.Path(home)).create(result.header)
        run.replace_contents(result.events, {})
        answer = decide(run)
    speedups = {
        measurement.arm: math.prod(cell.speedup.value for cell in measurement.cells)
        ** (1 / len(measurement.cells))
        for measurement in answer.results.measurements
        if measurement.cells
    }
    advice = answer.recommendation
    return {
        "arm": advice.arm if advice else None,
        "verdict": advice.verdict if advice else None,
        "noise_floor": answer.results.noise_floor,
        "speedups": speedups,
        "problem": result.reason,
    }


def main() -> None:
    """Race in both modes, run the check, and publish after each step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models", default="synthetic/ffn-multilayer@tinyllama,synthetic/ffn-multilayer@llama2-7b"
    )
    parser.add_argument("--gpus", default="0,1")
    parser.add_argument(
        "--workflows",
        default="torch-compile-inductor/default,torch-compile-inductor/reduce-overhead",
    )
    parser.add_argument("--batch-sizes", default="64")
    parser.add_argument("--budget", default="quick")
    parser.add_argument("--out", type=pathlib.Path, default=benchmark_report.RESULTS)
    options = parser.parse_args()
    models, gpus = options.models.split(","), options.gpus.split(",")
    answers = Answers(
        workflows=options.workflows, batch_sizes=options.batch_sizes, budget=options.budget
    )
    results: dict[str, dict[str, Any]] = {}
    for name, in_parallel in (("side by side", True), ("in turn", False)):
        results[name] = race_all(models, gpus, answers, in_parallel=in_parallel)
        log_progress(f"{name}: {results[name]['seconds']:.0f} s")
        publish(results, [], models, options.out)
    checks: list[ContentionCheck] = []
    for model in models:
        checks.append(
            contention.check_contention(
                Task(number=0, kind="gpu", answers=msgspec.structs.replace(answers, model=model)),
                HOST,
                gpus[:2],
            )
        )
        log_progress(f"{model}: {checks[-1].explanation}")
        publish(results, checks, models, options.out)


def publish(
    results: Mapping[str, Mapping[str, Any]],
    checks: Sequence[ContentionCheck],
    models: Sequence[str],
    out: pathlib.Path,
) -> None:
    """Publish the results so far, because a borrowed machine may be gone before the end."""
    rows = [
        [
            name,
            f"{entry['seconds']:.0f}",
            *(format_answer(entry["answers"][model]) for model in models),
        ]
        for name, entry in results.items()
    ]
    rows += [["check", "", *(check.explanation for check in checks)]] if checks else []
    data = {"checks": msgspec.to_builtins(checks), **results}
    benchmark_report.publish(
        "two_gpus", "Two models on two GPUs of one host", ["", "wall s", *models], rows, data, out
    )


def log_progress(message: str) -> None:
    """Print a line with the time; the whole benchmark takes many minutes."""
    print(f"{time.strftime('%X')} {message}", file=sys.stderr, flush=True)  # noqa: T201


def format_answer(answer: Mapping[str, Any]) -> str:
    if answer.get("arm") is None:
        return str(answer["problem"])
    speedup = answer["speedups"].get(answer["arm"], math.nan)
    return f"{answer['arm']} ({speedup:.2f}x, {answer['verdict']})"


if __name__ == "__main__":
    main()
