"""Does the answer come before that of a script? Compare wall time and winner of both.

    python tests/studies/against_script.py swin_t gpt2 --dtype bfloat16 --batch-sizes 1,16

For each model of `script_models.py`, a plain script builds and times eager PyTorch and each arm one
after the other: this is what a user would write. Then `p3-advisor` answers the same question with
the same arms. Both run in fresh processes with empty caches, one after the other. The result is one
line of JSON for each model.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import script_models
import torch

ROOT = pathlib.Path(__file__).parents[2]
MODELS = pathlib.Path(__file__).with_name("script_models.py")
WARMUP_CALLS, TIMED_SECONDS = 10, 0.4
Process = subprocess.CompletedProcess[str]


def run_script(model: str, device: str, dtype_name: str, sizes: list[int]) -> dict[str, Any]:
    """Build and time all arms in this process, as a script of a user would."""
    dtype = getattr(torch, dtype_name)
    times: dict[str, dict[int, float]] = {}
    for size in sizes:
        torch.manual_seed(0)
        module, inputs = getattr(script_models, model)()
        module = module.to(device, dtype).requires_grad_(requires_grad=False)
        args = tuple(
            each.to(device, dtype if each.is_floating_point() else each.dtype).repeat(
                size, *[1] * (each.dim() - 1)
            )
            for each in inputs
        )
        for name, make in script_arms(device, module, args).items():
            torch._dynamo.reset()
            try:
                with torch.inference_mode():
                    call = make()
                    times.setdefault(name, {})[size] = time_calls(call, args, device)
            except Exception as problem:  # noqa: BLE001 - a stack may raise anything
                print(f"{name}: {problem}", file=sys.stderr)
    eager = times.pop("pytorch-eager")
    return {
        arm: statistics.geometric_mean(eager[size] / each[size] for size in sizes)
        for arm, each in times.items()
        if len(each) == len(sizes)
    }


def script_arms(device: str, module: Any, args: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    compiled = {
        "pytorch-eager": lambda: module,
        "torch-compile-inductor": lambda: torch.compile(module),
    }
    if device == "cpu":
        return {**compiled, "onnxruntime-cpu/host": lambda: onnx_call(module, args)}
    reduce_overhead = "torch-compile-inductor/reduce-overhead"
    return {
        **compiled,
        reduce_overhead: lambda: torch.compile(module, mode="reduce-overhead"),
        "pytorch-eager/cuda-graph": lambda: graph_call(module, args),
    }


def onnx_call(module: Any, args: tuple[Any, ...]) -> Any:
    import onnxruntime  # noqa: PLC0415 - the comparison on a GPU does without

    program = torch.onnx.export(module, args, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [each.name for each in session.get_inputs()]
    return lambda *values: session.run(
        None, dict(zip(names, (each.numpy() for each in values), strict=True))
    )


def graph_call(module: Any, args: tuple[Any, ...]) -> Any:
    held = [each.clone() for each in args]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(*held)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = module(*held)

    def call(*values: Any) -> Any:
        for target, value in zip(held, values, strict=True):
            target.copy_(value)
        graph.replay()
        return output

    return call


def time_calls(call: Any, args: tuple[Any, ...], device: str) -> float:
    """Return the median seconds of a call."""
    synchronise = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(WARMUP_CALLS):
        call(*args)
    synchronise()
    seconds: list[float] = []
    end = time.perf_counter() + TIMED_SECONDS
    while time.perf_counter() < end or len(seconds) < WARMUP_CALLS:
        start = time.perf_counter()
        call(*args)
        synchronise()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def compare(model: str, device: str, dtype: str, sizes: str, limit: float) -> dict[str, Any]:
    """Return both walls, winners and speed-ups of one model."""
    _eager, *arms = script_arms(device, None, ())
    asked = ["--dtype", dtype, "--batch-sizes", sizes]
    with tempfile.TemporaryDirectory() as folder:
        script = [sys.executable, __file__, model, "--script", "--device", device, *asked]
        script_wall, printed = time_process(script, folder, limit)
        by_script = json.loads(printed.stdout or "{}")
        named = [arm if "/" in arm else f"{arm}/default" for arm in arms]
        options = ["--model", f"{MODELS}:{model}", "--workflows", ",".join(named), *asked]
        options += ["--gpu", "cpu"] if device == "cpu" else []
        speedups, summary, _ = recommend(options, folder, limit)
        events = [
            json.loads(line)
            for log in pathlib.Path(folder, "home", "runs").glob("*/events.jsonl")
            for line in log.read_text(encoding="utf-8").splitlines()
        ]
    measured = {
        arm: speedup["value"]
        for arm, speedup in speedups.items()
        if speedup and arm != "pytorch-eager"
    }
    wall, first = summary["seconds"], first_answer(events, summary["advised"])
    return {
        "model": model,
        "device": device,
        "dtype": dtype,
        "batch_sizes": sizes,
        "script_seconds": round(script_wall, 1),
        "ratio": round(wall / script_wall, 2),
        "first_seconds": first and round(wall - (events[-1]["at"] - first), 1),
        "script_winner": fastest(by_script),
        "winner": fastest(measured),
        "script_speedups": {arm: round(each, 2) for arm, each in by_script.items()},
        "speedups": {arm: round(each, 2) for arm, each in measured.items()},
        **summary,
    }


def first_answer(events: list[dict[str, Any]], arm: str | None) -> float | None:
    """Return when the run had the answer that it ended with, on its own clock.

    From then on it printed this arm, and would have ended with it if it had been stopped.
    """
    found = None
    for event in events:
        if event["run_event"]["event"] == "provisional_answer":
            is_final = event["run_event"]["answer"]["arm"] == arm
            found = (found or event["at"]) if is_final else None
    return found


def fastest(speedups: dict[str, float]) -> str:
    """Return the arm with the largest speed-up, eager PyTorch if none is faster."""
    known = {"pytorch-eager": 1.0, **speedups}
    return max(known, key=lambda arm: known[arm])


def time_process(
    command: list[str], folder: str, limit: float | None = None
) -> tuple[float, Process]:
    """Return the seconds of a command whose caches and runs are below `folder`, and its end."""
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "P3_ADVISOR_HOME": f"{folder}/home",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as late:
        done = subprocess.CompletedProcess(command, -1, "", f"stopped after {late.timeout:g} s")
    return time.perf_counter() - start, done


def recommend(
    options: list[str], folder: str, limit: float | None = None
) -> tuple[dict[str, Any], dict[str, Any], Process]:
    """Return the speed-ups of a run by arm, what it advised in which time, and its end."""
    command = [sys.executable, "-m", "advisor", "recommend", "--json", *options]
    seconds, done = time_process(command, folder, limit)
    answer = json.loads(done.stdout or "{}")
    advice = answer.get("recommendation") or {}
    measurements = answer.get("results", {}).get("measurements", ())
    headline = [line["text"] for line in answer.get("headline", ())][:2]
    summary = {
        "seconds": round(seconds, 1),
        "advised": advice.get("arm"),
        "word": (advice.get("decision") or {}).get("word"),
        "headline": headline or done.stderr.splitlines()[-3:],
    }
    return {each["arm"]: each["speedup"] for each in measurements}, summary, done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch-sizes", default="1,16")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of each process")
    parser.add_argument("--script", action="store_true", help="run the plain script alone")
    options = parser.parse_args()
    for model in options.models:
        if options.script:
            sizes = [int(size) for size in options.batch_sizes.split(",")]
            found = run_script(model, options.device, options.dtype, sizes)
        else:
            found = compare(
                model, options.device, options.dtype, options.batch_sizes, options.limit
            )
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
