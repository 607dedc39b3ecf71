"""The result of one check of the doctor."""

from __future__ import annotations

from typing import Literal

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check, with the step that fixes a problem."""

    name: str
    status: Literal["ok", "warn", "fail"]
    what: str
    fix: str | None = None
