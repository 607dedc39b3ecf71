"""Damaged runs, exports and documents: the command line reads or refuses them."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
from typing import Any
from unittest import mock

import pytest
import recorded_runs
from hypothesis import given, note
from random_inputs import CHANCE, fresh, inputs, mutate, mutate_bytes

from advisor import cli
from advisor.cli import interruption
from advisor.domain.text import SUSPICIOUS, escape_char
from advisor.store import export_file
from advisor.store.store import Store

pytestmark = pytest.mark.slow

EXIT_CODES = {0, 1, 2, 3, 4}
#: Commands that only read runs.
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
READING_A_DOCUMENT = (
    ["show", "FILE"],
    ["show", "FILE", "--json"],
    ["decide", "FILE", "--preset", "serving"],
    ["explain", "FILE"],
    ["compare", "FILE", "FILE"],
    ["report", "FILE", "-f", "html,md,csv,json", "-o", "OUT"],
)


def run_program(arguments: list[str], home: pathlib.Path) -> tuple[int, str, str]:
    """Return the exit code and the outputs of a command on the runs in `home`.

    A traceback, an undocumented exit code, an error without a next step and control characters in
    the output are defects.
    """
    contents = [io.BytesIO(), io.BytesIO()]
    streams = [io.TextIOWrapper(each, encoding="utf-8") for each in contents]
    handlers = {number: signal.getsignal(number) for number in interruption.ENDING_SIGNALS}
    before = sys.stdout, sys.stderr
    variables = {"P3_ADVISOR_HOME": str(home), "XDG_CONFIG_HOME": str(home / "settings")}
    code: object = 0
    try:
        sys.stdout, sys.stderr = streams
        with mock.patch.dict(os.environ, variables):
            cli.main(arguments)
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.stdout, sys.stderr = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for stream in streams:
        stream.flush()
    output, errors = (each.getvalue().decode("utf-8", "surrogateescape") for each in contents)
    assert code in EXIT_CODES
    assert "Traceback" not in errors
    # Typer repeats the user's own words in its usage errors; an exported run has a checksum.
    shown_errors = "" if "Error:" in errors else errors
    shown_output = "" if arguments[:1] == ["export-run"] else output
    for text in (shown_errors, shown_output):
        assert not [char for char in SUSPICIOUS.findall(text) if escape_char(char) != char]
    # Typer prints its own usage errors; all others are ours and have a next step.
    assert code in {0, 1} or {"Usage:", "Error:", "next:"} & {*errors.split()}, errors
    assert isinstance(code, int)
    return code, output, errors


@functools.cache
def recorded() -> tuple[list[Any], list[Any], Any]:
    """Return a finished run: header and events, the lines of its export, and its document."""
    with tempfile.TemporaryDirectory() as name:
        run = recorded_runs.make_run(Store(pathlib.Path(name)), finished=True)
        stored = [run.directory / "run.json", run.directory / "events.jsonl"]
        lines = [line for file in stored for line in file.read_bytes().splitlines()]
        exported = export_file.encode_run(run).splitlines()
        _, output, _ = run_program(["show", "--json"], pathlib.Path(name))
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
    command = list(chance.choice(READING))
    if command[0] == "report":
        command += ["-o", str(home / "out")]
    note(f"{command}: {header}\n{events}")
    run_program(command, home)


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
    code, _, _ = run_program(["import-run", str(file)], home)
    if code == 0:
        run_program(["show"], home)
        run_program(["show", "--json"], home)


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
    run_program(command, home)
