"""A value with its interval."""

from __future__ import annotations

import msgspec


class Interval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value with its 95 % interval; a bound is null where the data do not bound the value."""

    value: float
    low: float | None
    high: float | None
    #: Standard error of the value's logarithm that lies between processes, where the bounds of one
    #: process were widened by it. Absent where they were not.
    process_error: float | None = None
