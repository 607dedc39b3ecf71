"""The program of a cell and its reference; the task chooses how outputs are checked.

The reference decides after that: arrays for a forward pass, tokens for generated text.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from probes import arrays, protocol
from probes.accuracy import Checked
from probes.adapter import Program, TokenLogprobs, Workflow
from probes.checking import (
    correctness,
    output_check,
    stored_reference,
    text_correctness,
    text_reference,
)
from probes.checking.rules import Rules
from probes.shape import Shape

#: Seconds between two looks for a reference.
POLL_SECONDS = 0.05
#: Fewer calls may return the same few elements by chance.
VARYING_CALLS = 8
AnyReference = stored_reference.Reference | text_reference.TokenReference


def run_program(
    workflow: Workflow, program: Program, device_inputs: Sequence[Any]
) -> Iterator[list[Any]]:
    """Yield the program's outputs on the host, one list of numpy arrays for each input set."""
    for value in device_inputs:
        output = program(value)
        workflow.synchronise()
        yield program.collect(output)


def reference_file(request: protocol.Request, shape: Shape) -> pathlib.Path:
    return pathlib.Path(request.shared_directory) / f"reference-{shape}.npz"


def inputs_file(request: protocol.Request, shape: Shape) -> pathlib.Path:
    return pathlib.Path(request.shared_directory) / f"inputs-{shape}.npz"


def load_inputs(request: protocol.Request, shape: Shape) -> list[list[Any]]:
    return arrays.load(inputs_file(request, shape), list)


def load_reference(request: protocol.Request, shape: Shape) -> AnyReference:
    """Return the reference as soon as its worker has written it; the advisor ends a vain wait."""
    file = reference_file(request, shape)
    while not file.exists():
        time.sleep(POLL_SECONDS)
    return (
        text_reference.load_reference(file)
        if request.task == protocol.GENERATE
        else stored_reference.load_reference(file)
    )


@dataclasses.dataclass(frozen=True)
class ProgramCell:
    """The program for a shape, and what its outputs are compared with."""

    workflow: Workflow
    shape: Shape
    #: A `probes.adapter.Program`, or a `TextProgram`.
    program: Any
    #: The program's inputs, one entry for each input set.
    device_inputs: list[Any]
    reference: AnyReference
    rules: Rules
    #: Whether the outputs are close and not exact.
    is_close: bool = False

    def call(self, inputs: list[Any]) -> list[Any]:
        return next(run_program(self.workflow, self.program, [self.program.feed(inputs)]))

    def check(self, *, with_logprobs: bool = True) -> tuple[Checked, str | None]:
        """Return a reason if they are wrong. Timed calls compute no log probabilities of text."""
        reference, scored = self.reference, iter(())
        score = getattr(self.program, "score", None)
        if with_logprobs and score and isinstance(reference, text_reference.TokenReference):
            pairs = zip(self.device_inputs, reference.tokens, strict=True)
            scored = (score(value, tokens, reference.rows) for value, tokens in pairs)
        return self.judge(run_program(self.workflow, self.program, self.device_inputs), scored)

    def judge(
        self, produced: Iterable[list[Any]], scored: Iterable[TokenLogprobs] = ()
    ) -> tuple[Checked, str | None]:
        if isinstance(self.reference, stored_reference.Reference):
            return correctness.check_outputs(self.reference, produced, self.rules, self.shape)
        return text_correctness.check_tokens(
            self.reference, produced, scored, self.rules, self.shape
        )

    def check_repeats(self, limits: Mapping[str, Any]) -> tuple[int, str | None]:
        """Call the program again with the first input set.

        Return the number of calls and, if their results differ by more than rounding, how. A model
        whose outputs cannot be compared is not called again.
        """
        reference = self.reference
        if isinstance(reference, stored_reference.Reference):
            if len(reference.uncompared) == len(reference.outputs[0]):
                return 0, None
            compare = functools.partial(output_check.compare_arrays, reference, self.rules)
        else:
            compare = functools.partial(text_correctness.compare_texts, reference, self.rules)
        return output_check.repeat(lambda: next(self._call_again(1)), compare, limits)

    def _call_again(self, count: int) -> Iterator[list[Any]]:
        """Call with the first input set; add numbers and texts that the stack leaves out."""
        reference = self.reference
        calls = run_program(self.workflow, self.program, self.device_inputs[:1] * count)
        if isinstance(reference, stored_reference.Reference):
            return (reference.with_values(0, outputs) for outputs in calls)
        return calls

    def is_fixed(self) -> bool:
        """Return whether calls return an output again that the model draws anew each time."""
        if isinstance(self.reference, text_reference.TokenReference):
            return False
        varying = self.reference.findings.varying
        if not varying:
            return False
        calls = self._call_again(VARYING_CALLS)
        first = [array.copy() for array in next(calls)]
        known = [number for number in varying if number < len(first)]
        return all(
            any(arrays.np.array_equal(first[number], outputs[number]) for number in known)
            for outputs in calls
        )


def eager_allowance(
    reference: AnyReference, rules: Rules, *, is_close: bool
) -> tuple[float | None, ...] | float:
    """Return what a comparison with eager PyTorch instead of the reference has to allow.

    For a forward pass that is, for each tensor, the error that rounding accounts for or, where the
    outputs are close, the user's tolerance; None for one that is random or depends on the order of
    equal values. For integers it is the share that may differ, and for generated text
    how much eager may prefer another token, in nats.
    """
    if isinstance(reference, text_reference.TokenReference):
        # The log probabilities of eager PyTorch have errors too.
        return text_correctness.allowed_gap(reference, rules) + 2 * reference.eager.largest
    tolerance = rules.tolerance / rules.eager_times if is_close else 0.0
    allowances: list[float | None] = []
    for index, expected in enumerate(reference.outputs[0]):
        limits = reference.limits(index, rules)
        if expected.is_value:
            continue
        # Elements that depend on the order of equal values may be others in eager PyTorch.
        left_out = max(
            (output.values.size - output.compared_elements) / (output.values.size or 1)
            for output in limits.of_sets
        )
        if index in reference.uncompared or expected.keys or (left_out and expected.is_float):
            allowances.append(None)
        elif expected.is_float:
            rounding = map(limits.rounding, range(len(limits.of_sets)))
            largest = max(output.scale for output in limits.of_sets)
            allowances.append(max(*rounding, tolerance * largest))
        else:
            eager = max(output.eager.differing for output in limits.of_sets)
            most = limits.difference(expected.values.size)
            most = max(most, rules.tolerance if is_close else 0.0)
            allowances.append(eager + most + left_out)
    return tuple(allowances)
