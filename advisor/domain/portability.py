"""The efficiency of an application on each platform, and its performance portability."""

from __future__ import annotations

import msgspec


class Efficiency(msgspec.Struct, frozen=True, kw_only=True):
    """Efficiency of one application on one platform."""

    #: The application's fastest workflow on the platform.
    workflow: str
    #: Its speed over that of the platform's fastest workflow.
    application_efficiency: float
    #: Its speed over the speed at the platform's measured peak; null if not known.
    architectural_efficiency: float | None


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """A device on which a run measured the model."""

    name: str
    run: str
    #: RFC 3339 with time zone.
    created: str
    #: By measured application.
    efficiencies: dict[str, Efficiency]
    #: Applications that cannot run on the platform; an application in neither was not tried.
    refused: tuple[str, ...] = ()


class ApplicationPortability(msgspec.Struct, frozen=True, kw_only=True):
    """Performance portability of one application over the platforms."""

    application: str
    #: By platform; null if it was not tried, 0 if it cannot run.
    efficiencies: dict[str, float | None]
    #: Harmonic means of the application and architectural efficiencies; null if one is not known.
    performance_portability: float | None
    architectural_portability: float | None
    #: Share of the user's lines that its workflows have in common, as the mean over pairs of
    #: platforms; null if a platform has none.
    code_convergence: float | None


class Portability(msgspec.Struct, frozen=True, kw_only=True):
    """Performance portability over platforms; the first is this run's."""

    platforms: tuple[Platform, ...]
    applications: tuple[ApplicationPortability, ...]
