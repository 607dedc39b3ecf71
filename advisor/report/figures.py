"""The figures of an answer, each declared once, as CSV, Parquet and rows of data frames.

The columns of the ranking, which readers see, are in `ranking`.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from advisor.domain.accuracy import worst_check
from advisor.domain.answer import Answer, RankedArm, UnmeasuredArm
from advisor.domain.arm_figures import ARM_FIGURES
from advisor.domain.constraints import CRITERIA
from advisor.domain.measurement import CallPercentiles, Cell, GenerationMetrics, Measurement
from advisor.domain.recommendation import Recommendation, RunningCost
from advisor.domain.results import ScoredArm
from probes.accuracy import Accuracy, Agreement, Checked
from probes.shape import Shape

#: Characters with which spreadsheets begin a formula.
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")
Value = str | int | float | None
Kind = type[str | int | float]
Subject = TypeVar("Subject")


@dataclasses.dataclass(frozen=True)
class Figure(Generic[Subject]):
    """A column of CSV, Parquet and data frames; its name ends with its unit."""

    name: str
    kind: Kind
    get: Callable[[Subject], Value]


class ListedArm(NamedTuple):
    """An arm of an answer, with or without figures."""

    answer: Answer
    entry: RankedArm | UnmeasuredArm


def _fields(kind: Kind, *paths: str) -> tuple[Figure[Any], ...]:
    """Return figures that are fields, or fields of fields: `speedup.low` is `speedup_low`."""
    return tuple(Figure(path.replace(".", "_"), kind, operator.attrgetter(path)) for path in paths)


def checks_of(entry: RankedArm | UnmeasuredArm) -> Sequence[Checked]:
    return entry.checks if isinstance(entry, UnmeasuredArm) else entry.measured.correctness


def _worst_class(listed: ListedArm) -> str | None:
    """Return the worst class of the outputs; `exact` for a measured arm without a comparison."""
    worst = worst_check(checks_of(listed.entry))
    if worst is not None:
        return worst.accuracy_class
    return "exact" if isinstance(listed.entry, RankedArm) else None


def _tier(name: str, scored: ScoredArm) -> int:
    return scored.ratings[name].tier


RUN: tuple[Figure[Answer], ...] = (
    *_fields(str, "run_id"),
    Figure("created", str, lambda answer: answer.created.isoformat()),
    Figure("model", str, lambda answer: answer.question.model.name),
    Figure("dtype", str, lambda answer: answer.question.dtype),
    Figure("device", str, lambda answer: answer.device_name),
)
ADVICE: tuple[Figure[Recommendation], ...] = (
    Figure("decision", str, lambda advice: advice.decision.word),
    *_fields(str, "trust"),
)
ARM: tuple[Figure[ListedArm], ...] = (
    Figure("machine_unfit", int, lambda each: int(each.answer.results.is_unfit)),
    Figure("workflow", str, lambda each: each.entry.workflow),
    Figure("arm", str, lambda each: each.entry.arm),
    Figure("status", str, lambda each: getattr(each.entry, "status", "completed")),
    Figure(
        "evidence",
        str,
        lambda each: each.answer.evidence if isinstance(each.entry, RankedArm) else "declared",
    ),
    Figure("recommended", int, lambda each: int(each.entry == each.answer.advised)),
    Figure("correctness", str, _worst_class),
    Figure("reason", str, lambda each: getattr(each.entry, "reason", None)),
)
SCORE: tuple[Figure[ScoredArm], ...] = (
    *_fields(int, "rank"),
    Figure("score", float, lambda each: each.score),
    *(Figure(f"tier_{name}", int, functools.partial(_tier, name)) for name in CRITERIA),
    *_fields(str, "weight_format"),
)
MEASURED: tuple[Figure[Measurement], ...] = (
    *(
        Figure(each.column, int if each.dimension in {"bytes", "count"} else float, each.get)
        for each in ARM_FIGURES.values()
        if each.column
    ),
    Figure("warm_build_seconds", float, lambda one: one.build_seconds.warm),
    *_fields(int, "weight_bytes"),
    Figure("loss_class", str, lambda one: getattr(one.trained_loss, "loss_class", None)),
    Figure("loss_basis", str, lambda one: getattr(one.trained_loss, "basis", None)),
)
SHAPE: tuple[Figure[Shape], ...] = _fields(int, "batch_size", "input_tokens", "output_tokens")
CELL: tuple[Figure[Cell], ...] = (
    *_fields(float, "seconds.median", "seconds.low", "seconds.high"),
    Figure("timed_calls", int, lambda cell: cell.seconds.samples),
    *_fields(int, "processes"),
    Figure("throughput", float, lambda cell: cell.throughput.value),
    *_fields(str, "throughput.unit"),
    Figure("speedup", float, lambda cell: cell.speedup.value),
    *_fields(float, "speedup.low", "speedup.high", "tflops"),
    *_fields(int, "kept_bytes"),
)
PERCENTILES: tuple[Figure[CallPercentiles], ...] = tuple(
    Figure(f"seconds_{name}", float, operator.attrgetter(name))
    for name in CallPercentiles.__struct_fields__
)
GENERATION: tuple[Figure[GenerationMetrics], ...] = (
    *_fields(float, "ttft_seconds", "itl_seconds", "tokens_per_second_per_user"),
    *_fields(int, "cache_bytes"),
    *_fields(float, "mbu", "mfu"),
    *_fields(str, "latency_mismatch"),
)
COST: tuple[Figure[RunningCost], ...] = (
    Figure("cost", float, lambda cost: cost.value),
    Figure("cost_unit", str, lambda cost: cost.unit),
)
CHECKED: tuple[Figure[Checked], ...] = _fields(str, "accuracy_class")
ACCURACY: tuple[Figure[Accuracy], ...] = _fields(
    float,
    *("relative_error", "relative_error_eager", "ratio_to_eager", "cosine", "worst_element"),
    *("top1", "kl_mean", "equal_tokens", "same_input_calls"),
)
AGREEMENT: tuple[Figure[Agreement], ...] = _fields(int, "sequences", "identical_sequences")
#: Groups of figures about one subject each, in the order of the columns.
GROUPS: Any = (
    *(RUN, ADVICE, ARM, SCORE, SHAPE, CELL, PERCENTILES, GENERATION, MEASURED),
    *(CHECKED, ACCURACY, AGREEMENT, COST),
)
FIGURES: tuple[Figure[Any], ...] = tuple(figure for group in GROUPS for figure in group)
COLUMNS = tuple(figure.name for figure in FIGURES)


def rows(answer: Answer) -> Iterator[dict[str, Value]]:
    """Yield a row for each arm and shape, and one for each arm without figures at shapes."""
    for ranked in answer.ranking:
        # On a machine that was too busy for an answer, the order of the arms says nothing.
        scored = None if answer.has_unfit_problem else ranked.scored
        for cell in ranked.cells or (None,):
            yield _row(ListedArm(answer, ranked), scored, ranked.measured, cell)
    for each in answer.unmeasured:
        yield _row(ListedArm(answer, each), None, None, None)


def _row(
    listed: ListedArm, scored: ScoredArm | None, measured: Measurement | None, cell: Cell | None
) -> dict[str, Value]:
    (answer, entry), advice = listed, listed.answer.recommendation
    shape = cell.shape if cell else None
    costs = advice.costs if advice else ()
    at_shape = (each for each in costs if cell and (each.arm, each.shape) == (entry.arm, shape))
    checks = (each for each in checks_of(entry) if shape in {None, each.shape})
    cost, checked = next(at_shape, None), next(checks, None)
    of_cell = (cell, cell.percentiles, cell.generation) if cell else (None, None, None)
    of_check = (checked, checked.accuracy, checked.agreement) if checked else (None, None, None)
    subjects = (answer, advice, listed, scored, shape, *of_cell, measured, *of_check, cost)
    return {
        each.name: None if subject is None else each.get(subject)
        for group, subject in zip(GROUPS, subjects, strict=True)
        for each in group
    }


def to_csv(answers: Sequence[Answer]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for answer in answers:
        for row in rows(answer):
            writer.writerow({name: escape_formula(value) for name, value in row.items()})
    return text.getvalue()


def escape_formula(value: Value) -> Value:
    is_formula = isinstance(value, str) and value.startswith(FORMULA_PREFIXES)
    return f"'{value}" if is_formula else value


def to_parquet(answer: Answer) -> bytes:
    """Return the rows as Parquet; a null stands for a value that is not known."""
    import pyarrow as pa  # noqa: PLC0415 - an extra and slow to import
    from pyarrow import parquet  # noqa: PLC0415 - as above

    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([(each.name, types[each.kind]) for each in FIGURES])
    file = io.BytesIO()
    table = pa.Table.from_pylist(list(rows(answer)), schema=schema)
    parquet.write_table(table, file, compression="zstd")
    return file.getvalue()
