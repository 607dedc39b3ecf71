"""Try batch sizes and a length that a program was not built for.

The program serves them, stalls, falls back to eager code, refuses, or returns wrong outputs. The
new batches consist of rows of a built one. In most models a row's output does not depend on the
other rows, so the correct outputs are known without another reference. The reference worker
records which models have coupled rows: CLIP, for example, compares all rows, and models that return
the states of an LSTM have outputs without rows.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import Any

from probes.arrays import np
from probes.checking import program_cell, text_correctness
from probes.checking.deviation import root_mean_square, sample, subtract, unmasked
from probes.checking.program_cell import ProgramCell
from probes.checking.rules import Rules, allowed_error
from probes.checking.stored_reference import Reference
from probes.checking.text_reference import TokenReference
from probes.device_work import run_queue_seconds
from probes.events import STALL_RATIO, STALL_SECONDS, NewShapeHandling, NewShapeResult
from probes.protocol import Request
from probes.runtime.failures import try_optional
from probes.shape import Shape, other_length

#: The fastest of several steady calls counts, so that a burst of load does not show: at most this
#: many, and after the minimum no further ones once they have taken this long.
MOST_STEADY_CALLS, FEWEST_STEADY_CALLS, STEADY_CALL_SECONDS = 30, 3, 0.25
#: No further size is tried after this long: an arm that rebuilds for half a minute for each size
#: has shown its behaviour.
MAX_SECONDS = 30.0
#: Allowed error, in multiples of the usual one: the outputs that it is compared with are the
#: program's own for a built batch size, which have an error too.
ALLOWED_TIMES = 2
OTHER_SHAPES = "it returns outputs of other shapes than the model"


def new_batch_sizes(built: list[int], *, short: bool = False) -> list[int]:
    largest = max(built)
    # Most stacks that refuse or rebuild for any of these sizes do so for this one.
    further = set() if short else {1, 2, 3, 2 * largest}
    return sorted({largest + 1, *further} - set(built))


def is_batched(arrays: list[Any], batch_size: int) -> bool:
    return all(array.ndim > 0 and array.shape[0] == batch_size for array in arrays)


def take_rows(arrays: list[Any], batch_size: int) -> list[Any]:
    """Return the first `batch_size` rows of each numpy array; repeat them if there are too few."""
    return [
        array.take(range(batch_size), axis=0, mode="wrap") if array.ndim else array
        for array in arrays
    ]


def read_coupled_rows(request: Request) -> bool | None:
    file = coupled_rows_file(request)
    return json.loads(file.read_text()) if file.exists() else None


def has_coupled_rows(cell: ProgramCell, reference: Reference, built: list[int]) -> bool:
    """Take eager PyTorch's cell of the largest batch; outputs without rows count as coupled.

    A batch size that the model refuses says nothing: every worker refuses it.
    """
    inputs = reference.inputs[0]
    known = cell.call(inputs)
    tensors = [each for each in known if isinstance(each, np.ndarray)]
    is_coupled = not is_batched(tensors, len(inputs[0]))
    for size in (1, max(built) + 1):
        outputs = try_optional(functools.partial(cell.call, take_rows(inputs, size)))
        is_coupled = is_coupled or (
            outputs is not None
            and find_difference(outputs, take_rows(known, size), reference, cell.rules) is not None
        )
    return is_coupled


def coupled_rows_file(request: Request) -> pathlib.Path:
    return pathlib.Path(request.shared_directory) / "coupled-rows.json"


def length_file(request: Request) -> pathlib.Path:
    return pathlib.Path(request.shared_directory) / "length.json"


@dataclasses.dataclass(frozen=True)
class NewShape:
    shape: Shape
    #: The cell whose program is called.
    cell: ProgramCell
    inputs: list[Any]
    #: Returns what is wrong with outputs for these inputs; None if nothing is.
    find_fault: Callable[[list[Any]], str | None]

    def call(self) -> NewShapeResult:
        """Call the program; an exception of the stack is a refusal, which is left to the caller.

        The first call counts without the time in which its thread waited for a processor, because
        such a delay of a busy machine is no build.
        """
        program, device_inputs = self.cell.program, self.cell.program.feed(self.inputs)
        waited = run_queue_seconds()
        first, output = _time_call(self.cell, device_inputs)
        waited = run_queue_seconds() - waited
        outputs = program.collect(output)
        seconds: list[float] = []
        while len(seconds) < FEWEST_STEADY_CALLS or (
            len(seconds) < MOST_STEADY_CALLS and sum(seconds) < STEADY_CALL_SECONDS
        ):
            seconds.append(_time_call(self.cell, device_inputs)[0])
        steady = min(seconds)
        first = max(first - waited, min(first, steady))
        reason = self.find_fault(outputs)
        is_stalled = first > max(STALL_RATIO * steady, STALL_SECONDS)
        handling: NewShapeHandling = "stalled" if is_stalled else "served"
        return NewShapeResult(self.shape, "wrong" if reason else handling, first, steady, reason)


def new_shapes(
    cells: Mapping[Shape, ProgramCell], request: Request, *, short: bool
) -> Iterator[NewShape]:
    """Yield what is tried.

    The program of the largest built shape tries the batch sizes, unless rows depend on each other;
    that of the smallest one tries the length, if there is a reference for it.
    """
    largest, cell = max(cells), cells[max(cells)]
    is_possible = is_batched(cell.reference.inputs[0], largest.batch_size)
    if is_possible and not read_coupled_rows(request):
        for size in new_batch_sizes(request.batch_sizes, short=short):
            yield of_batch_size(cell, size)
    if request.new_shapes and length_file(request).exists():
        changed = at_new_length(request, json.loads(length_file(request).read_text()))
        (shape,) = changed.shapes
        reference = program_cell.load_reference(changed, shape)
        smallest = dataclasses.replace(
            cells[request.shapes[0]], shape=shape, reference=reference, device_inputs=[]
        )
        yield NewShape(
            Shape(shape.batch_size, changed.input_tokens),
            smallest,
            reference.inputs[0],
            lambda outputs: smallest.judge([outputs])[1],
        )


def of_batch_size(cell: ProgramCell, size: int) -> NewShape:
    """Return a batch of `size` rows of the built one; a text of rows is compared row by row."""
    reference, rules = cell.reference, cell.rules
    is_text = isinstance(reference, TokenReference)
    # Before the call of the new shape, which may break the program.
    expected = [] if is_text else take_rows(cell.call(reference.inputs[0]), size)

    def find_fault(outputs: list[Any]) -> str | None:
        if isinstance(reference, TokenReference):
            rows = [row % len(reference.tokens[0]) for row in range(size)]
            return text_correctness.find_fault(outputs[0], reference, rules, rows)
        return find_difference(outputs, expected, reference, rules)

    return NewShape(Shape(size), cell, take_rows(reference.inputs[0], size), find_fault)


def find_difference(
    outputs: list[Any], expected: list[Any], reference: Reference, rules: Rules
) -> str | None:
    """Return how the outputs differ; None if by no more than twice the allowed error."""
    outputs, expected = (
        reference.keep_compared([sample(each) for each in reference.with_values(0, every)])
        for every in (outputs, expected)
    )
    reference = reference.compared()
    if [array.size for array in outputs] != [array.size for array in expected]:
        return OTHER_SHAPES
    for index, (array, target) in enumerate(zip(outputs, expected, strict=True)):
        built, limits = reference.outputs[0][index], reference.limits(index, rules)
        if built.is_value:  # which may be the number of rows
            continue
        if not built.is_float:
            most = ALLOWED_TIMES * limits.difference(target.size)
            differing = float((array != target).mean()) if target.size else 0.0
            if differing > most:
                return (
                    f"{differing * 100:.2f} % of its integers differ from the rows of a batch that"
                    " it was built for"
                )
            continue
        scale = root_mean_square(unmasked(target))
        share = limits.rounding(0) / built.scale if built.scale else 0.0
        allowed = ALLOWED_TIMES * allowed_error(scale, share * scale, rules)
        error = root_mean_square(subtract(array, target))
        if not error <= allowed:  # also true for NaN
            return (
                f"its error {error:.2e} against the rows of a batch that it was built for is"
                f" above the allowed {allowed:.2e}"
            )
    return None


def _time_call(cell: ProgramCell, device_inputs: Any) -> tuple[float, Any]:
    start = perf_counter()
    output = cell.program(device_inputs)
    cell.workflow.synchronise()
    return perf_counter() - start, output


def at_new_length(request: Request, built: int) -> Request:
    """Return the request for the smallest shape, with one input set and another length."""
    shortest = request.at(request.shapes[0])
    return dataclasses.replace(
        shortest,
        batch_sizes=[min(request.batch_sizes)],
        input_tokens=other_length(built),
        lengths=[],
        input_sets=1,
        shared_directory=str(pathlib.Path(request.shared_directory) / "new-length"),
    )
