from __future__ import annotations

import functools
import hashlib
import json
import pathlib
import random
import tempfile
from typing import Any

import program
import pytest
import recorded_runs
from hypothesis import given, note
from random_inputs import CHANCE, fresh, inputs, mutate, mutate_bytes

from advisor.store import export_file
from advisor.store.store import Store

pytestmark = pytest.mark.slow

READING_A_DOCUMENT = (
    ["show", "FILE"],
    ["show", "FILE", "--json"],
    ["decide", "FILE", "--preset", "serving"],
    ["explain", "FILE"],
    ["compare", "FILE", "FILE"],
    ["report", "FILE", "-f", "html,md,csv,json", "-o", "OUT"],
)


@functools.cache
def recorded() -> tuple[list[Any], list[Any], Any]:
    """Return a finished run: header and events, the lines of its export, and its document."""
    with tempfile.TemporaryDirectory() as name:
        run = recorded_runs.make_run(Store(pathlib.Path(name)), finished=True)
        stored = [run.directory / "run.json", run.directory / "events.jsonl"]
        lines = [line for file in stored for line in file.read_bytes().splitlines()]
        exported = export_file.encode_run(run).splitlines()
        _, output, _ = program.run(["show", "--json"], pathlib.Path(name))
    return [*map(json.loads, lines)], [*map(json.loads, exported)], json.loads(output)


def encode(lines: list[Any], chance: random.Random) -> bytes:
    """Return lines of JSON, a tenth of which are damaged."""
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return mutate_bytes(content, chance) if chance.random() < 0.1 else content


@inputs(20)
@given(chance=CHANCE)
def test_a_changed_run_is_read_or_refused(chance: random.Random, tmp_path: pathlib.Path) -> None:
    (header, *events), _, _ = recorded()
    times = chance.choice((1, 1, 1, 2, 5))
    if chance.random() < 0.3:
        header = mutate(header, chance, times)
    else:
        events = mutate(events, chance, times)
    home = fresh(tmp_path)
    directory = home / "runs" / "20261121-120001-0000"
    directory.mkdir(parents=True)
    (directory / "run.json").write_bytes(json.dumps(header).encode())
    (directory / "events.jsonl").write_bytes(encode(events, chance))
    command = list(chance.choice(program.READING))
    if command[0] == "report":
        command += ["-o", str(home / "out")]
    note(f"{command}: {header}\n{events}")
    program.run(command, home)


@inputs(20)
@given(chance=CHANCE)
def test_a_changed_export_with_a_fitting_checksum_is_imported_or_refused(
    chance: random.Random, tmp_path: pathlib.Path
) -> None:
    _, (manifest, *lines), _ = recorded()
    for _ in range(chance.choice((1, 1, 3))):
        number = chance.choice((0, 1, chance.randrange(len(lines))))
        lines[number] = mutate(lines[number], chance)
    body = encode(lines, chance)
    manifest = manifest | {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    if chance.random() < 0.2:
        manifest = mutate(manifest, chance)
    home = fresh(tmp_path)
    file = home / f"sent{export_file.SUFFIX}"
    file.write_bytes(json.dumps(manifest).encode() + b"\n" + body)
    note(f"{manifest}\n{body!r}")
    code, _, _ = program.run(["import-run", str(file)], home)
    if code == 0:
        program.run(["show"], home)
        program.run(["show", "--json"], home)


@inputs(20)
@given(chance=CHANCE)
def test_a_changed_document_is_read_or_refused(
    chance: random.Random, tmp_path: pathlib.Path
) -> None:
    document = mutate(recorded()[2], chance, chance.choice((1, 1, 2, 5)))
    home = fresh(tmp_path)
    file = home / "document.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    names = {"FILE": str(file), "OUT": str(home / "out")}
    command = [names.get(word, word) for word in chance.choice(READING_A_DOCUMENT)]
    note(f"{command}: {document}")
    program.run(command, home)
