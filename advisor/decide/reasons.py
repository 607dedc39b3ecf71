"""Which arms compute in a lower precision, and what to do next, as sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.answer import UnmeasuredArm
from advisor.domain.measurement import Measurement
from advisor.domain.question import Budget
from advisor.domain.recommendation import Trust
from advisor.domain.results import StoppedBuild
from advisor.domain.workflow import Workflow
from advisor.text_format import format_share

#: The measured peak may be too low by less than this factor.
ABOVE_PEAK = 1.2


def explain_precision(measurements: Sequence[Measurement], dtype: str) -> list[str]:
    """Return the arms that probably compute in a lower precision than `dtype`.

    Their outputs are less exact, and they exceed the peak that was measured in `dtype`. TensorRT
    for RTX, for example, rounds float32 products to TF32 although that is switched off.
    """
    shares = {
        each.arm: max((call.compute_share or 0.0 for call in each.diagnosis), default=0.0)
        for each in measurements
        if any(checked.accuracy_class == "close" for checked in each.correctness)
    }
    return [
        f"{arm} reaches {format_share(share)} of the arithmetic peak of {dtype}, and its outputs "
        "are less exact: it probably computes in a lower precision"
        for arm, share in shares.items()
        if share > ABOVE_PEAK
    ]


def give_deployment_steps(measurement: Measurement, keep: Sequence[str]) -> list[str]:
    """Return what to keep and to pin, so that what runs later is what was measured."""
    pins = ", ".join(f"{name} {version}" for name, version in sorted(measurement.versions.items()))
    return [
        *keep,
        *([f"pin the versions that were measured: {pins}"] if pins else []),
    ]


def give_next_steps(
    trust: Trust,
    excluded: Sequence[UnmeasuredArm],
    stopped: Sequence[StoppedBuild] = (),
    workflows: Sequence[Workflow] = (),
    budget: Budget | None = None,
) -> list[str]:
    """Return what makes the answer better founded; `budget` is that of a further run."""
    steps = [
        f"{build.arm} was {'stopped while it was' if build.started else 'not'} built, "
        f"so its speed is not known: {build.fix}"
        for build in stopped
        if build.fix
    ]
    if trust == "D":
        longer = f" --budget {budget.name}" if budget else ""
        steps.append(f"measure again with --wait-for-quiet 5min{longer}")
    return [*steps, *_installation_steps(excluded, workflows)]


def _installation_steps(
    excluded: Sequence[UnmeasuredArm], workflows: Sequence[Workflow]
) -> list[str]:
    """Return how to install what is missing; one command creates all environments."""
    missing = [entry for entry in excluded if entry.status == "not-installed" and entry.fix]
    environments = {
        each.id: each.environment_name for each in workflows if each.environment.kind == "own"
    }
    together = [entry.workflow for entry in missing if entry.workflow in environments]
    others = [entry for entry in missing if entry.workflow not in environments]
    steps = [f"to measure {entry.workflow} too: {entry.fix}" for entry in others]
    if together:
        names = " ".join(dict.fromkeys(environments[workflow] for workflow in together))
        steps.append(f"to measure {', '.join(together)} too: p3-advisor env create {names}")
    return steps
