"""Tests of what follows from the user's question."""

from __future__ import annotations

import builders


def test_a_model_that_is_split_is_measured_on_all_its_gpus() -> None:
    device = builders.gpu()
    header = builders.header(
        machine=builders.gpu_machine(device),
        question=builders.question(
            device="cuda", gpu=device.uuid, further_gpus=("GPU-2",), price_per_hour=2.0
        ),
    )
    assert header.device == f"2x {device.name}"
    assert header.question.price_of_all_devices == 4.0
    assert builders.question().price_of_all_devices is None
    assert builders.question().gpus == ()
