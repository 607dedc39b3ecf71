"""Summarise the visits, builds and checks of one arm as a `Measurement`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from advisor.decide import diagnosis, process_figures
from advisor.decide.drift import correct_drift, count_stalls, find_shift, typical_seconds
from advisor.decide.intervals import Estimate, mean_of_samples, nearest_rank, typical_interval
from advisor.decide.rounds import (
    LogSpeedups,
    counted_visits,
    summarise_undisturbed,
    visits_by_round,
)
from advisor.domain import measurement
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.results import EQUIVALENCE_MARGIN
from advisor.domain.run_state import ProcessState, RunState
from probes.events import Opened, Peaks
from probes.shape import Shape

TERA = 1e12


def measurement_of(
    state: RunState,
    planned: Arm,
    log_speedups: LogSpeedups,
    peaks: Peaks | None,
    question: Question,
    speedup: measurement.Interval | None = None,
) -> measurement.Measurement:
    """Summarise all that was measured of the arm, which has had valid times.

    `speedup` is given for an arm that was not in a race, such as a server.
    """
    processes = [process for process in state.processes[planned.id] if process.ready]
    main = state.last_ready_process(planned.id, repeat=0)
    assert main is not None  # noqa: S101 - for the type checker: only arms that raced are summarised
    imported, limits = main.imported, main.engaged.size_limits if main.engaged else ()
    if speedup is None:
        speedup = _overall_log_speedup(log_speedups, question.shape_weights).ratio
    new_shapes = process_figures.compare_new_shapes(
        state, planned, process_figures.new_shape_results_of(main), speedup
    )
    cells = tuple(
        _summarise_cell(state, planned, main, shape, each, peaks, question)
        for shape, each in log_speedups.items()
    )
    return measurement.Measurement(
        arm=planned.id,
        workflow=planned.workflow,
        option=planned.option,
        cells=cells,
        speedup=speedup,
        build_seconds=process_figures.summarise_builds(processes),
        # A process that resumed the run found its build, which takes less memory.
        memory_bytes=process_figures.memory_of_processes(
            processes[0], processes, state.memory_checked
        ),
        weight_bytes=diagnosis.stored_weight_bytes(main),
        correctness=tuple(checked for _, checked in sorted(main.checked.items())),
        engaged_share=main.engaged.share if main.engaged else 0.0,
        engagement=main.engaged.proof if main.engaged else "",
        versions=imported.versions if imported else {},
        settings=imported.settings if imported else {},
        adjusted=main.opened.adjusted if main.opened else {},
        facts=main.engaged.facts if main.engaged else {},
        integration=main.snippet_facts.integration if main.snippet_facts else "",
        visits=count_visits(processes),
        steady=all(
            warmed_up.steady for process in processes for warmed_up in process.warmed_up.values()
        ),
        diagnosis=tuple(
            _diagnose(state, planned.id, main, cell, peaks, question.dtype) for cell in cells
        ),
        new_shape_results=new_shapes,
        new_shape_behaviour="refused" if limits else process_figures.worst_behaviour(new_shapes),
        new_shapes_complete=all(each.handling != "skipped" for each in new_shapes),
        size_limits=limits,
        starts=state.starts.get(planned.id, ()),
        variants=state.variants.get(planned.id, ()),
    )


def count_visits(processes: Sequence[ProcessState]) -> measurement.VisitCounts:
    recorded = [each for process in processes for each in process.visit_conditions]
    visits = [visit for process in processes for visit in process.visits]
    return measurement.VisitCounts(
        made=len(visits),
        discarded=sum(each.discarded for each in recorded),
        unfit=sum(each.unfit is not None and not each.discarded for each in recorded),
        stalled_calls=sum(
            count_stalls((*visit.warmup_seconds, *visit.seconds), statistics.median(visit.seconds))
            for visit in visits
        ),
    )


def _overall_log_speedup(log_speedups: LogSpeedups, weights: Mapping[Shape, float]) -> Estimate:
    """Return the mean over the shapes and over the processes that have all of them."""
    processes = min(map(len, log_speedups.values()))
    samples = [
        (each[number], weights.get(shape, 1.0))
        for shape, each in log_speedups.items()
        for number in range(processes)
    ]
    return mean_of_samples([sample for sample, _ in samples], [weight for _, weight in samples])


def _summarise_cell(
    state: RunState,
    planned: Arm,
    raced: ProcessState,
    shape: Shape,
    log_speedups: Sequence[Sequence[float]],
    peaks: Peaks | None,
    question: Question,
) -> measurement.Cell:
    timed = [visit for _, visit in counted_visits(state, planned.id, shape)]
    baseline = state.plan.baseline.id
    speedup = mean_of_samples(log_speedups).ratio
    baseline_visits = [visit for _, visit in counted_visits(state, baseline, shape)]
    visits = correct_drift(timed, baseline_visits, speedup.value)
    low, high = typical_interval([statistics.median(visit.seconds) for visit in visits])
    seconds = measurement.CallSeconds(
        median=typical_seconds(visits),
        low=low,
        high=high,
        samples=sum(len(visit.seconds) for visit in visits),
    )
    streamed = [visit.streamed_seconds for visit in timed if visit.streamed_seconds is not None]
    process, flops = state.last_ready_process(planned.id), diagnosis.flops_per_call(state, shape)
    built = raced.built.get(shape)
    return measurement.Cell(
        shape=shape,
        weight=question.shape_weights.get(shape, 1.0),
        seconds=seconds,
        throughput=_throughput(
            process.opened if process else None,
            shape,
            statistics.median(streamed) if streamed else seconds.median,
        ),
        speedup=speedup,
        tflops=flops / seconds.median / TERA if flops else None,
        processes=len(log_speedups),
        undisturbed=summarise_undisturbed(state, baseline, planned.id, shape)
        if planned.id != baseline
        else None,
        shift=math.expm1(-find_shift(log_speedups[0], math.log1p(EQUIVALENCE_MARGIN))),
        kept_bytes=built.kept_bytes if built else None,
        percentiles=_percentiles([seconds for visit in timed for seconds in visit.seconds]),
        generation=process_figures.summarise_generation(
            visits, raced, diagnosis.workload_of(state, shape), peaks, question.dtype
        ),
    )


def _percentiles(seconds: Sequence[float]) -> measurement.CallPercentiles:
    p50, p90, p95, p99 = (nearest_rank(seconds, share) for share in (0.5, 0.9, 0.95, 0.99))
    return measurement.CallPercentiles(p50=p50, p90=p90, p95=p95, p99=p99)


def _diagnose(
    state: RunState,
    arm: str,
    process: ProcessState,
    cell: measurement.Cell,
    peaks: Peaks | None,
    dtype: str,
) -> measurement.CallDiagnosis:
    shape = cell.shape
    timed = [visit for _, visit in counted_visits(state, arm, shape)]
    factor = cell.seconds.median / typical_seconds(timed)  # the same as of the cell's times
    rounds = visits_by_round(state, shape).values()
    return diagnosis.diagnose(
        process.diagnosed.get(shape),
        shape=shape,
        seconds=factor * typical_seconds([visits[arm] for visits in rounds if arm in visits]),
        flops=diagnosis.flops_per_call(state, shape),
        weight_bytes=diagnosis.bytes_per_call(state, process, shape),
        dtype=dtype,
        peaks=peaks,
    )


def _throughput(opened: Opened | None, shape: Shape, seconds: float) -> measurement.Throughput:
    if opened is None or opened.unit != "tokens":
        return measurement.Throughput(value=shape.batch_size / seconds, unit="samples/s")
    # Those that are generated count, if any.
    tokens = shape.output_tokens or shape.input_tokens or opened.units_per_sample
    return measurement.Throughput(value=shape.batch_size * tokens / seconds, unit="tokens/s")
