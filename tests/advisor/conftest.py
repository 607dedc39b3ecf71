from __future__ import annotations

import os

import hypothesis
import pytest
from golden_files import Expect, compare

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile(
    "untimed",
    deadline=None,
    max_examples=100,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
# Mutants are many: each has to be met by fewer examples, the same ones every time.
hypothesis.settings.register_profile(
    "mutation", parent=hypothesis.settings.get_profile("untimed"), max_examples=30, derandomize=True
)
hypothesis.settings.load_profile(os.environ.get("P3_ADVISOR_HYPOTHESIS_PROFILE", "untimed"))


@pytest.fixture
def expect(request: pytest.FixtureRequest) -> Expect:
    """Return a function that compares a value with a golden file next to the test."""
    update = bool(request.config.getoption("--update-goldens"))
    goldens = request.path.parent / "goldens"
    return lambda name, value: compare(goldens / f"{name}.json", value, update=update)
