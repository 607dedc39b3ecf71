"""Performance portability of a model's workflows over the platforms with evidence for it.

Pennycook, Sewall and Lee, "Implications of a metric for performance portability" (doi
10.1016/j.future.2017.08.007): the harmonic mean of an application's efficiencies over a set of
platforms, 0 where it does not run on one of them. Code convergence is that of the P3 Analysis
Library: 1 less the mean Jaccard distance between the sources of each pair of platforms.

Platforms are this one, and the devices of stored and imported runs of the same question.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence

from advisor.domain.accuracy import may_be_exact
from advisor.domain.measurement import Measurement
from advisor.domain.model import without_directories
from advisor.domain.question import Question
from advisor.domain.results import (
    ApplicationPortability,
    Efficiency,
    Platform,
    Portability,
    Results,
)
from advisor.domain.run_state import Header, RunState
from advisor.domain.workflow import Workflow

FEWEST_PLATFORMS = 2


def application_of(workflow: Workflow) -> str:
    return workflow.application or workflow.id


def platform_of(header: Header, state: RunState, results: Results) -> Platform:
    refused, by_id = refused_workflows(state), header.catalogue.by_id
    own = _efficiencies(results)
    best: dict[str, Measurement] = {}
    for measured in sorted(
        results.measurements, key=lambda each: (-own[each.arm], -each.speedup.value, each.arm)
    ):
        best.setdefault(application_of(by_id[measured.workflow]), measured)
    possible = {application_of(workflow) for id_, workflow in by_id.items() if id_ not in refused}
    impossible = {application_of(by_id[id_]) for id_ in refused if id_ in by_id}
    return Platform(
        name=header.device_name,
        run=header.run_id,
        created=header.created,
        efficiencies={
            application: Efficiency(
                workflow=measured.workflow,
                application_efficiency=own[measured.arm],
                architectural_efficiency=_architectural(measured),
            )
            for application, measured in best.items()
        },
        refused=tuple(sorted(impossible - possible - best.keys())),
    )


def _efficiencies(results: Results) -> dict[str, float]:
    """Return each arm's speed over that of the fastest arm whose outputs are as exact.

    A lower precision is faster for another result, so it is no measure for exact arms.
    """
    fastest = max((each.speedup.value for each in results.measurements), default=1.0)
    exact = [each.speedup.value for each in results.measurements if may_be_exact(each.correctness)]
    fastest_exact = max(exact, default=fastest)
    return {
        each.arm: each.speedup.value
        / (fastest_exact if may_be_exact(each.correctness) else fastest)
        for each in results.measurements
    }


def _architectural(measured: Measurement) -> float | None:
    """Return the share of a call that the device's peak would need: geometric mean over shapes."""
    shares = [1 - one.headroom for one in measured.diagnosis if one.headroom is not None]
    if not shares or len(shares) < len(measured.diagnosis) or min(shares) <= 0:
        return None
    return statistics.geometric_mean(shares)


def compare_platforms(
    platforms: Sequence[Platform], workflows: Sequence[Workflow]
) -> Portability | None:
    """Compare the applications of the first platform; None with fewer than two platforms."""
    if len(platforms) < FEWEST_PLATFORMS:
        return None
    by_id = {workflow.id: workflow for workflow in workflows}
    applications = [
        _compare(application, platforms, by_id) for application in platforms[0].efficiencies
    ]
    applications.sort(key=lambda each: (-(each.performance_portability or 0.0), each.application))
    return Portability(platforms=tuple(platforms), applications=tuple(applications))


def _compare(
    application: str, platforms: Sequence[Platform], workflows: Mapping[str, Workflow]
) -> ApplicationPortability:
    found = [platform.efficiencies.get(application) for platform in platforms]
    blank = [0.0 if application in platform.refused else None for platform in platforms]
    values, architectural = (
        [
            getattr(known, name) if known else nothing
            for known, nothing in zip(found, blank, strict=True)
        ]
        for name in ("application_efficiency", "architectural_efficiency")
    )
    return ApplicationPortability(
        application=application,
        efficiencies={
            platform.name: value for platform, value in zip(platforms, values, strict=True)
        },
        performance_portability=harmonic_mean(values),
        architectural_portability=harmonic_mean(architectural),
        code_convergence=None
        if None in found
        else _converge([each.workflow for each in found if each], workflows),
    )


def harmonic_mean(efficiencies: Sequence[float | None]) -> float | None:
    """Return the harmonic mean: 0 as soon as one is 0, None while one is not known."""
    known = [each for each in efficiencies if each is not None]
    if len(known) < len(efficiencies):
        return None
    return 0.0 if min(known) <= 0 else statistics.harmonic_mean(known)


def _converge(ids: Sequence[str], workflows: Mapping[str, Workflow]) -> float | None:
    """Return 1 less the mean Jaccard distance between the lines of each pair of sources."""
    integrations = [workflows[id_].integration if id_ in workflows else None for id_ in ids]
    if None in integrations:
        return None
    sources = [each.source.splitlines() for each in integrations if each is not None]
    lines = [{line.strip() for line in source if line.strip()} for source in sources]
    return statistics.fmean(
        len(one & two) / len(one | two) for one, two in itertools.combinations(lines, 2)
    )


def is_same_work(one: Question, two: Question) -> bool:
    # The precision may differ: devices support different ones.
    first, second = (
        (without_directories(each.model), each.task, each.batch_sizes, each.lengths)
        for each in (one, two)
    )
    return first == second


def refused_workflows(state: RunState) -> tuple[str, ...]:
    """Return the workflows that are unsupported on the device, or whose arms have all failed."""
    plan = state.plan
    unsupported = [each.workflow for each in plan.excluded if each.status == "unsupported"]
    has_completed: dict[str, list[bool]] = {}
    for planned in plan.arms:
        for process in state.processes.get(planned.id, ()):
            if process.outcome is not None:
                completed = process.completed or state.is_valid(planned.id)
                has_completed.setdefault(planned.workflow, []).append(completed)
    failed = [workflow for workflow, completed in has_completed.items() if not any(completed)]
    return (*unsupported, *failed)
