"""Read the figures of a run's JSON document as `Results`."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.catalogue import Catalogue
from advisor.domain.measurement import Measurement, VisitCounts
from advisor.domain.plan import BASELINE
from advisor.domain.results import Results
from advisor.domain.serving import ServingResults
from advisor.errors import ExportFileError
from advisor.measure.new_shapes import is_complete, rate_new_shapes
from advisor.measure.process_differences import widen_by_noise_floor
from advisor.report.documents.document import RunDocument
from advisor.report.documents.workflow_entry import WorkflowEntry


def read_results(document: RunDocument, known: Catalogue) -> Results:
    """Return the figures of a document in the form that scores start from.

    Raise `ExportFileError` if it lacks a baseline, or has workflows that are not known.
    """
    measured = [entry for entry in document.workflows if entry.status == "completed"]
    race, serving = document.race, document.serving
    unknown = {entry.id for entry in measured} - {workflow.id for workflow in known.workflows}
    baseline = next((entry.arm for entry in measured if entry.is_baseline), None)
    if serving is not None and baseline is not None and not unknown:
        return _served_results(document, serving, baseline, measured)
    if race is None or unknown or BASELINE not in {entry.arm for entry in measured}:
        raise ExportFileError(
            f"the document of run {document.run_id} has no measurements that can be decided on",
            f"ask again: {document.rerun_command}"
            if document.rerun_command
            else "decide on the run itself",
        )
    return Results(
        baseline=BASELINE,
        measurements=tuple(
            widen_by_noise_floor(_measurement(entry), race.by_batch_size, BASELINE)
            for entry in measured
        ),
        races=race.by_batch_size,
        noise_floor=race.noise_floor,
        log_speedups={},
        visits=race.visits or VisitCounts(made=race.rounds, discarded=race.discarded, unfit=0),
        sustained=race.sustained,
        peaks=race.peaks,
        host=race.host,
        repeats=race.repeats,
        stopped_builds=document.stopped_builds,
        surveys=document.surveys,
        portability=document.portability,
        has_batch=document.inputs.has_batch if document.inputs else None,
    )


def _served_results(
    document: RunDocument,
    serving: ServingResults,
    baseline: str,
    measured: Sequence[WorkflowEntry],
) -> Results:
    """Return the figures of a document of servers, which have no race."""
    return Results(
        baseline=baseline,
        measurements=tuple(map(_measurement, measured)),
        races=(),
        noise_floor=None,
        log_speedups={},
        repeats=serving.repeats,
        stopped_builds=document.stopped_builds,
        surveys=document.surveys,
        portability=document.portability,
        serving=serving,
    )


def _measurement(entry: WorkflowEntry) -> Measurement:
    assert entry.speedup is not None  # noqa: S101 - a completed entry has all figures
    assert entry.build_seconds is not None  # noqa: S101 - as above
    assert entry.memory_bytes is not None  # noqa: S101 - as above
    tried = entry.flexibility or ()
    return Measurement(
        arm=entry.arm,
        workflow=entry.id,
        option=entry.options or "default",
        cells=entry.cells,
        speedup=entry.speedup,
        build_seconds=entry.build_seconds,
        memory_bytes=entry.memory_bytes,
        weight_bytes=entry.weight_bytes,
        correctness=entry.correctness.by_batch_size if entry.correctness else (),
        trained_loss=entry.trained_loss,
        engaged_share=entry.engaged_share or 0.0,
        engagement=entry.engagement or "",
        versions=entry.versions,
        settings=entry.settings,
        visits=entry.visits or VisitCounts(made=0, discarded=0, unfit=0),
        steady=entry.steady is not False,
        diagnosis=entry.diagnosis.by_batch_size if entry.diagnosis else (),
        new_shape_results=tried,
        new_shapes=rate_new_shapes(tried),
        new_shapes_complete=is_complete(tried),
    )
