"""One run as one file, to be read on another machine.

What is written names neither the machine nor its interpreters unless that is asked for; the name of
a local model and what stacks said stay in it. What is read may come from anybody. The first line
says what follows and has its checksum, the second is the run's header, and then comes one event a
line. The checksum shows damage, not who wrote the file: an imported run counts as evidence, but
nothing of it is executed and nothing it names is opened.
"""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import tempfile
from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from advisor.domain.machine import Machine
from advisor.domain.run import RUN_ID, Header
from advisor.domain.run import SCHEMA as HEADER_SCHEMA
from advisor.domain.run_events import LoggedEvent, Planned, RunEvent, WorkerReported
from advisor.domain.run_state import fold
from advisor.domain.worker_events import Environment, Imported, Recipe
from advisor.errors import ExportFileError, NotWritableError
from advisor.store import HOME_VARIABLE, Run, Store
from advisor.store.runs import DECODE_ERRORS

SCHEMA: Final = "p3-advisor/export/1"
SUFFIX = ".p3run"
#: Larger than any run that was seen; reading stops here.
MOST_BYTES = 256 << 20
Told = TypeVar("Told", bound=msgspec.Struct)
AGAIN = "have it exported and sent again"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: what follows, and how to tell that it is whole."""

    schema: str
    run_id: str
    advisor_version: str
    bytes: int
    sha256: str
    #: Name of the machine, where the sender chose to give it.
    host: str | None = None


def pack(run: Run, host: str | None = None) -> bytes:
    """Return the run as a file's content."""
    header = run.header()
    question = _shortened(header.question, "python")
    told = msgspec.structs.replace(
        header, question=question, machine=_without_paths(header.machine)
    )
    lines = [
        msgspec.json.encode(told),
        *(msgspec.json.encode(_without_interpreters(event)) for event in run.events()),
    ]
    body = b"".join(line + b"\n" for line in lines)
    manifest = Manifest(
        schema=SCHEMA,
        run_id=header.run_id,
        advisor_version=header.advisor_version,
        bytes=len(body),
        sha256=hashlib.sha256(body).hexdigest(),
        host=host,
    )
    return msgspec.json.encode(manifest) + b"\n" + body


def _without_paths(machine: Machine) -> Machine:
    software = _shortened(machine.software, "executable")
    environments = {name: _shortened(made, "python") for name, made in machine.environments.items()}
    return _shortened(
        msgspec.structs.replace(machine, software=software, environments=environments), "engine"
    )


def _without_interpreters(event: LoggedEvent) -> LoggedEvent:
    match event.run_event:
        case Planned(plan=plan) as planned:
            arms = tuple(_shortened(arm, "python") for arm in plan.arms)
            run_event: RunEvent = msgspec.structs.replace(
                planned, plan=msgspec.structs.replace(plan, arms=arms)
            )
        case WorkerReported(worker_event=Recipe() as recipe):
            run_event = msgspec.structs.replace(
                event.run_event, worker_event=_shortened(recipe, "interpreter")
            )
        case WorkerReported(worker_event=Imported(environment=Environment() as found) as imported):
            environment = _shortened(found, "interpreter")
            run_event = msgspec.structs.replace(
                event.run_event,
                worker_event=msgspec.structs.replace(imported, environment=environment),
            )
        case _:
            return event
    return msgspec.structs.replace(event, run_event=run_event)


def _shortened(told: Told, field: str) -> Told:
    """Return the struct with only the last part of the path in this field: the parts before it tell whose it is."""
    path = getattr(told, field)
    return msgspec.structs.replace(told, **{field: pathlib.Path(path).name}) if path else told


def read(file: pathlib.Path) -> tuple[Header, list[LoggedEvent]]:
    """Return what the file holds; raise `ExportFileError` with the reason for one that is truncated, edited, too large or made up."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except OSError as problem:
        raise ExportFileError(
            f"{file} cannot be read: {problem.strerror}", "check the name"
        ) from problem
    if len(content) > MOST_BYTES:
        raise ExportFileError(
            f"{file} is larger than {MOST_BYTES >> 20} MiB, which no run is",
            "ask the sender what it is",
        )
    return unpack(content, str(file))


def unpack(content: bytes, name: str) -> tuple[Header, list[LoggedEvent]]:
    """Return the header and the events in the content of the file called `name`."""
    first, _, body = content.partition(b"\n")
    manifest = _read_manifest(first, name)
    if len(body) < manifest.bytes:
        raise ExportFileError(
            f"{name} is truncated: {len(body):,} of {manifest.bytes:,} bytes are there", AGAIN
        )
    if len(body) > manifest.bytes or hashlib.sha256(body).hexdigest() != manifest.sha256:
        raise ExportFileError(
            f"{name} was changed after it was written: its checksum does not fit", AGAIN
        )
    raw, *lines = body.split(b"\n")[:-1] or [b""]
    try:
        header = msgspec.json.decode(raw, type=Header)
        events = [msgspec.json.decode(line, type=LoggedEvent) for line in lines]
    except DECODE_ERRORS as problem:
        raise ExportFileError(
            f"{name} holds what is no run: {problem}",
            "use a version of p3-advisor that is not older",
        ) from problem
    if header.schema != HEADER_SCHEMA:
        what = f"{name} holds a run of the schema {header.schema!r}, this program reads {HEADER_SCHEMA}"
        raise ExportFileError(what, "use the version of p3-advisor that wrote it, or a newer one")
    if header.run_id != manifest.run_id or not RUN_ID.fullmatch(header.run_id):
        raise ExportFileError(
            f"{name} holds a run with the impossible id {header.run_id[:40]!r}",
            "ask the sender what it is",
        )
    _check_order(events, name)
    return header, events


def _read_manifest(line: bytes, name: str) -> Manifest:
    try:
        schema = msgspec.json.decode(line, type=dict[str, msgspec.Raw]).get("schema", b"null")
        if msgspec.json.decode(schema) != SCHEMA:
            what = f"{name} has the schema {bytes(schema)[:60].decode('utf-8', 'replace')}, this program reads {SCHEMA}"
            raise ExportFileError(
                what, "use a version of p3-advisor that is not older than the one that wrote it"
            )
        return msgspec.json.decode(line, type=Manifest)
    except DECODE_ERRORS as problem:
        raise ExportFileError(
            f"{name} is no exported run: {problem}", "use a file that p3-advisor export-run wrote"
        ) from problem


def _check_order(events: Iterable[LoggedEvent], name: str) -> None:
    """Refuse events that could not have happened in this order."""
    events = list(events)
    planned = [isinstance(event.run_event, Planned) for event in events]
    if (
        [event.seq for event in events] != list(range(1, len(events) + 1))
        or planned[:1] != [True]
        or any(planned[1:])
    ):
        raise ExportFileError(
            f"the events in {name} are not those of one run, from its plan on", AGAIN
        )
    try:
        fold(events)
    except (LookupError, ValueError) as problem:
        raise ExportFileError(
            f"the events in {name} do not fit together: {problem}", AGAIN
        ) from problem


def put(store: Store, header: Header, events: Iterable[LoggedEvent]) -> Run:
    """Store an imported run, whole or not at all; raise `ExportFileError` if there is one of its id."""
    directory = store.run_directory(header.run_id)
    if directory.exists():
        raise ExportFileError(
            f"there is a run {header.run_id} already",
            f"see p3-advisor show {header.run_id}, or delete it first",
        )
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        beside = pathlib.Path(tempfile.mkdtemp(prefix=".import-", dir=directory.parent))
    except OSError as problem:
        raise NotWritableError(
            f"{directory.parent} cannot be written: {problem.strerror}",
            f"make it writable, or set {HOME_VARIABLE}",
        ) from problem
    try:
        (beside / "run.json").write_bytes(
            msgspec.json.encode(msgspec.structs.replace(header, imported=True))
        )
        (beside / "events.jsonl").write_bytes(
            b"".join(msgspec.json.encode(event) + b"\n" for event in events)
        )
        beside.chmod(directory.parent.stat().st_mode & 0o777)
        beside.rename(directory)
    except OSError as problem:
        shutil.rmtree(beside, ignore_errors=True)
        raise NotWritableError(
            f"{directory} cannot be written: {problem.strerror}", "make room"
        ) from problem
    return Run(directory)
