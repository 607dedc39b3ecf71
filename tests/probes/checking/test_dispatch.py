"""The calls of several workers on the CPU: one worker after the other, unless one is suspended."""

from __future__ import annotations

import os
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


@pytest.mark.timeout(20)
def test_a_lock_that_another_worker_replaced_is_refused(tmp_path: pathlib.Path) -> None:
    request: Any = types.SimpleNamespace(device="cpu", shared_directory=str(tmp_path))
    lock, kept = tmp_path / "calls.lock", tmp_path / "kept"
    kept.write_text("text", encoding="utf-8")
    for is_link in (False, True):
        if is_link:
            lock.symlink_to(kept)
        else:
            os.mkfifo(lock)
        with pytest.raises(OSError, match="lock"), dispatch.exclusive_calls(request):
            pytest.fail("the lock is no plain file")
        lock.unlink()
    assert kept.read_text(encoding="utf-8") == "text"
