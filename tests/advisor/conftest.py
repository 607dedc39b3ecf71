from __future__ import annotations

import hypothesis

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("untimed", deadline=None, max_examples=200, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")
