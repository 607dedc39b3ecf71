"""Tests of what follows from the user's question."""

from __future__ import annotations

import builders

from advisor.domain.question import LoadQuestion, RequestLengths


def test_a_composed_server_is_built_for_the_longest_requests_and_for_the_checked_ones() -> None:
    lengths = tuple(
        RequestLengths(input_tokens=one, output_tokens=other) for one, other in ((100, 8), (50, 40))
    )
    load = LoadQuestion(name="mine", lengths=lengths, ttft_seconds=0.5, itl_seconds=0.05)
    asked = builders.question(task="serve", load=load, input_tokens=32, output_tokens=64)
    longest = asked.with_longest_requests()
    assert (longest.task, longest.load) == ("generate", None)
    assert (longest.input_tokens, longest.output_tokens) == (100, 64)
    assert load.most_tokens == 108


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
