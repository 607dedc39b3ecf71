"""The keyword of the cache in calls of transformers, which was renamed in 5.24."""

from __future__ import annotations

import importlib.metadata
import inspect
from typing import Any

from probes.adapter import UnsupportedError

CACHE = "cache"
#: The keyword before the release `RENAMED_IN`.
EARLIER = "past_key_values"
RENAMED_IN = (5, 24)


def cache_keyword(model: Any) -> str:
    """Return the keyword with which the model's `forward` takes a cache.

    It depends on the model as well as on the release of transformers: models with code of their own
    may keep the earlier one. Raise `UnsupportedError` for a model that takes no cache.
    """
    parameters = inspect.signature(model.forward).parameters
    for keyword in (CACHE, EARLIER):
        if keyword in parameters:
            return keyword
    message = f"{type(model).__name__} has no key-value cache"
    raise UnsupportedError(message)


def installed_keyword() -> str:
    """Return the keyword of the installed transformers; the present one where it is missing."""
    try:
        version = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        return CACHE
    major, minor = version.split(".")[:2]
    return CACHE if (int(major), int(minor)) >= RENAMED_IN else EARLIER


def cache_of(output: Any) -> Any:
    """Return the cache in the output of a model; None without one."""
    return getattr(output, CACHE, None) or getattr(output, EARLIER, None)
