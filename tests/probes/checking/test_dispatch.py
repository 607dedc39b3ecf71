"""The calls of several workers on the CPU: one worker after the other, unless one is suspended."""

from __future__ import annotations

import pathlib
import threading
import types
from typing import Any

import pytest

from probes.checking import dispatch


@pytest.mark.parametrize(
    ("device", "most_seconds", "waits"),
    [("cpu", 60.0, True), ("cpu", 0.1, False), ("cuda", 60.0, False)],
)
def test_calls_on_the_cpu_wait_for_those_of_another_worker(
    device: str, most_seconds: float, waits: bool, tmp_path: pathlib.Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(dispatch, "MOST_WAITING_SECONDS", most_seconds)
    request: Any = types.SimpleNamespace(device=device, shared_directory=str(tmp_path))
    order = []

    def call() -> None:
        with dispatch.exclusive_calls(request):
            order.append("second")

    other = threading.Thread(target=call)
    with dispatch.exclusive_calls(request):
        other.start()
        other.join(0.3 if waits else None)
        order.append("first")
    other.join()
    assert order == (["first", "second"] if waits else ["second", "first"])
