"""Several runs of the same question on several devices: efficiency, performance portability, code convergence. Pure.

Application efficiency is the time of the fastest workflow on a platform over the workflow's own; performance portability its harmonic mean
over all platforms, 0 where one is not reached (Pennycook, Sewall, Lee 2016). Code convergence is 1 less the mean distance between the code
for two platforms, as shares of lines that differ (Harrell et al. 2018); the code is the recipe.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.outcome import Recipe
from advisor.errors import NotComparableError
from advisor.report.document import RunDocument, WorkflowEntry
from advisor.report.table import device_name


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as the evidence for one device; recipes by arm."""

    document: RunDocument
    recipes: dict[str, Recipe]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One workflow over all platforms; an efficiency of 0 means that it does not run there."""

    workflow: str
    efficiencies: dict[str, float]
    portability: float
    #: Null where it has code for fewer than two platforms.
    convergence: float | None


def compare(platforms: Sequence[Platform]) -> tuple[Standing, ...]:
    """Return every workflow's standing, most portable first; raise `NotComparableError` unless all runs asked for the same."""
    first = platforms[0].document.question
    for platform in platforms[1:]:
        asked = platform.document.question
        if (asked.model, asked.dtype, asked.batch_sizes) != (first.model, first.dtype, first.batch_sizes):
            what = f"runs {platforms[0].document.run_id} and {platform.document.run_id} differ in model, precision or batch sizes"
            raise NotComparableError(what, "put runs of the same question on several devices together")
    names = [device_name(platform.document) for platform in platforms]
    if len(set(names)) < len(names):
        raise NotComparableError("two of the runs were made on the same device", "give one run for each device")
    by_name = dict(zip(names, platforms, strict=True))
    workflows = sorted({entry.id for platform in platforms for entry in _measured(platform)})
    standings = [_stand(workflow, by_name) for workflow in workflows]
    return tuple(sorted(standings, key=lambda standing: (-standing.portability, standing.workflow)))


def _measured(platform: Platform) -> list[WorkflowEntry]:
    return [entry for entry in platform.document.workflows if entry.rank is not None and entry.cells]


def _stand(workflow: str, platforms: Mapping[str, Platform]) -> Standing:
    efficiencies, codes = {}, []
    for name, platform in platforms.items():
        fastest = {entry.arm: _typical_seconds(entry) for entry in _measured(platform)}
        own = {entry.arm: fastest[entry.arm] for entry in _measured(platform) if entry.id == workflow}
        best = min(own, key=lambda arm: own[arm], default=None)
        efficiencies[name] = min(fastest.values()) / own[best] if best else 0.0
        if best and best in platform.recipes:
            codes.append({line.strip() for line in platform.recipes[best].source.splitlines() if line.strip()})
    reached = all(efficiencies.values())
    return Standing(
        workflow=workflow,
        efficiencies=efficiencies,
        portability=len(efficiencies) / sum(1 / share for share in efficiencies.values()) if reached else 0.0,
        convergence=_convergence(codes) if len(codes) > 1 else None,
    )


def _typical_seconds(entry: WorkflowEntry) -> float:
    """Return the geometric mean over the batch sizes."""
    return math.exp(sum(math.log(cell.seconds.median) for cell in entry.cells) / len(entry.cells))


def _convergence(codes: Sequence[set[str]]) -> float:
    shared = [len(one & two) / len(one | two) for one, two in itertools.combinations(codes, 2)]
    return sum(shared) / len(shared)
