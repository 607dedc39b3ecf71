from __future__ import annotations

import msgspec
import simulated_queue


def test_a_composed_server_is_compiled_for_the_batch_sizes_of_its_device() -> None:
    shipped = simulated_queue.rules_of_serving()
    rules = msgspec.structs.replace(
        shipped, composed_batch_sizes=(1, 2), composed_batch_sizes_on={"cuda": (1, 32)}
    )
    assert rules.composed_sizes("cuda") == (1, 32)
    assert rules.composed_sizes("cpu") == (1, 2)
    assert max(shipped.composed_sizes("cuda")) > max(shipped.composed_sizes("cpu"))
