"""Publish the result of a benchmark as a Markdown table and as JSON under `results/`."""

from __future__ import annotations

import datetime as dt
import json
import os
import pathlib
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from advisor.machine.detection import cpu_model
from advisor.machine.gpus import detect_gpus

RESULTS = pathlib.Path(__file__).parent / "results"


def describe_machine() -> dict[str, Any]:
    """Return the date, the hardware, the load and the package versions."""
    installed = {
        distribution.name: distribution.version for distribution in metadata.distributions()
    }
    return {
        "date": dt.datetime.now(tz=dt.timezone.utc).isoformat(timespec="minutes"),
        "cpu": cpu_model(),
        "processors": len(os.sched_getaffinity(0)),
        "gpus": [gpu.name for gpu in detect_gpus()[0]],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        **{
            package: installed.get(package, "absent")
            for package in ("torch", "onnxruntime", "p3-advisor")
        },
    }


def publish(
    name: str,
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    data: Mapping[str, Any],
    out: pathlib.Path,
) -> None:
    """Print the table, and write `data` with the machine to `name`.json in the folder `out`."""
    machine = describe_machine()
    lines = [
        f"### {title}",
        "",
        (
            f"{machine['cpu']}, {machine['processors']} processors, torch {machine['torch']},"
            f" load {machine['load']:.1f}; {machine['date']}"
        ),
        "",
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(
        json.dumps({"title": title, "machine": machine, **data}, indent=2) + "\n"
    )
