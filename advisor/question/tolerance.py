"""`--accuracy`: how far the outputs of a ranked arm may be from the reference."""

from __future__ import annotations

from advisor.errors import SizeError

EXACT = "exact"


def parse_tolerance(text: str) -> float | None:
    """Return the largest relative error: 0 for `exact`, None for an empty text.

    `text` is a number or a percentage; raise `SizeError` for anything else.
    """
    written = text.strip().lower()
    if not written:
        return None
    if written == EXACT:
        return 0.0
    try:
        tolerance = float(written.removesuffix("%")) * (0.01 if written.endswith("%") else 1.0)
    except ValueError:
        tolerance = -1.0
    if not 0 <= tolerance <= 1:
        raise SizeError(
            f"--accuracy {text!r} is not a relative error", "use exact, or a number like 1e-3 or 1%"
        )
    return tolerance
