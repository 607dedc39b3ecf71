"""Both sides of the protocol agree: the advisor reads everything that a worker writes."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
import workers
from msgspec import inspect

from advisor.catalogue import rubric_files
from advisor.domain import outcome, worker_events
from probes import check_events, events, protocol
from probes.runtime.channel import Channel

#: Events that only runs of earlier versions have.
STORED_ONLY = {"latency", "recipe"}
#: Outcomes that only the advisor can observe.
OBSERVED_OUTCOMES = {"timed-out", "crashed", "skipped"}


SIMPLE = {
    inspect.StrType: "some words",
    inspect.BoolType: True,
    inspect.IntType: 3,
    inspect.FloatType: 0.25,
    inspect.AnyType: {"nested": [1, "two", None]},
}


def tag_of(kind: Any) -> str:
    return str(kind.__struct_config__.tag)


READ_EVENTS = {tag_of(kind): kind for kind in get_args(worker_events.WorkerEvent)}
READ_OUTCOMES = {tag_of(kind): kind for kind in get_args(outcome.Outcome)}


def written_kinds(tag_field: str) -> list[Any]:
    """Return the dataclasses of the protocol that have this field."""
    modules = (protocol, events, check_events)
    defined = [each for module in modules for each in vars(module).values()]
    kinds = [each for each in defined if dataclasses.is_dataclass(each)]
    return [kind for kind in kinds if tag_field in field_names(kind)]


def field_names(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def statuses_in_use() -> set[str]:
    """Return the first argument of each `protocol.Failed(...)` in the runtime."""
    files = (rubric_files.probes_directory() / "runtime").glob("*.py")
    calls = [
        node
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "protocol.Failed"
    ]
    return {ast.literal_eval(call.args[0]) for call in calls}


@pytest.fixture
def channel(tmp_path: pathlib.Path) -> Iterator[Channel]:
    """The worker's channel, with notifications that are not read."""
    read, write = os.pipe()
    with (
        os.fdopen(read, "rb"),
        os.fdopen(write, "wb"),
        workers.open_channel(tmp_path, write) as channel,
    ):
        yield channel


def example(kind: inspect.Type, *, bare: bool) -> Any:
    """Return a JSON value of this type; a `bare` one has None wherever that is allowed."""
    match kind:
        case inspect.UnionType(types):
            has_none = any(isinstance(each, inspect.NoneType) for each in types)
            return (
                None
                if bare and has_none
                else example(
                    next(each for each in types if not isinstance(each, inspect.NoneType)),
                    bare=bare,
                )
            )
        case inspect.LiteralType(values):
            return values[0]
        case inspect.DictType(key_type=key, value_type=value):
            return {} if bare else {example(key, bare=bare): example(value, bare=bare)}
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return [example(item, bare=bare)] * (1 if bare else 2)
        case inspect.StructType(fields=fields):
            return {field.encode_name: example(field.type, bare=bare) for field in fields}
        case _:
            return SIMPLE[type(kind)]


def assert_nothing_is_lost(written: Any, read: Any) -> None:
    fields = json.loads(json.dumps(dataclasses.asdict(written)))  # keys of objects are text
    assert msgspec.json.decode(msgspec.json.encode(read)) == fields


@pytest.mark.parametrize("bare", [False, True], ids=["full", "bare"])
@pytest.mark.parametrize("kind", written_kinds("event"), ids=lambda kind: kind.event)
def test_an_event_is_read_as_it_was_written(
    kind: Any, channel: Channel, tmp_path: pathlib.Path, *, bare: bool
) -> None:
    event = kind(**example(inspect.type_info(READ_EVENTS[kind.event]), bare=bare))
    channel.send(event)
    assert_nothing_is_lost(
        event,
        msgspec.json.decode(
            (tmp_path / protocol.EVENTS).read_bytes(), type=worker_events.WorkerEvent
        ),
    )


@pytest.mark.parametrize("bare", [False, True], ids=["full", "bare"])
@pytest.mark.parametrize("status", sorted(statuses_in_use()))
def test_a_failure_is_read_as_it_was_written(
    status: str, channel: Channel, tmp_path: pathlib.Path, *, bare: bool
) -> None:
    failed = protocol.Failed(
        status=status, **example(inspect.type_info(READ_OUTCOMES[status]), bare=bare)
    )
    channel.respond(failed)
    assert_nothing_is_lost(
        failed,
        msgspec.json.decode((tmp_path / protocol.RESPONSE).read_bytes(), type=outcome.Outcome),
    )


@pytest.mark.parametrize("bare", [False, True], ids=["full", "bare"])
def test_a_refused_model_is_read_as_it_was_written(
    channel: Channel, tmp_path: pathlib.Path, *, bare: bool
) -> None:
    fields = example(inspect.type_info(outcome.ModelRefused), bare=bare)
    if not bare:
        fields["missing_module"] = "timm"
    refused = protocol.ModelRefused(**fields)
    channel.respond(refused)
    assert_nothing_is_lost(
        refused,
        msgspec.json.decode((tmp_path / protocol.RESPONSE).read_bytes(), type=outcome.Outcome),
    )


def test_completion_is_read_as_it_was_written(channel: Channel, tmp_path: pathlib.Path) -> None:
    channel.respond(protocol.Completed())
    assert (
        msgspec.json.decode((tmp_path / protocol.RESPONSE).read_bytes(), type=outcome.Outcome)
        == outcome.Completed()
    )


@pytest.mark.parametrize(
    "text",
    ['\N{SNOWMAN} \x00 \x1b[2J \u2028 \\ "', "not UTF-8: \udcff"],
    ids=["odd", "undecodable"],
)
def test_any_text_of_a_stack_can_be_read(
    text: str, channel: Channel, tmp_path: pathlib.Path
) -> None:
    channel.send(events.Engagement(1.0, text, {}))
    channel.respond(protocol.Failed("build-failed", "build", text))
    (line,) = (tmp_path / protocol.EVENTS).read_bytes().splitlines()
    expected = text.replace("\udcff", "?")
    assert msgspec.json.decode(line, type=worker_events.Engagement).proof == expected
    assert (
        msgspec.json.decode(
            (tmp_path / protocol.RESPONSE).read_bytes(), type=outcome.BuildFailed
        ).reason
        == expected
    )


def test_events_have_the_same_fields_on_both_sides() -> None:
    written = {kind.event: field_names(kind) - {"event"} for kind in written_kinds("event")}
    read = {tag: set(kind.__struct_encode_fields__) for tag, kind in READ_EVENTS.items()}
    assert written == {tag: names for tag, names in read.items() if tag not in STORED_ONLY}


def test_outcomes_have_the_same_fields_on_both_sides() -> None:
    failed = field_names(protocol.Failed) - {"status"}
    written = {
        "completed": set[str](),
        "model-refused": field_names(protocol.ModelRefused) - {"status"},
        **dict.fromkeys(statuses_in_use(), failed),
    }
    read = {
        tag: set(kind.__struct_encode_fields__)
        for tag, kind in READ_OUTCOMES.items()
        if tag not in OBSERVED_OUTCOMES
    }
    assert written == read


def test_both_sides_have_the_same_phases() -> None:
    assert get_args(worker_events.Phase) == ("queued", *protocol.PHASES)


def test_a_request_is_read_as_the_advisor_writes_it(tmp_path: pathlib.Path) -> None:
    request = workers.make_request(
        tmp_path / "workflow.py", tmp_path, options={"mode": None, "depth": [1, {"x": 2.5}]}
    )
    (tmp_path / protocol.REQUEST).write_bytes(msgspec.json.encode(request))
    assert protocol.read_request(tmp_path) == request


@pytest.mark.parametrize("version", [protocol.VERSION - 1, protocol.VERSION + 98, "2.0"])
def test_another_version_is_refused_with_both_versions(
    version: object, tmp_path: pathlib.Path
) -> None:
    (tmp_path / protocol.REQUEST).write_text(
        json.dumps({"version": version, "of": "fields nobody knows"})
    )
    with pytest.raises(
        protocol.VersionMismatchError, match=rf"version {protocol.VERSION}\b.* version {version}$"
    ):
        protocol.read_request(tmp_path)


def test_a_request_without_a_version_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / protocol.REQUEST).write_text("{}")
    with pytest.raises(protocol.VersionMismatchError, match="version None"):
        protocol.read_request(tmp_path)
