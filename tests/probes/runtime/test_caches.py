"""The bytes in an arm's caches, and the hits that Inductor counts."""

from __future__ import annotations

import collections
import pathlib
import sys
import types

import pytest

from probes.runtime import harness


def test_the_bytes_of_all_files_are_counted(tmp_path: pathlib.Path) -> None:
    (tmp_path / "inductor" / "ab").mkdir(parents=True)
    (tmp_path / "inductor" / "ab" / "kernel.cpp").write_bytes(b"x" * 700)
    (tmp_path / "model.pt2").write_bytes(b"x" * 50)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert harness.count_bytes(tmp_path) - (tmp_path / "gone").lstat().st_size == 750


def test_a_missing_folder_has_no_bytes(tmp_path: pathlib.Path) -> None:
    assert harness.count_bytes(tmp_path / "absent") == 0


def test_hits_are_counted_if_inductor_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert harness.count_hits() is None
    counters: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    monkeypatch.setitem(
        sys.modules, "torch._dynamo.utils", types.SimpleNamespace(counters=counters)
    )
    assert harness.count_hits() == 0
    counters["inductor"].update(fxgraph_cache_hit=2, fxgraph_cache_miss=5)
    counters["aot_autograd"].update(autograd_cache_hit=1)
    assert harness.count_hits() == 3
