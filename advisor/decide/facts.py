"""The facts that grades use: measured ones first, else those that the catalogue declares. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from advisor.decide.grades import FactValue
from advisor.domain.measurement import Measurement
from advisor.domain.scores import Evidence
from advisor.domain.workflow import Workflow

#: Behaviours for new shapes, the best first.
NEW_SHAPES_ORDER = ("served", "recompiles", "refused")


@dataclasses.dataclass(frozen=True)
class ArmFacts:
    """Every fact about an arm, by name."""

    values: dict[str, FactValue]
    #: Evidence of the facts that are not only declared.
    evidence: dict[str, Evidence]


def facts_of(
    measurement: Measurement,
    workflow: Workflow,
    *,
    portability: float | None = None,
    inferred_new_shapes: str | None = None,
) -> ArmFacts:
    """Return every fact about an arm; a measured or inferred one replaces the declared one.

    `portability` is the performance portability over the platforms with evidence.
    """
    measured = _measured_facts(measurement, workflow)
    facts = ArmFacts(
        {**declared_facts(workflow), "performance_portability": portability, **measured},
        dict.fromkeys(measured, "measured"),
    )
    if inferred_new_shapes is not None:
        facts.values["new_shapes"], facts.evidence["new_shapes"] = inferred_new_shapes, "inferred"
    return facts


def _measured_facts(measurement: Measurement, workflow: Workflow) -> dict[str, FactValue]:
    """Return the facts that this run has measured.

    New shapes are included only where some were tried.
    """
    new_shapes = _measured_new_shapes(measurement, str(workflow.declared.new_shapes.value))
    build = measurement.build_seconds
    measured: dict[str, FactValue] = {
        "speedup": measurement.speedup.value,
        # The sum over the batch sizes, which is not less, where the single builds are not known.
        "build_seconds": build.cold if build.worst is None else build.worst,
    }
    if new_shapes is not None:
        measured["new_shapes"] = new_shapes
    return measured


def _measured_new_shapes(measurement: Measurement, declared: str) -> str | None:
    """Return the measured behaviour for new shapes; None where the declared one counts.

    If a shape was left out, the worse of the two counts, because an unknown result must not raise
    a grade.
    """
    measured = measurement.new_shapes
    if measured is None or measurement.new_shapes_complete:
        return measured
    is_worse = NEW_SHAPES_ORDER.index(measured) >= NEW_SHAPES_ORDER.index(declared)
    return measured if is_worse else None


def declared_facts(workflow: Workflow) -> dict[str, FactValue]:
    """Return the facts that need no measurement."""
    declared = workflow.declared
    return {
        "own_environment": workflow.environment.kind != "shared",
        "lines_changed": declared.lines_changed.value,
        "export_step": declared.export_step.value,
        "vendors": declared.vendors.value,
        "artefact_scope": declared.artefact_scope.value,
        "target_needs": declared.target_needs.value,
        "new_shapes": declared.new_shapes.value,
        "architectures": declared.architectures.value,
    }


def infer_new_shapes(arms: Iterable[tuple[Measurement, Workflow]]) -> dict[str, str]:
    """Return what arms that tried no new shapes probably do with them, by arm.

    It is what another arm of the workflow with the same declared behaviour did, where that is
    better: an arm should not fall behind its sibling only because the sibling was tried.
    """
    pairs = [(entry, str(workflow.declared.new_shapes.value)) for entry, workflow in arms]
    best: dict[tuple[str, str], str] = {}
    for entry, declared in pairs:
        measured, key = _measured_new_shapes(entry, declared), (entry.workflow, declared)
        if measured is not None:
            best[key] = min(measured, best.get(key, declared), key=NEW_SHAPES_ORDER.index)
    return {
        entry.arm: best[entry.workflow, declared]
        for entry, declared in pairs
        if entry.new_shapes is None and best.get((entry.workflow, declared), declared) != declared
    }
