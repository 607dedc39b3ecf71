"""The inputs of the campaign: each target makes an input from random numbers and tries it.

`try_input` raises `DefectError`, or any other exception, for a defect of the program.
"""

from __future__ import annotations

import abc
import hashlib
import json
import pathlib
import random
import shutil
import tempfile
from typing import Any

import msgspec
import mutations
import program
import recorded_runs

from advisor.store import export_file
from advisor.store.store import Store

READING = (
    ["show"],
    ["show", "--json"],
    ["explain"],
    ["recipe"],
    ["history", "--json"],
    ["decide", "--preset", "serving"],
    ["report", "-f", "html,md,csv,json"],
    ["export-run", "-o", "-"],
    ["compare", "latest", "latest"],
)


class Target(abc.ABC):
    """One kind of input; subclasses say what it is and how it is tried."""

    name: str

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    @abc.abstractmethod
    def make_input(self, chance: random.Random) -> Any:
        """Return an input that JSON can hold."""

    @abc.abstractmethod
    def try_input(self, value: Any) -> None:
        """Give the input to the program; raise for a defect."""

    def fresh(self) -> pathlib.Path:
        """Return an empty directory."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        return self.folder


class StoredRuns(Target):
    """Run directories whose header or events were changed."""

    name = "stored-runs"

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        with tempfile.TemporaryDirectory() as home:
            made = recorded_runs.make_run(Store(pathlib.Path(home)), finished=True)
            self.run_id = made.directory.name
            self.header = json.loads((made.directory / "run.json").read_bytes())
            lines = (made.directory / "events.jsonl").read_bytes().splitlines()
            self.events = [json.loads(line) for line in lines]

    def make_input(self, chance: random.Random) -> Any:
        times = chance.choice((1, 1, 1, 2, 5))
        header, events = self.header, self.events
        if chance.random() < 0.3:
            header = mutations.mutate(header, chance, times)
        else:
            events = mutations.mutate(events, chance, times)
        lines = [json.dumps(event) for event in events]
        text = "".join(f"{line}\n" for line in lines)
        if chance.random() < 0.1:
            text = mutations.mutate_bytes(text.encode(), chance).decode("latin-1")
        return {
            "header": json.dumps(header),
            "events": text,
            "command": chance.choice(READING),
        }

    def try_input(self, value: Any) -> None:
        home = self.fresh()
        directory = home / "runs" / self.run_id
        directory.mkdir(parents=True)
        (directory / "run.json").write_bytes(value["header"].encode())
        (directory / "events.jsonl").write_bytes(value["events"].encode("latin-1", "replace"))
        command = list(value["command"])
        if command[0] == "report":
            command += ["-o", str(home / "out")]
        program.run(command, home)


class ExportedRuns(Target):
    """Exported runs with changed lines and a checksum that fits them."""

    name = "exported-runs"

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        run = recorded_runs.make_run(Store(folder / "exported"), finished=True)
        first, *rest = export_file.encode_run(run).splitlines()
        self.manifest = json.loads(first)
        self.lines = [json.loads(line) for line in rest]

    def make_input(self, chance: random.Random) -> Any:
        lines = list(self.lines)
        for _ in range(chance.choice((1, 1, 3))):
            number = chance.choice((0, 1, chance.randrange(len(lines))))
            lines[number] = mutations.mutate(lines[number], chance)
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        if chance.random() < 0.1:
            body = mutations.mutate_bytes(body, chance)
        manifest = self.manifest | {
            "bytes": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        if chance.random() < 0.2:
            manifest = mutations.mutate(manifest, chance)
        return (json.dumps(manifest).encode() + b"\n" + body).decode("latin-1")

    def try_input(self, value: Any) -> None:
        home = self.fresh()
        file = home / f"sent{export_file.SUFFIX}"
        file.write_bytes(value.encode("latin-1"))
        code, _, _ = program.run(["import-run", str(file)], home)
        if code == 0:
            program.run(["show"], home)
            program.run(["show", "--json"], home)


class Documents(Target):
    """JSON documents that `--json` wrote, changed."""

    name = "documents"

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        with tempfile.TemporaryDirectory() as home:
            recorded_runs.make_run(Store(pathlib.Path(home)), finished=True)
            _, output, _ = program.run(["show", "--json"], pathlib.Path(home))
        self.document = json.loads(output)

    def make_input(self, chance: random.Random) -> Any:
        times = chance.choice((1, 1, 2, 5))
        command = chance.choice(
            (
                ["show", "FILE"],
                ["show", "FILE", "--json"],
                ["decide", "FILE", "--preset", "serving"],
                ["explain", "FILE"],
                ["compare", "FILE", "FILE"],
                ["report", "FILE", "-f", "html,md,csv,json", "-o", "OUT"],
            )
        )
        return {
            "document": json.dumps(mutations.mutate(self.document, chance, times)),
            "command": command,
        }

    def try_input(self, value: Any) -> None:
        home = self.fresh()
        file = home / "document.json"
        file.write_text(value["document"], encoding="utf-8")
        names = {"FILE": str(file), "OUT": str(home / "out")}
        program.run([names.get(word, word) for word in value["command"]], home)


def encoded(value: object) -> Any:
    """Return a value as the JSON tree that the program stores."""
    return json.loads(msgspec.json.encode(value))
