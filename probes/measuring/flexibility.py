"""What a built program does with batch sizes it was not built for: serve them, stall, fall back to eager code, refuse, or answer wrongly.

The new batches are made of the rows of a built one, so the right answer is known without another
reference: a row's output does not depend on its neighbours.
"""

from __future__ import annotations

import time
from typing import Any

from probes.adapter import Program
from probes.checking import correctness, text_correctness
from probes.checking.correctness import Reference
from probes.checking.text_correctness import TokenReference
from probes.protocol import NewShapeResult

STEADY_CALLS = 3
#: A first call this much longer than the steady ones, and at least this long, is a stall that a
#: user would notice.
STALL_RATIO, STALL_SECONDS = 10.0, 0.25
#: After this long no further size is tried: an arm that builds anew for half a minute a size has
#: shown what it does.
ENOUGH_SECONDS = 30.0


def new_batch_sizes(built: list[int]) -> list[int]:
    """Return the batch sizes to try: small ones, the one beside the largest built, and twice it; none that was built."""
    largest = max(built)
    return sorted({1, 2, 3, largest + 1, 2 * largest} - set(built))


def is_batched(arrays: list[Any], batch_size: int) -> bool:
    """Say whether each array's first dimension is the batch, so that its rows make other batches."""
    return all(array.ndim > 0 and array.shape[0] == batch_size for array in arrays)


def take_rows(arrays: list[Any], batch_size: int) -> list[Any]:
    """Return `batch_size` rows of each array, from the first on and again when they run out."""
    return [array.take(range(batch_size), axis=0, mode="wrap") for array in arrays]


def try_batch_size(
    workflow: Any,
    program: Program,
    reference: Reference | TokenReference,
    dtype: str,
    batch_size: int,
) -> NewShapeResult:
    """Call `program`, which serves `reference`'s shapes, with another batch size.

    Whatever the stack raises is the caller's to report as a refusal.
    """
    _, known = _timed(workflow, program, program.feed(reference.inputs[0]))
    rows = take_rows(program.collect(known), batch_size)
    fed = program.feed(take_rows(reference.inputs[0], batch_size))
    first, output = _timed(workflow, program, fed)
    outputs = program.collect(output)
    fastest = min(_timed(workflow, program, fed)[0] for _ in range(STEADY_CALLS))
    if isinstance(reference, TokenReference):
        reason = text_correctness.find_fault(outputs[0], reference, batch_size, dtype)
    else:
        reason = compare(
            [correctness.sample(array) for array in outputs],
            [correctness.sample(array) for array in rows],
            reference,
            dtype,
        )
    stalled = first > max(STALL_RATIO * fastest, STALL_SECONDS)
    return NewShapeResult(
        batch_size,
        "wrong" if reason else "stalled" if stalled else "served",
        first,
        fastest,
        reason,
    )


def compare(got: list[Any], wanted: list[Any], reference: Reference, dtype: str) -> str | None:
    """Return in words how `got` differs from `wanted` by more than twice what the rule of `checking.correctness` allows; None if not.

    Twice, because the known rows have an error of their own.
    """
    if [array.size for array in got] != [array.size for array in wanted]:
        return "it returns outputs of other shapes than the model"
    for place, (array, target) in enumerate(zip(got, wanted, strict=True)):
        scale = correctness.root_mean_square(reference.expected[0][place])
        share = reference.eager_errors[0][place] / scale if scale else 0.0
        error = correctness.measure_error(
            array, target, share * correctness.root_mean_square(target), dtype
        )
        if not error.share_of_allowed <= 2:  # noqa: PLR2004 - see above; a NaN is not below it either
            return f"its error {error.rmse:.2e} against the rows of a batch that it was built for is above the allowed {2 * error.allowed:.2e}"
    return None


def _timed(workflow: Any, program: Program, fed: Any) -> tuple[float, Any]:
    """Run once, to the end; return the seconds and the output."""
    start = time.perf_counter()
    output = program(fed)
    workflow.synchronise()
    return time.perf_counter() - start, output
