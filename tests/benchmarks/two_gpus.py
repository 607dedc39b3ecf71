"""Two models on two GPUs of one host: races one after the other and side by side, beside what the contention check says of them.

Needs two GPUs and no Ray: it drives what a node does, in two processes. Prints wall times, each
model's winner and speed-ups both ways, and the verdict of the check for each model, as soon as it
has them. Target: where the check allows it, the winners are the same and the wall time is less.
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

import figures
import msgspec

from advisor.domain.fleet import Contention
from advisor.fleet import contention, node
from advisor.fleet.node import Packed, Task
from advisor.pipeline.decision import decide
from advisor.question.answers import Answers
from advisor.store import Store

HOST = "host"


def race(task: bytes, gpu: str) -> bytes:
    """Make one race in this process."""
    return msgspec.msgpack.encode(
        node.race(msgspec.msgpack.decode(task, type=Task), HOST, gpu, lambda _: None)
    )


def race_all(
    models: Sequence[str], gpus: Sequence[str], answers: Answers, *, at_once: bool
) -> dict[str, Any]:
    """Make every model's race on its GPU; return the wall time and what came out."""
    begun, context = time.perf_counter(), multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(len(models) if at_once else 1, context) as pool:
        races = {}
        for number, (model, gpu) in enumerate(zip(models, gpus, strict=True), start=1):
            task = Task(
                number=number,
                kind="gpu",
                answers=msgspec.structs.replace(answers, model=model),
                beside=(HOST,) if at_once else (),
            )
            races[model] = pool.submit(race, msgspec.msgpack.encode(task), gpu)
        packed = {
            model: msgspec.msgpack.decode(future.result(), type=Packed)
            for model, future in races.items()
        }
    return {
        "seconds": time.perf_counter() - begun,
        "answers": {model: read(one) for model, one in packed.items()},
    }


def read(packed: Packed) -> dict[str, Any]:
    """Decide on a race that came back; without a run there is only the reason."""
    if packed.header is None:
        return {"problem": packed.reason}
    with tempfile.TemporaryDirectory() as home:
        run = Store(pathlib.Path(home)).create(packed.header)
        run.rewrite(packed.events, {})
        decision = decide(run)
    speedups = {
        measurement.arm: math.prod(cell.speedup.value for cell in measurement.cells)
        ** (1 / len(measurement.cells))
        for measurement in decision.results.measurements
        if measurement.cells
    }
    advice = decision.recommendation
    return {
        "arm": advice.arm if advice else None,
        "verdict": advice.verdict if advice else None,
        "noise_floor": decision.results.noise_floor,
        "speedups": speedups,
        "problem": packed.reason,
    }


def main() -> None:
    """Race both ways, check, print."""
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
    parser.add_argument("--out", type=pathlib.Path, default=figures.RESULTS)
    options = parser.parse_args()
    models, gpus = options.models.split(","), options.gpus.split(",")
    answers = Answers(
        workflows=options.workflows, batch_sizes=options.batch_sizes, budget=options.budget
    )
    found: dict[str, dict[str, Any]] = {}
    for name, at_once in (("side by side", True), ("in turn", False)):
        found[name] = race_all(models, gpus, answers, at_once=at_once)
        narrate(f"{name}: {found[name]['seconds']:.0f} s")
        publish(found, [], models, options.out)
    checks: list[Contention] = []
    for model in models:
        checks.append(
            contention.check(
                Task(number=0, kind="gpu", answers=msgspec.structs.replace(answers, model=model)),
                HOST,
                gpus[:2],
            )
        )
        narrate(f"{model}: {checks[-1].words}")
        publish(found, checks, models, options.out)


def publish(
    found: Mapping[str, Mapping[str, Any]],
    checks: Sequence[Contention],
    models: Sequence[str],
    out: pathlib.Path,
) -> None:
    """Print and keep what there is so far: a machine that is lent may be gone before the rest."""
    rows = [
        [name, f"{one['seconds']:.0f}", *(_text(one["answers"][model]) for model in models)]
        for name, one in found.items()
    ]
    rows += [["check", "", *(check.words for check in checks)]] if checks else []
    data = {"checks": msgspec.to_builtins(checks), **found}
    figures.publish(
        "two_gpus", "Two models on two GPUs of one host", ["", "wall s", *models], rows, data, out
    )


def narrate(words: str) -> None:
    """Say what is done so far: the whole takes many minutes."""
    print(f"{time.strftime('%X')} {words}", file=sys.stderr, flush=True)  # noqa: T201


def _text(answer: Mapping[str, Any]) -> str:
    if answer.get("arm") is None:
        return str(answer["problem"])
    return f"{answer['arm']} ({answer['speedups'].get(answer['arm'], math.nan):.2f}x, {answer['verdict']})"


if __name__ == "__main__":
    main()
