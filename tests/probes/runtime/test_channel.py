"""Tokens in, events and one response out, and notifications that never block the worker."""

from __future__ import annotations

import array
import contextlib
import dataclasses
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

from probes import events, protocol
from probes.outcome import Failure, Outcome
from probes.runtime.channel import Channel
from probes.shape import Shape


@pytest.fixture
def stdin() -> Iterator[BinaryIO]:
    """The advisor's end of the worker's standard input."""
    read, write = os.pipe()
    kept = os.dup(0)
    os.dup2(read, 0)
    os.close(read)
    try:
        with os.fdopen(write, "wb", buffering=0) as advisor_end:
            yield advisor_end
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.fixture
def notifications() -> Iterator[tuple[int, int]]:
    """The pipe of the notifications: the end to read, the end to write."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    with os.fdopen(read_end, "rb"), os.fdopen(write_end, "wb"):
        yield read_end, write_end


@pytest.fixture
def channel(tmp_path: pathlib.Path, notifications: tuple[int, int]) -> Iterator[Channel]:
    with workers.open_channel(tmp_path, notifications[1]) as channel:
        yield channel


def waiting_bytes(descriptor: int) -> int:
    """Return the number of unread bytes."""
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]


def test_a_partial_token_is_not_returned(channel: Channel, stdin: BinaryIO) -> None:
    tokens: list[list[str]] = []
    reader = threading.Thread(target=lambda: tokens.append(channel.read_token()))
    reader.start()
    for piece in (b"vi", b"sit 1", b"6 3\nst"):
        assert tokens == []
        stdin.write(piece)
        workers.wait_until(lambda: waiting_bytes(0) == 0)
    reader.join()
    assert tokens == [["visit", "16", "3"]]
    stdin.write(b"op\n")
    assert channel.read_token() == ["stop"]


@pytest.mark.parametrize("rest", [b"", b"visit 16"])
def test_the_end_of_standard_input_means_stop(
    channel: Channel, stdin: BinaryIO, rest: bytes
) -> None:
    stdin.write(rest)
    stdin.close()
    assert channel.read_token() == ["stop"]


def test_each_event_is_written_before_its_notification(
    channel: Channel,
    tmp_path: pathlib.Path,
    notifications: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines_at_notification: list[int] = []
    write = os.write

    def count_lines(descriptor: int, data: bytes) -> int:
        if descriptor == notifications[1]:
            lines_at_notification.append((tmp_path / protocol.EVENTS).read_bytes().count(b"\n"))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", count_lines)
    channel.send(events.Ready())
    channel.start_phase("build", Shape(16))
    assert lines_at_notification == [1, 2]
    assert os.read(notifications[0], 100) == b".."
    written = [json.loads(line) for line in (tmp_path / protocol.EVENTS).read_text().splitlines()]
    assert written == [
        {"event": "ready"},
        {"event": "phase_started", "phase": "build", "shape": dataclasses.asdict(Shape(16))},
    ]


def test_a_full_pipe_of_notifications_does_not_block(
    channel: Channel, tmp_path: pathlib.Path, notifications: tuple[int, int]
) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(notifications[1], bytes(4096))
    channel.send(events.Ready())
    channel.respond(Outcome())
    assert (tmp_path / protocol.EVENTS).read_text() == '{"event": "ready"}\n'
    assert (tmp_path / protocol.RESPONSE).exists()


def test_a_missing_advisor_is_no_error(tmp_path: pathlib.Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb"), workers.open_channel(tmp_path, write_end) as channel:
        channel.send(events.Ready())
        channel.respond(Outcome())
    assert (tmp_path / protocol.RESPONSE).exists()


def test_a_response_is_written_atomically(channel: Channel, tmp_path: pathlib.Path) -> None:
    response = tmp_path / protocol.RESPONSE
    response.write_text("an older one")
    with response.open() as open_file:
        channel.respond(Outcome(Failure("unsupported", "build", "no such operator")))
        assert open_file.read() == "an older one"
    failure = json.loads(response.read_text())["failure"]
    assert (failure["status"], failure["reason"]) == ("unsupported", "no such operator")
    assert sorted(file.name for file in tmp_path.iterdir()) == [protocol.EVENTS, protocol.RESPONSE]
