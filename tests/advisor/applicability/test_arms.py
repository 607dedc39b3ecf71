"""The arms of a workflow."""

from __future__ import annotations

import builders

from advisor.applicability.planning import list_arms


def test_an_arm_has_the_extras_of_its_environment_on_the_device() -> None:
    known = builders.shipped_catalogue()
    extras = {
        device: {
            workflow.id: arm.extras
            for workflow in known.for_question(builders.question(device=device)).workflows
            for arm in list_arms(workflow, device)
        }
        for device in ("cpu", "cuda")
    }
    assert [extras[device]["openxla-jax"] for device in ("cpu", "cuda")] == [
        {},
        {"jax": ("cuda13",)},
    ]
    assert extras["cpu"]["max"] == {"max": ("serve",)}
