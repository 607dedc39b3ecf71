"""The facts that grades use: measured ones first, else those that the catalogue declares. Pure."""

from __future__ import annotations

from advisor.domain.measurement import Measurement, Survey
from advisor.domain.workflow import Workflow
from advisor.score.grades import FactValue


def facts_of(
    measurement: Measurement, workflow: Workflow, surveyed: Survey | None = None
) -> dict[str, FactValue]:
    """Return every fact about an arm; a measured one replaces the declared one of its name."""
    return {
        "performance_portability": None,
        **declared_facts(workflow),
        **measured_facts(measurement, surveyed),
    }


def measured_facts(
    measurement: Measurement, surveyed: Survey | None = None
) -> dict[str, FactValue]:
    """Return the facts that this run has measured.

    New shapes and other models are included only where some were tried.
    """
    build = measurement.build_seconds
    measured: dict[str, FactValue] = {
        "speedup": measurement.speedup.value,
        # Documents of early versions have only the sum over the batch sizes, which is no less.
        "build_seconds": build.cold if build.worst is None else build.worst,
    }
    if measurement.new_shapes is not None:
        measured["new_shapes"] = measurement.new_shapes
    if surveyed is not None:
        measured["architectures"] = surveyed.architectures
    return measured


def declared_facts(workflow: Workflow) -> dict[str, FactValue]:
    """Return the facts that need no measurement."""
    declared = workflow.declared
    return {
        "own_environment": workflow.environment.kind != "shared",
        "lines_changed": declared.lines_changed.value,
        "export_step": declared.export_step.value,
        "vendors": declared.vendors.value,
        "artefact_scope": declared.artefact_scope.value,
        "new_shapes": declared.new_shapes.value,
        "architectures": declared.architectures.value,
    }
