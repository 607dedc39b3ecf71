"""Compare Inductor's gain with the public figures of timm for models of a seeded draw.

    python tests/studies/answer_key.py measure         # on a GPU with timm; goes on where it ended
    python tests/studies/answer_key.py summarise

`answer_key.csv` has the models with their gains on three GPUs, from the files
`benchmark-infer-amp-nchw-pt291-*.csv` of huggingface/pytorch-image-models. The history of this
script until 2026-11-28 has the draw: at most one model of a family in each range of gains. As in
the key, the models have float32 weights, run in float16 by autocast, and get a large batch of one
size; `--batch-size` measures another one, which has no key.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import pathlib
import statistics
import tempfile
import time
from typing import Any

from against_script import recommend

HERE = pathlib.Path(__file__).parent
KEY = HERE / "answer_key.csv"
RESULTS = HERE / "results" / "answer-key-h100.jsonl"
GPUS = ("cu128-4090", "cu130-5090", "cu130-pro6000maxq")
BATCH_SIZE = 256
INDUCTOR = "torch-compile-inductor"
MODEL_FILE = """\
import timm
import torch


class Autocast(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        with torch.autocast(image.device.type, torch.float16):
            return self.model(image)


def build():
    size = {size}
    model = timm.create_model("{model}", pretrained=False).eval()
    return Autocast(model), (torch.randn(1, 3, size, size),)
"""


def measure(limit: float, batch_size: int) -> None:
    """Append a line to `RESULTS` for each model that has none; begin none after `limit` seconds."""
    end = time.monotonic() + limit
    known = {each["model"] for each in read_results(batch_size)}
    for row in read_key():
        if row["model"] in known:
            continue
        if time.monotonic() >= end:
            return
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(measure_model(row, batch_size)) + "\n")


def measure_model(row: dict[str, str], batch_size: int) -> dict[str, Any]:
    """Return what a run in a fresh process with empty caches found for one model."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "model.py")
        file.write_text(MODEL_FILE.format(**row), encoding="utf-8")
        options = ["--model", f"{file}:build", "--batch-sizes", str(batch_size)]
        options += ["--workflows", f"{INDUCTOR}/default", "--budget", "quick"]
        speedups, summary, done = recommend(options, folder)
    return {
        "model": row["model"],
        "size": int(row["size"]),
        "batch_size": batch_size,
        "budget": "quick",
        "exit_status": done.returncode,
        "speedup": speedups.get(INDUCTOR),
        **summary,
    }


def read_key() -> list[dict[str, str]]:
    return list(csv.DictReader(KEY.read_text(encoding="utf-8").splitlines()))


def read_results(batch_size: int) -> list[dict[str, Any]]:
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return [each for each in map(json.loads, lines) if each["batch_size"] == batch_size]


def summarise(batch_size: int) -> None:
    """Print the table and the agreement; the GPUs of the key are compared with one another too."""
    found, rows = {each["model"]: each for each in read_results(batch_size)}, read_key()
    print("| model | key: 4090 / 5090 / PRO 6000 | here | advised | s |\n|---|---|---|---|---|")
    pairs: list[tuple[float, float]] = []
    undisputed: list[tuple[float, float]] = []
    for row in rows:
        each = found.get(row["model"])
        if each is None:
            continue
        speedup = each["speedup"]
        if speedup is not None:
            keys = [float(row[gpu]) for gpu in GPUS]
            pairs.append((statistics.geometric_mean(keys), speedup["value"]))
            if len({key > 1 for key in keys}) == 1:
                undisputed.append(pairs[-1])
        shown = "-" if speedup is None else f"{speedup['value']:.2f}x"
        gains = " / ".join(row[gpu] for gpu in GPUS)
        print(
            f"| {row['model']} | {gains} | {shown} "
            f"| {each['word'] or '-'} {each['advised'] or ''} | {each['seconds']:.0f} |"
        )
    print("this GPU and the mean of the key:", agreement(pairs))
    print("the same where all of the key agree in sign:", agreement(undisputed))
    for first, second in itertools.combinations(GPUS, 2):
        both = [(float(row[first]), float(row[second])) for row in rows]
        print(f"{first} and {second}:", agreement(both))


def agreement(pairs: list[tuple[float, float]]) -> str:
    """Return how gains agree: in sign, in the size of their logarithms, and in their order."""
    logs = [(math.log(one), math.log(two)) for one, two in pairs]
    signs = sum((one > 0) == (two > 0) for one, two in logs)
    difference = statistics.median(abs(one - two) for one, two in logs)
    first, second = zip(*logs, strict=True)
    return (
        f"{signs} of {len(pairs)} of the same sign, median ratio {math.exp(difference):.2f}, "
        f"correlation of the logarithms {statistics.correlation(first, second):.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--limit", type=float, default=math.inf, help="seconds")
    summarising = commands.add_parser("summarise")
    for each in (measuring, summarising):
        each.add_argument("--batch-size", type=int, default=BATCH_SIZE)
    options = parser.parse_args()
    if options.command == "measure":
        measure(options.limit, options.batch_size)
    else:
        summarise(options.batch_size)


if __name__ == "__main__":
    main()
