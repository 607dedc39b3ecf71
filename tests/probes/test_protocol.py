"""Both sides of the protocol agree: the advisor reads everything that a worker writes."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
import workers
from msgspec import inspect

from advisor.domain.wire import EVENTS_BY_TAG, decode
from probes import commands, protocol
from probes.commands import COMMANDS, Command
from probes.events import Engagement, Event
from probes.outcome import Failure, FailureStatus, Outcome
from probes.runtime.channel import Channel
from probes.shape import Shape

SIMPLE = {
    inspect.StrType: "some words",
    inspect.BoolType: True,
    inspect.IntType: 3,
    inspect.FloatType: 0.25,
    inspect.AnyType: {"nested": [1, "two", None]},
}


@pytest.fixture
def channel(tmp_path: pathlib.Path) -> Iterator[Channel]:
    """The worker's channel, with notifications that are not read."""
    with (
        pathlib.Path(os.devnull).open("wb") as sink,
        workers.open_channel(tmp_path, sink.fileno()) as channel,
    ):
        yield channel


def example(kind: inspect.Type, *, bare: bool) -> Any:
    """Return a value of this type; a `bare` one has None wherever that is allowed."""
    match kind:
        case inspect.UnionType(types):
            present = [each for each in types if not isinstance(each, inspect.NoneType)]
            is_null = bare and len(present) < len(types)
            return None if is_null else example(present[0], bare=bare)
        case inspect.LiteralType(values):
            return values[0]
        case inspect.DictType(key_type=key, value_type=value):
            return {} if bare else {example(key, bare=bare): example(value, bare=bare)}
        case inspect.VarTupleType(item_type=item):
            return (example(item, bare=bare),) * (1 if bare else 2)
        case inspect.DataclassType(cls=cls, fields=fields):
            return cls(**{field.name: example(field.type, bare=bare) for field in fields})
        case _:
            return SIMPLE[type(kind)]


@pytest.mark.parametrize("kind", COMMANDS.values())
def test_a_command_is_documented_and_read_as_it_was_written(kind: type[Command]) -> None:
    undocumented = f"{kind.__name__}("  # as a dataclass describes itself
    assert not (kind.__doc__ or undocumented).startswith(undocumented)
    for bare in (False, True):
        command = example(inspect.type_info(kind), bare=bare)
        assert commands.decode(commands.encode(command)) == command


@pytest.mark.parametrize("bare", [False, True], ids=["full", "bare"])
@pytest.mark.parametrize("tag", EVENTS_BY_TAG)
def test_an_event_is_read_as_it_was_written(
    tag: str, channel: Channel, tmp_path: pathlib.Path, *, bare: bool
) -> None:
    event: Event = example(inspect.type_info(EVENTS_BY_TAG[tag]), bare=bare)
    channel.send(event)
    assert decode((tmp_path / protocol.EVENTS).read_bytes(), Event) == event


@pytest.mark.parametrize("status", get_args(FailureStatus))
def test_a_failure_is_read_as_it_was_written(
    status: FailureStatus, channel: Channel, tmp_path: pathlib.Path
) -> None:
    failure = Failure(status, "build", "some words", "a fix", missing_module="timm")
    for outcome in (Outcome(failure), Outcome()):
        channel.respond(outcome)
        assert decode((tmp_path / protocol.RESPONSE).read_bytes(), Outcome) == outcome


@pytest.mark.parametrize(
    "text",
    ['\N{SNOWMAN} \x00 \x1b[2J \u2028 \\ "', "not UTF-8: \udcff"],
    ids=["odd", "undecodable"],
)
def test_any_text_of_a_stack_can_be_read(
    text: str, channel: Channel, tmp_path: pathlib.Path
) -> None:
    channel.send(Engagement(1.0, text, {}))
    channel.respond(Outcome(Failure("build-failed", "build", text)))
    expected = text.replace("\udcff", "?")
    assert decode((tmp_path / protocol.EVENTS).read_bytes(), Event) == Engagement(1.0, expected, {})
    outcome = decode((tmp_path / protocol.RESPONSE).read_bytes(), Outcome)
    assert outcome.failure == Failure("build-failed", "build", expected)


def test_a_number_that_is_not_finite_is_read_as_unknown(
    channel: Channel, tmp_path: pathlib.Path
) -> None:
    channel.send(Engagement(1.0, "", {"worst": math.nan, "each": (math.inf, 2.0)}))
    event = decode((tmp_path / protocol.EVENTS).read_bytes(), Event)
    assert event == Engagement(1.0, "", {"worst": None, "each": [None, 2.0]})


def test_a_request_is_read_as_the_advisor_writes_it(tmp_path: pathlib.Path) -> None:
    request = workers.make_request(
        tmp_path / "workflow.py", tmp_path, options={"mode": None, "depth": [1, {"x": 2.5}]}
    )
    (tmp_path / protocol.REQUEST).write_bytes(msgspec.json.encode(request))
    assert protocol.read_request(tmp_path) == request


@pytest.mark.parametrize(
    ("shape", "text", "lengths"),
    [
        (Shape(16), "16", ""),
        (Shape(16, 512), "16x512", "512"),
        (Shape(16, 512, 128), "16x512+128", "512+128"),
    ],
)
def test_a_shape_is_written_with_its_lengths(shape: Shape, text: str, lengths: str) -> None:
    assert (str(shape), shape.tokens) == (text, lengths)
    assert lengths in shape.description


def test_shapes_are_ordered_by_length_and_then_by_batch_size() -> None:
    ordered = [Shape(1), Shape(2), Shape(4, 8), Shape(1, 16, 2), Shape(2, 16, 2), Shape(1, 16, 4)]
    assert sorted({*ordered}) == ordered
    assert max(ordered) == ordered[-1]
