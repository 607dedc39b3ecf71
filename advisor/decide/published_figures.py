"""Published figures for a GPU that is not attached.

Pure; lower evidence than any measurement, and never mixed with one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from advisor.domain.plan import BASELINE
from advisor.domain.published import PublishedData, PublishedFigure

#: Two figures of the same case that are further apart than this share contradict each other.
AGREEMENT = 0.05


class PublishedCase(msgspec.Struct, frozen=True, kw_only=True):
    """Published figures of one workflow on one GPU for one model."""

    workflow: str
    stack: str
    #: Speed-up over eager by batch size: least and most.
    speedups: dict[int, tuple[float, float]]
    #: Seconds of the compilation; None where none is published.
    compile_seconds: float | None
    sections: tuple[str, ...]
    #: Batch sizes for which two figures contradict each other.
    contradicts: tuple[int, ...]

    @property
    def low(self) -> float:
        """The geometric mean of the least speed-ups."""
        return math.exp(
            sum(math.log(low) for low, _ in self.speedups.values()) / len(self.speedups)
        )


def find_cases(
    published: PublishedData, gpu: str, model: str, batch_sizes: Sequence[int]
) -> tuple[PublishedCase, ...]:
    """Return each workflow with a published speed-up for the GPU, the model and a batch size.

    Of several environments the newest one counts.
    """
    here = [figure for figure in published.figure if (figure.gpu, figure.model) == (gpu, model)]
    cases = []
    for workflow in sorted({figure.workflow for figure in here} - {BASELINE}):
        own = [
            figure
            for figure in here
            if figure.workflow == workflow and figure.fact in {"speedup", "tokens_per_second"}
        ]
        if not own:
            continue
        stack = max(
            (figure.stack for figure in own), key=lambda name: published.stacks.get(name, "")
        )
        case = _case(
            workflow, stack, [figure for figure in here if figure.stack == stack], batch_sizes
        )
        if case is not None:
            cases.append(case)
    return tuple(cases)


def baseline_case(cases: Sequence[PublishedCase]) -> PublishedCase:
    """Return eager PyTorch as a case: the baseline of the published speed-ups, without a build."""
    sizes = sorted({size for case in cases for size in case.speedups})
    return PublishedCase(
        workflow=BASELINE,
        stack=cases[0].stack,
        speedups=dict.fromkeys(sizes, (1.0, 1.0)),
        compile_seconds=0.0,
        sections=cases[0].sections,
        contradicts=(),
    )


def _case(
    workflow: str, stack: str, figures: Sequence[PublishedFigure], batch_sizes: Sequence[int]
) -> PublishedCase | None:
    own = [figure for figure in figures if figure.workflow == workflow]
    speedups, contradicts = {}, []
    for size in batch_sizes:
        found = [
            speedup
            for figure in own
            if size in figure.batch_sizes
            if (speedup := _speedup(figure, figures, size)) is not None
        ]
        if not found:
            continue
        speedups[size] = (min(low for low, _ in found), max(high for _, high in found))
        if max(low for low, _ in found) > min(high for _, high in found) * (1 + AGREEMENT):
            contradicts.append(size)
    if not speedups:
        return None
    builds = [figure.high for figure in own if figure.fact == "compile_seconds"]
    return PublishedCase(
        workflow=workflow,
        stack=stack,
        speedups=speedups,
        compile_seconds=max(builds, default=None),
        sections=tuple(
            sorted({figure.section for figure in own if figure.fact != "peak_memory_gib"})
        ),
        contradicts=tuple(contradicts),
    )


def _speedup(
    figure: PublishedFigure, figures: Sequence[PublishedFigure], size: int
) -> tuple[float, float] | None:
    """Return the speed-up of a figure, stated or relative to the eager figure of its table."""
    if figure.fact == "speedup":
        return figure.low, figure.high
    if figure.fact != "tokens_per_second":
        return None
    eager = [
        other
        for other in figures
        if other.workflow == BASELINE and other.fact == figure.fact and size in other.batch_sizes
    ]
    return (figure.low / eager[0].high, figure.high / eager[0].low) if eager else None
