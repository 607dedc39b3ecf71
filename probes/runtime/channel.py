"""The worker's side of the control directory: events out, tokens in, one response."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from typing import Any

from probes import protocol


class Channel:
    """Write events and the response, read tokens; every event rings the doorbell once."""

    def __init__(self, directory: pathlib.Path, doorbell: int) -> None:
        self.phase = "start"
        self._directory = directory
        self._doorbell = doorbell
        self._events = (directory / protocol.EVENTS).open("a", encoding="utf-8", errors="replace")
        self._unread = b""
        os.set_blocking(doorbell, False)

    def tell(self, event: Any) -> None:
        """Append one event and ring."""
        self._events.write(encode(event) + "\n")
        self._events.flush()
        self._ring()

    def enter(self, phase: str, batch_size: int | None = None) -> None:
        """Say which phase begins; deadlines count from here."""
        self.phase = phase
        self.tell(protocol.Phase(phase, batch_size))

    def respond(self, outcome: Any) -> None:
        """Write the one response, whole or not at all."""
        beside = self._directory / (protocol.RESPONSE + ".part")
        beside.write_text(encode(outcome), encoding="utf-8", errors="replace")
        beside.rename(self._directory / protocol.RESPONSE)
        self._ring()

    def token(self) -> list[str]:
        """Sleep until the next token and return its words; `stop` when the lifeline ends."""
        while b"\n" not in self._unread:
            received = os.read(0, 4096)
            if not received:
                return ["stop"]
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("ascii").split()

    def _ring(self) -> None:
        try:
            os.write(self._doorbell, b".")
        except (BlockingIOError, BrokenPipeError):
            # A full pipe means that the advisor will wake anyway; a broken one that it is gone,
            # which the guard deals with.
            return


def encode(message: Any) -> str:
    """Return `message` as JSON; not in ASCII, because an escaped half of a surrogate pair could not be read on the other side."""
    return json.dumps(finite(dataclasses.asdict(message)), ensure_ascii=False)


def finite(value: Any) -> Any:
    """Return `value` with null for every number that JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry) for entry in value]
    return value
