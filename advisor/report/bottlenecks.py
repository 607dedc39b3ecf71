"""What limits the calls of the baseline, and which arm gains nevertheless."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from advisor.decide.diagnosis import find_bound
from advisor.domain.answer import Answer
from advisor.domain.measurement import Bound, CallDiagnosis
from advisor.domain.text import write_speedup


class Limit(NamedTuple):
    """What limits a call of the baseline, in words."""

    name: str
    meaning: str
    #: What helps, and which other arms may help if no measured one does.
    helps: str
    otherwise: str


#: What each limit of eager PyTorch means.
LIMITS: Mapping[Bound, Limit] = {
    "launch": Limit(
        "launch-bound",
        "the GPU waits for kernel launches",
        "larger batches help",
        "and CUDA graphs may",
    ),
    "memory": Limit(
        "memory-bound",
        "reading the weights takes most of the time",
        "smaller weights help",
        "a better compiler hardly does",
    ),
    "compute": Limit(
        "compute-bound",
        "arithmetic takes most of the time",
        "a lower precision helps",
        "a better compiler hardly does",
    ),
}
#: A gain that is worth naming an arm for.
NOTABLE_GAIN = 1.1
#: The arm that spares eager PyTorch its launches, and what it gains at least where these limit.
GRAPH, LEAST_GAIN_OF_GRAPH = "pytorch-eager/cuda-graph", 1.25


def describe_bottlenecks(answer: Answer) -> list[str]:
    calls = answer.baseline.diagnosis if answer.baseline else ()
    return list(filter(None, (describe_bottleneck(answer, call) for call in calls)))


def describe_bottleneck(answer: Answer, call: CallDiagnosis) -> str:
    """Return what limits a call of the baseline, and which arm gains nevertheless.

    Empty where no limit is near, or where a graph of all launches hardly gains.
    """
    gains = {
        each.arm: cell.speedup
        for each in answer.results.measurements
        for cell in each.cells
        if each.arm != answer.results.baseline and cell.shape == call.shape and each.is_exact
    }
    # By the present rule: documents of early runs have the bounds of earlier ones.
    bound = find_bound(call.memory_share, call.compute_share, call.device_busy_share)
    limit, of_graph = LIMITS.get(bound), gains.get(GRAPH)
    is_refuted = of_graph is not None and of_graph.value < LEAST_GAIN_OF_GRAPH
    if limit is None or (bound == "launch" and is_refuted):
        return ""
    is_doubtful, otherwise = answer.results.is_unfit, limit.otherwise
    best = max(gains, key=lambda arm: gains[arm].value, default=None)
    if best is not None and gains[best].value >= NOTABLE_GAIN:
        low = gains[best].low
        if not is_doubtful or (low is not None and low > 1):
            gain = write_speedup(gains[best], unfit=is_doubtful, in_words=True)
            otherwise = f"and {answer.titles[best]} is {gain} as fast"
    what = f"{limit.name}: {limit.meaning}; {limit.helps}, {otherwise}"
    return f"At {call.shape.description}, {answer.baseline_title} is {what}."
