"""The cache has another keyword from transformers 5.24 on, and some models take none."""

from __future__ import annotations

import importlib.metadata
import types
from typing import Any

import pytest

from probes.adapter import UnsupportedError
from probes.subjects import cache_keyword


def test_a_model_is_called_with_its_own_keyword() -> None:
    present = types.SimpleNamespace(forward=lambda input_ids, cache=None: (input_ids, cache))
    earlier = types.SimpleNamespace(
        forward=lambda input_ids, past_key_values=None: (input_ids, past_key_values)
    )
    assert cache_keyword.cache_keyword(present) == "cache"
    assert cache_keyword.cache_keyword(earlier) == "past_key_values"


def test_a_model_that_takes_no_cache_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        cache_keyword.cache_keyword(types.SimpleNamespace(forward=lambda input_ids: input_ids))


@pytest.mark.parametrize(
    ("version", "keyword"),
    [
        ("5.0.0", "past_key_values"),
        ("5.23.1", "past_key_values"),
        ("5.24.0", "cache"),
        ("5.24.0.dev0", "cache"),
        ("6.0.0", "cache"),
        (None, "cache"),
    ],
)
def test_the_lines_that_are_handed_out_fit_the_installed_release(
    version: str | None, keyword: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_version(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", find_version)
    assert cache_keyword.installed_keyword() == keyword


@pytest.mark.parametrize(
    ("output", "found"),
    [({"cache": 1}, 1), ({"past_key_values": 2}, 2), ({"cache": None, "logits": 3}, None)],
)
def test_the_cache_of_an_output_is_found_by_either_name(output: dict[str, Any], found: Any) -> None:
    assert cache_keyword.cache_of(types.SimpleNamespace(**output)) == found
