"""Where figures come from that were measured for another question or on another machine."""

from __future__ import annotations

import msgspec


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of figures that were not measured for this question on this machine."""

    run: str
    created: str
    age_days: int
    device: str
    #: Of the machine that it was measured on.
    cpu: str
    kernel: str
    driver: str | None
    versions: dict[str, str]
    summary: str
