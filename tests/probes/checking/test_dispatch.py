"""The calls of several workers on the CPU: one worker after the other."""

from __future__ import annotations

import pathlib
import threading
import types
from typing import Any

import pytest

from probes.checking import dispatch


def request(folder: pathlib.Path, device: str) -> Any:
    return types.SimpleNamespace(device=device, shared_directory=str(folder))


@pytest.mark.parametrize(
    ("device", "is_suspended", "waits"),
    [("cpu", False, True), ("cpu", True, False), ("cuda", False, False)],
)
def test_calls_on_the_cpu_wait_for_those_of_another_worker(
    device: str,
    is_suspended: bool,
    waits: bool,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But not for ever: the other one may be suspended."""
    if is_suspended:
        monkeypatch.setattr(dispatch, "MOST_WAITING_SECONDS", 0.1)
    entered, order = threading.Event(), []

    def call() -> None:
        entered.set()
        with dispatch.exclusive_calls(request(tmp_path, device)):
            order.append("second")

    other = threading.Thread(target=call)
    with dispatch.exclusive_calls(request(tmp_path, device)):
        other.start()
        entered.wait()
        other.join(0.3 if waits else None)
        order.append("first")
    other.join()
    assert order == (["first", "second"] if waits else ["second", "first"])
