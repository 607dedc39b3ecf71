"""The measured figures of an arm: constraints limit them, and they are columns of tables.

A figure that is added here may be named in `--require`, and is in the tables whose column it names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from advisor.domain.measurement import Measurement

#: A figure that may also be required as a letter, the class of what is lost of a trained model.
CLASSIFIED = "accuracy"
#: A figure that is measured after all others.
START = "start"
#: The peak memory of an arm, which only a build that runs alone shows.
MEMORY = "memory"

Unit = Literal["B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "us", "ms", "s", "min", "h", "%"]
#: Each unit in bytes, in seconds or as a share.
UNITS: Mapping[Unit, float] = {
    "B": 1,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "%": 0.01,
}
Sign = Literal[">=", "<="]
Dimension = Literal["factor", "bytes", "seconds", "share", "count"]
#: What may be limited to 0.
FROM_ZERO: Collection[Dimension] = ("share", "count")


class ArmFigure(NamedTuple):
    """A measured figure of an arm: a constraint may limit it, and tables may have it."""

    #: A missing figure meets no constraint.
    get: Callable[[Measurement], float | None]
    dimension: Dimension
    #: A bound as the user writes it.
    example: str
    comparison: Sign = "<="
    #: What further processes or the uncertainty allow; None for a figure that is measured once.
    spread: Callable[[Measurement], tuple[float | None, float | None] | None] = lambda _one: None
    #: The tasks that measure it.
    tasks: Collection[str] = ("forward", "generate", "serve")
    #: Its column in CSV, Parquet and data frames, which ends with the unit; empty where each shape
    #: has a figure of its own.
    column: str = ""
    #: The head of its column in the ranking, with the unit; empty for none.
    head: str = ""
    #: What the head means, for the line below the ranking.
    legend: str = ""
    #: Whether a terminal of the usual width has room for it.
    is_main: bool = False


def _worst(values: Iterable[float | None]) -> float | None:
    """Return the largest of the values; None where one is missing."""
    found = list(values)
    known = [value for value in found if value is not None]
    return max(known) if known and len(known) == len(found) else None


def _worst_of_text(name: str) -> Callable[[Measurement], float | None]:
    return lambda one: _worst(getattr(cell.generation, name, None) for cell in one.cells)


def _graph_breaks(one: Measurement) -> int:
    """Return the places where the graph breaks; workflows without a graph have none."""
    found = one.facts.get("graph_breaks")
    return len(found) if isinstance(found, dict) else 0


#: Figures by their name in `--require`, which also takes criteria, in the order of table columns.
ARM_FIGURES: Mapping[str, ArmFigure] = {
    "speedup": ArmFigure(
        lambda one: one.speedup.value,
        "factor",
        "1.2",
        ">=",
        spread=lambda one: (one.speedup.low, one.speedup.high),
    ),
    "build": ArmFigure(
        lambda one: one.build_seconds.cold,
        "seconds",
        "5min",
        column="cold_build_seconds",
        head="build s",
        legend="first build",
        is_main=True,
    ),
    START: ArmFigure(
        lambda one: one.fastest_start.seconds if one.fastest_start else None,
        "seconds",
        "10s",
        column="start_seconds",
    ),
    MEMORY: ArmFigure(
        lambda one: one.memory_bytes.peak,
        "bytes",
        "8GiB",
        spread=lambda one: one.memory_bytes.spread,
        column="peak_memory_bytes",
        head="MiB",
        legend="peak memory",
    ),
    "ttft": ArmFigure(_worst_of_text("ttft_seconds"), "seconds", "200ms", tasks=("generate",)),
    "itl": ArmFigure(_worst_of_text("itl_seconds"), "seconds", "20ms", tasks=("generate",)),
    CLASSIFIED: ArmFigure(
        lambda one: _worst(checked.accuracy.error for checked in one.correctness),
        "share",
        "1e-3",
        tasks=("forward", "generate"),
    ),
    "engaged": ArmFigure(
        lambda one: one.engaged_share, "share", "90%", ">=", column="engaged_share"
    ),
    "breaks": ArmFigure(_graph_breaks, "count", "0"),
}
