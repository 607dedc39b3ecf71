"""After how many requests a build has paid for itself."""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds until the first request can be served, and seconds of each request."""

    build_seconds: float
    request_seconds: float

    def total(self, requests: float) -> float:
        """Return the seconds until `requests` have been served."""
        return self.build_seconds + requests * self.request_seconds


def break_even(candidate: Cost, incumbent: Cost) -> float:
    """Return the requests after which the candidate has paid for its build.

    Infinite if it never does, 0 if it does at once.
    """
    if (
        candidate.build_seconds <= incumbent.build_seconds
        and candidate.request_seconds <= incumbent.request_seconds
    ):
        return 0.0
    if candidate.request_seconds >= incumbent.request_seconds:
        return math.inf
    return (candidate.build_seconds - incumbent.build_seconds) / (
        incumbent.request_seconds - candidate.request_seconds
    )


def most_build_seconds(incumbent: Cost, fastest_request_seconds: float, requests: float) -> float:
    """Return the seconds beyond which a build cannot pay for itself within `requests`.

    Each request takes at least `fastest_request_seconds`.
    """
    return incumbent.total(requests) - requests * fastest_request_seconds
