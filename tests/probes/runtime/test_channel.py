"""Tokens in, events and one response out, and a bell that never holds the worker up."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import pathlib
import termios
import threading
from collections.abc import Iterator
from typing import BinaryIO

import pytest
import workers

from probes import protocol
from probes.runtime.channel import Channel


@pytest.fixture
def lifeline() -> Iterator[BinaryIO]:
    """The end of the worker's standard input that the advisor holds."""
    read, write = os.pipe()
    kept = os.dup(0)
    os.dup2(read, 0)
    os.close(read)
    try:
        with os.fdopen(write, "wb", buffering=0) as advisors_end:
            yield advisors_end
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.fixture
def bell() -> Iterator[tuple[int, int]]:
    """The doorbell: where it is heard, where it is rung."""
    heard, rung = os.pipe()
    os.set_blocking(heard, False)
    with os.fdopen(heard, "rb"), os.fdopen(rung, "wb"):
        yield heard, rung


@pytest.fixture
def channel(tmp_path: pathlib.Path, bell: tuple[int, int]) -> Iterator[Channel]:
    with workers.open_channel(tmp_path, bell[1]) as channel:
        yield channel


def waiting_bytes(descriptor: int) -> int:
    """Return how many bytes nobody has read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]


def test_a_token_is_its_words(channel: Channel, lifeline: BinaryIO) -> None:
    lifeline.write(b"visit 16 3\n")
    assert channel.token() == ["visit", "16", "3"]


def test_tokens_that_come_in_one_piece_are_taken_one_by_one(
    channel: Channel, lifeline: BinaryIO
) -> None:
    lifeline.write(b"build\nvisit 1 1\nstop\n")
    assert [channel.token() for _ in range(3)] == [["build"], ["visit", "1", "1"], ["stop"]]


def test_half_a_token_is_waited_for(channel: Channel, lifeline: BinaryIO) -> None:
    tokens: list[list[str]] = []
    reader = threading.Thread(target=lambda: tokens.append(channel.token()))
    reader.start()
    for piece in (b"vi", b"sit 1", b"6 3\nst"):
        assert tokens == []
        lifeline.write(piece)
        workers.wait_until(lambda: waiting_bytes(0) == 0)
    reader.join()
    assert tokens == [["visit", "16", "3"]]
    lifeline.write(b"op\n")
    assert channel.token() == ["stop"]


@pytest.mark.parametrize("rest", [b"", b"visit 16"])
def test_the_end_of_the_lifeline_means_stop(
    channel: Channel, lifeline: BinaryIO, rest: bytes
) -> None:
    lifeline.write(rest)
    lifeline.close()
    assert channel.token() == ["stop"]


def test_each_event_is_a_line_that_is_there_before_the_bell_rings(
    channel: Channel, tmp_path: pathlib.Path, bell: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines_at_ring: list[int] = []
    write = os.write

    def listen(descriptor: int, data: bytes) -> int:
        if descriptor == bell[1]:
            lines_at_ring.append((tmp_path / protocol.EVENTS).read_bytes().count(b"\n"))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", listen)
    channel.tell(protocol.Ready())
    channel.enter("build", 16)
    assert lines_at_ring == [1, 2]
    assert os.read(bell[0], 100) == b".."
    written = [json.loads(line) for line in (tmp_path / protocol.EVENTS).read_text().splitlines()]
    assert written == [{"event": "ready"}, {"event": "phase", "phase": "build", "batch_size": 16}]


def test_the_phase_is_remembered_for_the_answer(channel: Channel) -> None:
    assert channel.phase == "start"
    channel.enter("load")
    assert channel.phase == "load"


def test_a_bell_that_nobody_hears_blocks_nothing(
    channel: Channel, tmp_path: pathlib.Path, bell: tuple[int, int]
) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(bell[1], bytes(4096))
    channel.tell(protocol.Ready())
    channel.respond(protocol.Completed())
    assert (tmp_path / protocol.EVENTS).read_text() == '{"event": "ready"}\n'
    assert (tmp_path / protocol.RESPONSE).exists()


def test_an_advisor_that_is_gone_raises_nothing(tmp_path: pathlib.Path) -> None:
    heard, rung = os.pipe()
    os.close(heard)
    with os.fdopen(rung, "wb"), workers.open_channel(tmp_path, rung) as channel:
        channel.tell(protocol.Ready())
        channel.respond(protocol.Completed())
    assert (tmp_path / protocol.RESPONSE).exists()


def test_a_response_appears_whole(channel: Channel, tmp_path: pathlib.Path) -> None:
    response = tmp_path / protocol.RESPONSE
    response.write_text("an older one")
    with response.open() as being_read:
        channel.respond(protocol.Failed("unsupported", "build", "no such operator", "use another"))
        assert being_read.read() == "an older one"
    expected = {
        "status": "unsupported",
        "phase": "build",
        "reason": "no such operator",
        "fix": "use another",
    }
    assert json.loads(response.read_text()) == expected
    assert sorted(file.name for file in tmp_path.iterdir()) == [protocol.EVENTS, protocol.RESPONSE]


def test_the_bell_rings_for_the_response(channel: Channel, bell: tuple[int, int]) -> None:
    channel.respond(protocol.Completed())
    assert os.read(bell[0], 100) == b"."
