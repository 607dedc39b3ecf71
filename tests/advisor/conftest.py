from __future__ import annotations

import os

import hypothesis

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile(
    "untimed",
    deadline=None,
    max_examples=200,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
# Mutants are many: each has to be met by fewer examples, the same ones every time.
hypothesis.settings.register_profile(
    "mutation", parent=hypothesis.settings.get_profile("untimed"), max_examples=30, derandomize=True
)
hypothesis.settings.load_profile(os.environ.get("P3_ADVISOR_HYPOTHESIS_PROFILE", "untimed"))
