"""Write a run as one file and import it on another machine.

The first line is a manifest with a checksum, the second is the run's header, and each further line
is an event. An exported run has only the file names of interpreters and of a local model; other
paths in messages of stacks stay in it.

A file may come from anybody. The checksum detects damage and does not authenticate the sender: an
imported run is evidence, but its code is not run and its paths are not opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from advisor.domain.errors import ExportFileError, reported_as
from advisor.domain.event_folding import fold_run
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import SCHEMA as RUN_SCHEMA
from advisor.domain.run_state import Header
from advisor.store.files import HOME_VARIABLE, open_regular, report_unwritable, write_atomically
from advisor.store.runs import DECODE_ERRORS, EVENTS, HEADERS, Run, refuse_newer
from advisor.store.store import Store

SCHEMA: Final = "p3-advisor/export/1"
SUFFIX = ".p3run"
#: Larger files are refused; every known run is smaller.
MAX_EXPORT_BYTES = 256 << 20
SEND_AGAIN = "have it exported and sent again"
ASK_SENDER = "ask the sender for the origin of the file"
#: The directory in a field that names an interpreter or a file of the user.
DIRECTORY = re.compile(
    rb'"(?:python|executable|interpreter|quantiser|weights|inputs|data|metric|kind":"\w+","name)"'
    rb':"(/[^"]+/)[^"/]+"'
)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: the checksum of the content after it."""

    schema: Literal["p3-advisor/export/1"]
    sha256: str


def encode_run(run: Run) -> bytes:
    header = run.header()
    # Its command is of no use on another machine, and may name files of this one.
    question = msgspec.structs.replace(header.question, asked={})
    header = msgspec.structs.replace(header, question=question)
    lines = [msgspec.json.encode(each) for each in (header, *run.events())]
    body = _without_directories(b"".join(line + b"\n" for line in lines))
    manifest = Manifest(schema=SCHEMA, sha256=hashlib.sha256(body).hexdigest())
    return msgspec.json.encode(manifest) + b"\n" + body


def _without_directories(body: bytes) -> bytes:
    """Remove the directories of interpreters and of the model's files, also from messages."""
    names = b"|".join(map(re.escape, sorted(set(DIRECTORY.findall(body)), key=len, reverse=True)))
    # The escape of a new line ends with a letter.
    return re.sub(rb"(?:(?<![\w/.-])|(?<=\\n))(?:" + names + rb")", b"", body)


def read_export(file: pathlib.Path) -> tuple[Header, list[LoggedEvent]]:
    """Return the run in a file; raise `ExportFileError` if it is damaged, edited or too large."""
    what = f"{file} cannot be read"
    with reported_as(ExportFileError, what, "check the name"):
        stream, _ = open_regular(file.resolve())
        with stream:
            content = stream.read(MAX_EXPORT_BYTES + 1)
    if len(content) > MAX_EXPORT_BYTES:
        raise ExportFileError(
            f"{file} is larger than {MAX_EXPORT_BYTES >> 20} MiB, the limit for a run", ASK_SENDER
        )
    return decode_run(content, str(file))


def decode_run(content: bytes, name: str) -> tuple[Header, list[LoggedEvent]]:
    first_line, _, body = content.partition(b"\n")
    refuse_newer(first_line, SCHEMA, name)
    next_step = "use a file that p3-advisor export-run wrote"
    with reported_as(ExportFileError, f"{name} is not an exported run", next_step, DECODE_ERRORS):
        manifest = msgspec.json.decode(first_line, type=Manifest)
    if hashlib.sha256(body).hexdigest() != manifest.sha256:
        raise ExportFileError(
            f"{name} was cut off or changed after the export: its checksum differs", SEND_AGAIN
        )
    header_line, *event_lines = body.split(b"\n")[:-1] or [b""]
    refuse_newer(header_line, RUN_SCHEMA, name)
    with reported_as(ExportFileError, f"{name} does not hold a run", SEND_AGAIN, DECODE_ERRORS):
        header = HEADERS.decode(header_line)
        events = [EVENTS.decode(line) for line in event_lines]
    what = f"the events in {name} do not fit together"
    with reported_as(ExportFileError, what, SEND_AGAIN, (LookupError, ValueError)):
        fold_run(events)
    return header, events


def import_run(store: Store, header: Header, events: Sequence[LoggedEvent]) -> Run:
    """Store a run, complete or not at all; raise `ExportFileError` if another one has its id."""
    run = store.run(header.run_id)
    directory = run.directory
    imported = msgspec.structs.replace(header, foreign=True)
    if directory.exists():
        if run.header() == imported and [*run.events()] == [*events]:
            return run
        raise ExportFileError(
            f"there is a run {header.run_id} already",
            f"see p3-advisor show {header.run_id}, or delete it first",
        )
    with report_unwritable(directory.parent, f"make it writable, or set {HOME_VARIABLE}"):
        directory.parent.mkdir(parents=True, exist_ok=True)
        partial = pathlib.Path(tempfile.mkdtemp(prefix=".import-", dir=directory.parent))
    with report_unwritable(directory, "free disk space"), contextlib.ExitStack() as on_failure:
        on_failure.callback(shutil.rmtree, partial, ignore_errors=True)
        stored = Run(partial)
        write_atomically(stored.header_file, msgspec.json.encode(imported))
        content = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
        write_atomically(stored.events_file, content)
        partial.chmod(directory.parent.stat().st_mode & 0o777)
        partial.rename(directory)
        on_failure.pop_all()
    return run
