"""Compare Inductor's gain with the public figures of timm for models of a seeded draw.

    python tests/studies/answer_key.py    # on a GPU with timm; goes on where it ended
    python tests/studies/answer_key.py --limit 0    # prints the agreement alone

`answer_key.csv` has the models with their gains on three GPUs, from the files
`benchmark-infer-amp-nchw-pt291-*.csv` of huggingface/pytorch-image-models. The history of this
script until 2026-11-28 has the draw: at most one model of a family in each range of gains. As in
the key, the models have float32 weights, run in float16 by autocast, and get a large batch of one
size; `--batch-size` measures another one, which has no key.
"""

from __future__ import annotations

import argparse
import csv
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


def read_results(batch_size: int) -> list[dict[str, Any]]:
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return [each for each in map(json.loads, lines) if each["batch_size"] == batch_size]


def summarise(rows: list[dict[str, str]], batch_size: int) -> None:
    """Print the table and the agreement."""
    found = {each["model"]: each for each in read_results(batch_size)}
    print("| model | key: 4090 / 5090 / PRO 6000 | here | advised | s |\n|---|---|---|---|---|")
    pairs, undisputed = list[tuple[float, float]](), list[tuple[float, float]]()
    for row in rows:
        if (each := found.get(row["model"])) is None:
            continue
        shown, speedup, keys = "-", each["speedup"], [float(row[gpu]) for gpu in GPUS]
        if speedup is not None:
            shown = f"{speedup['value']:.2f}x"
            pairs.append((statistics.geometric_mean(keys), speedup["value"]))
            undisputed += pairs[-1:] if len({key > 1 for key in keys}) == 1 else []
        gains = " / ".join(row[gpu] for gpu in GPUS)
        advised = f"{each['word'] or '-'} {each['advised'] or ''}"
        print(f"| {row['model']} | {gains} | {shown} | {advised} | {each['seconds']:.0f} |")
    print("this GPU and the mean of the key:", agreement(pairs))
    print("the same where all of the key agree in sign:", agreement(undisputed))


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
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds; begin none later")
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE)
    options = parser.parse_args()
    rows = list(csv.DictReader(KEY.read_text(encoding="utf-8").splitlines()))
    known = {each["model"] for each in read_results(options.batch_size)}
    end = time.monotonic() + options.limit
    for row in rows:
        if row["model"] not in known and time.monotonic() < end:
            line = json.dumps(measure_model(row, options.batch_size))
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
    summarise(rows, options.batch_size)


if __name__ == "__main__":
    main()
