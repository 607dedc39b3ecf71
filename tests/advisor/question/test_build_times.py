"""`--max-build-times`: limits by workflow, and texts that are refused."""

from __future__ import annotations

import builders
import pytest

from advisor.errors import SizeError, UnknownWorkflowError, UserError
from advisor.question.option_values import parse_build_times

KNOWN = builders.shipped_catalogue()


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", {}),
        ("tensorrt=1h", {"tensorrt": 3600.0}),
        (" tensorrt = 90s , iree=5min,", {"tensorrt": 90.0, "iree": 300.0}),
    ],
)
def test_limits_are_seconds_by_workflow(text: str, limits: dict[str, float]) -> None:
    assert parse_build_times(text, KNOWN) == limits


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nonsense=5min", UnknownWorkflowError),
        ("tensorrt", SizeError),
        ("tensorrt=", SizeError),
        ("tensorrt=soon", SizeError),
        ("tensorrt=0s", SizeError),
        ("tensorrt=-5min", SizeError),
        ("tensorrt=1h,tensorrt=2h", SizeError),
    ],
)
def test_other_texts_are_refused(text: str, error: type[UserError]) -> None:
    with pytest.raises(error):
        parse_build_times(text, KNOWN)
