"""Read the answers of the runs that are kept under `tests/stacks/evidence`."""

from __future__ import annotations

import pathlib

import msgspec

from advisor.domain.answer import Answer, RankedArm

EVIDENCE = pathlib.Path(__file__).parents[3] / "tests" / "stacks" / "evidence"


def read_run(file: str) -> Answer:
    return msgspec.json.decode((EVIDENCE / file).read_bytes(), type=Answer)


def device_of(document: Answer) -> str:
    """Return the name of the measured GPU with its article, or the processor and its count."""
    cpu = document.machine.cpu
    if document.question.gpu is None:
        return f"an {cpu.model} with {cpu.usable_processors} usable processors"
    is_one = document.question.devices_per_model == 1
    return f"an {document.device_name}" if is_one else document.device_name


def versions_of(document: Answer) -> str:
    """Return the versions of every stack; several for one that differs between environments."""
    versions: dict[str, dict[str, None]] = {}
    for entry in document.ranked:
        for name, version in entry.versions.items():
            versions.setdefault(name, {})[version] = None
    return ", ".join(f"{name} {' and '.join(found)}" for name, found in sorted(versions.items()))


def timed_arms(document: Answer) -> list[RankedArm]:
    """Return the arms with a speed-up, fastest first."""
    return sorted(document.ranked, key=lambda arm: -arm.scored.speedup)
