"""Which arms compute in a lower precision, and what to do next, as sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.answer import Answer, UnmeasuredArm
from advisor.domain.measurement import Measurement
from advisor.domain.question import Budget
from advisor.domain.recommendation import DecisionWord, Trust
from advisor.domain.workflow import Workflow

#: The measured peak may be too low by less than this factor.
ABOVE_PEAK = 1.2


def find_lower_precision(measurements: Sequence[Measurement]) -> set[str]:
    """Return the arms that probably compute in a lower precision than was asked for.

    Their outputs are less exact, and they exceed the peak that was measured in that precision.
    TensorRT for RTX, for example, rounds float32 products to TF32 although that is switched off.
    """
    return {
        each.arm
        for each in measurements
        if any(checked.accuracy_class == "close" for checked in each.correctness)
        and any((call.compute_share or 0.0) > ABOVE_PEAK for call in each.diagnosis)
    }


def give_next_steps(
    answer: Answer,
    advised: Measurement,
    workflows: Sequence[Workflow],
    *,
    word: DecisionWord | None,
    trust: Trust,
    budget: Budget | None,
) -> list[str]:
    """Return what to keep and to pin, and what makes the answer better founded.

    What runs later is then what was measured. An answer with little evidence is settled first.
    `budget` is that of a further run.
    """
    steps = next((each.deployment_steps for each in workflows if each.id == advised.workflow), ())
    pins = ", ".join(f"{name} {version}" for name, version in sorted(advised.versions.items()))
    keep = [*steps, *([f"pin the versions that were measured: {pins}"] if pins else [])]
    unbuilt = [
        f"{build.arm} was {'stopped while it was' if build.started else 'not'} built, "
        f"so its speed is not known: {build.fix}"
        for build in answer.results.stopped_builds
        if build.fix
    ]
    longer = f" --budget {budget.name}" if budget else ""
    again = f"measure again with --wait-for-quiet 5min{longer}"
    install = _installation_steps(answer.excluded, workflows)
    if word == "OPEN":
        return [f"{again}, which may settle it", *unbuilt, *install, *keep]
    return [*([again] if trust == "D" else []), *keep, *unbuilt, *install]


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
