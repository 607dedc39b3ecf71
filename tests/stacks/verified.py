"""Write `rubric/verified.toml` from the run documents under `evidence/`: `python tests/stacks/verified.py`."""

from __future__ import annotations

import collections
import pathlib

import msgspec

from advisor.catalogue import rubric_directory
from advisor.report.document import RunDocument

EVIDENCE = pathlib.Path(__file__).parent / "evidence"
HEADER = "# Where each workflow was really run; written from the run documents under tests/stacks/evidence, never by hand.\n"


def render(evidence: pathlib.Path = EVIDENCE) -> str:
    """Return the file's text: by workflow, the devices and months of the runs in which it completed."""
    places: dict[str, set[str]] = collections.defaultdict(set)
    for file in sorted(evidence.glob("*.json")):
        document = msgspec.json.decode(file.read_bytes(), type=RunDocument)
        gpu = next(
            (
                gpu.name.removeprefix("NVIDIA ")
                for gpu in document.machine.gpu
                if gpu.uuid == document.question.gpu
            ),
            "cpu",
        )
        for entry in document.workflows:
            if entry.status == "completed":
                places[entry.id].add(f"{gpu} {document.created[:7]}")
    lines = (
        f"{workflow} = {msgspec.json.encode(sorted(found)).decode()}"
        for workflow, found in sorted(places.items())
    )
    return HEADER + "\n".join(["", *lines, ""])


if __name__ == "__main__":
    (rubric_directory() / "verified.toml").write_text(render(), encoding="utf-8")
