"""Numbers and names that a worker may report: one outside these bounds is a damaged message.

A worker runs foreign code, and a stored run may come from anybody. Without bounds, a zero or an
absurd figure would end in an arithmetic error far from its origin.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

#: A time, size, rate or share; never negative.
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e30)]
#: Seconds of something that was timed: from a picosecond to thirty years.
Duration = Annotated[float, msgspec.Meta(ge=1e-12, le=1e9)]
#: Something per second that was timed.
Rate = Annotated[float, msgspec.Meta(ge=1e-12, le=1e30)]
#: A number of things or bytes.
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
#: A batch size, or a number of units in a sample.
Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]
#: A top-level module of Python. It becomes part of a command.
ModuleName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]
