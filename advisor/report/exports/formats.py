"""Write a run in the formats of other tools: JUnit XML and OpenMetrics.

Each format is written by its own library; they come with the extra `export`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from advisor.domain.answer import Answer
from advisor.errors import NoExportError
from advisor.report.exports import csv_rows
from advisor.version import how_to_install

#: Statuses of arms that were not to be measured.
NOT_TRIED = {"excluded", "not-covered", "not-installed", "skipped", "unsupported"}
#: Metrics of each shape: the column, the unit of the name, and what it is.
CELL_METRICS = {
    "seconds_median": ("p3_advisor_call", "seconds", "Median duration of a call"),
    "seconds_low": ("p3_advisor_call_low", "seconds", "Low end of the 95 % interval of a call"),
    "seconds_high": ("p3_advisor_call_high", "seconds", "High end of the 95 % interval of a call"),
    "speedup": ("p3_advisor_speedup", "ratio", "Speed-up over eager PyTorch"),
    "speedup_low": ("p3_advisor_speedup_low", "ratio", "Low end of its 95 % interval"),
    "speedup_high": ("p3_advisor_speedup_high", "ratio", "High end of its 95 % interval"),
    "ttft_seconds": ("p3_advisor_ttft", "seconds", "Time to the first token"),
    "itl_seconds": ("p3_advisor_itl", "seconds", "Time between two tokens"),
}
#: Metrics of an arm.
ARM_METRICS = {
    "cold_build_seconds": ("p3_advisor_cold_build", "seconds", "Build with empty caches"),
    "peak_memory_bytes": ("p3_advisor_peak_memory", "bytes", "Peak memory of the process"),
    "score": ("p3_advisor_score", "", "Weighted mean of the grades, 1 to 3"),
}
ARM_LABELS = ("model", "dtype", "device", "workflow", "arm")


def to_junit(answer: Answer) -> bytes:
    """Return JUnit XML with a test case for each arm.

    An arm that failed is a failure; one that was not to be measured is skipped. The time of a case
    is a typical call of its largest shape in seconds.
    """
    import junitparser  # noqa: PLC0415 - an extra

    suite = junitparser.TestSuite(f"p3-advisor {answer.question.model.name}")
    for arm in answer.ranked:
        case = junitparser.TestCase(arm.scored.arm, classname=f"p3-advisor.{arm.scored.workflow}")
        if arm.cells:
            case.time = arm.cells[-1].seconds.median
        elif arm.measured is None:
            case.result = [junitparser.Skipped(f"not measured: {arm.scored.origin}", "excluded")]
        suite.add_testcase(case)
    for each in answer.unmeasured:
        case = junitparser.TestCase(each.arm, classname=f"p3-advisor.{each.workflow}")
        result = junitparser.Skipped if each.status in NOT_TRIED else junitparser.Failure
        case.result = [result(each.reason, each.status)]
        suite.add_testcase(case)
    report = junitparser.JUnitXml()
    report.add_testsuite(suite)
    return bytes(report.tostring())


def to_openmetrics(answer: Answer) -> bytes:
    """Return gauges of every measured arm and shape in the OpenMetrics text format."""
    from prometheus_client import CollectorRegistry, Gauge  # noqa: PLC0415 - an extra
    from prometheus_client.openmetrics.exposition import generate_latest  # noqa: PLC0415

    registry = CollectorRegistry()
    gauges: dict[str, Any] = {}
    for column, labels, value in _metrics(answer):
        name, unit, text = (CELL_METRICS | ARM_METRICS)[column]
        if column not in gauges:
            gauges[column] = Gauge(name, text, [*labels], unit=unit, registry=registry)
        gauges[column].labels(**labels).set(value)
    return bytes(generate_latest(registry))


def _metrics(answer: Answer) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield column, labels and value of every figure; those of an arm once."""
    seen: set[tuple[object, object]] = set()
    for row in csv_rows.rows(answer):
        arm = {name: str(row[name]) for name in ARM_LABELS}
        shape = {name: str(row[name]) for name in csv_rows.SHAPE_COLUMNS if row.get(name)}
        cell = arm | shape
        for column in CELL_METRICS:
            if isinstance(value := row.get(column), (int, float)):
                yield column, cell, value
        for column in ARM_METRICS:
            value = row.get(column)
            if isinstance(value, (int, float)) and (row["arm"], column) not in seen:
                seen.add((row["arm"], column))
                yield column, arm, value


def encode(write: Callable[[Answer], bytes], answer: Answer) -> bytes:
    """Return what `write` returns; raise `NoExportError` if its library is not installed."""
    try:
        return write(answer)
    except ModuleNotFoundError as problem:
        raise NoExportError(
            f"the package {problem.name} is not installed", how_to_install("export")
        ) from problem
