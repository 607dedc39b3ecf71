"""What a worker makes of what a stack raises."""

from __future__ import annotations

import pytest

from probes.runtime.harness import first_line


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("no kernel for this\nand a second line", "no kernel for this"),
        ("\n\n   \x1b[31mred\x1b[0m  \n", "red"),
        (
            "backend='tensorrt' raised:\nValueError: Cannot broadcast (1, 2) to (2, 1)\n\nWhile executing",
            "backend='tensorrt' raised: ValueError: Cannot broadcast (1, 2) to (2, 1)",
        ),
        ("it failed:\nbecause of:\n", "it failed: because of:"),
        ("", "no message"),
    ],
)
def test_the_reason_is_the_first_line_that_does_more_than_announce_one(
    message: str, told: str
) -> None:
    assert first_line(RuntimeError(message)) == f"RuntimeError: {told}"
