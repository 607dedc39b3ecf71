"""Answers of runs in a few fields, stored so that a list need not decide on each run again."""

from __future__ import annotations

import contextlib

import msgspec

from advisor.domain.answer import AnswerSummary
from advisor.store.decoders import DECODE_ERRORS, DECODING
from advisor.store.runs import Run
from advisor.system.atomic_write import write_atomically
from advisor.version import __version__

FILE_NAME = "answer.json"


class _StoredSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary, with the version and the size of the events that it was decided from."""

    version: str
    events_bytes: int
    summary: AnswerSummary


def load_summary(run: Run) -> AnswerSummary | None:
    """Return the stored summary; None if there is none of these events and this version."""
    try:
        content = (run.directory / FILE_NAME).read_bytes()
        with DECODING:
            stored = msgspec.json.decode(content, type=_StoredSummary)
    except (OSError, *DECODE_ERRORS):
        return None
    is_current = (stored.version, stored.events_bytes) == (__version__, run.events_bytes())
    return stored.summary if is_current else None


def save_summary(run: Run, summary: AnswerSummary, events_bytes: int) -> None:
    """Store a summary that was decided from so many bytes of events, if the run can be written."""
    stored = _StoredSummary(version=__version__, events_bytes=events_bytes, summary=summary)
    with contextlib.suppress(OSError):
        write_atomically(run.directory / FILE_NAME, msgspec.json.encode(stored))
