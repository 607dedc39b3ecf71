"""Decoders of stored values, built when they are imported.

If two threads decode a type for the first time at once, msgspec (0.22) crashes the process while it
resolves the fields. The terminal program reads runs in several threads.
"""

from __future__ import annotations

import threading

import msgspec

from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent

HEADERS = msgspec.json.Decoder(Header)
EVENTS = msgspec.json.Decoder(LoggedEvent)
#: Held while a value of another type is decoded.
DECODING = threading.Lock()
