"""Open the request's model as a PyTorch module with inputs, with weights shared by all workers."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from probes.adapter import NO_LENGTH, Findings, ModelError, Subject
from probes.events import Workload
from probes.facts import InputSpec
from probes.protocol import Request
from probes.shape import Shape, other_length
from probes.subjects import (
    adjustments,
    call_effects,
    call_inputs,
    equal_keys,
    higher_precision,
    modes,
    module_state,
    row_parts,
)
from probes.subjects.higher_precision import ReferencePrecision
from probes.subjects.loaded_model import LoadedModel, floating_dtype, resize
from probes.subjects.outputs import collect, count_classes, count_flops, unseen_types

TimeLimit: TypeAlias = Callable[[], contextlib.AbstractContextManager[None]]
#: The reference of a larger model is computed in float32, because a float64 copy seldom fits in
#: memory next to it.
MAX_FLOAT64_PARAMETERS = 2_000_000_000

#: Smaller second dimensions of example inputs are channels or coordinates.
SHORTEST_LENGTH = 4
#: Batch, channels, height and width.
IMAGE_DIMENSIONS = 4
#: Copying and comparing larger outputs takes seconds for each input set.
MANY_OUTPUT_ELEMENTS, FEWEST_SETS = 1 << 25, 2
#: So do longer calls by themselves.
SLOW_CALL_SECONDS = 1.0
#: No further input set is used once all of them have as many rows.
ENOUGH_ROWS = 8


class TorchSubject(Subject):
    """A PyTorch module on its device, in the tested precision; see `probes.adapter.Subject`."""

    def __init__(self, model: LoadedModel, request: Request) -> None:
        self.module = model.module
        self.parameters = sum(parameter.numel() for parameter in model.module.parameters())
        self.parameter_bytes = sum(parameter.nbytes for parameter in model.module.parameters())
        self.adjusted = model.adjusted
        self.fixed_mode = model.fixed_mode
        self.complex_weights = higher_precision.has_complex_weights(model.module)
        self.unit = model.unit
        self.units_per_sample = model.units_per_sample
        self._own = floating_dtype(model)
        self.dtype = str(self._own).removeprefix("torch.")
        self.class_counts = count_classes(model.module)
        self._arguments, self._names = model.arguments, model.names
        if any(len(each.shape) + each.batched == IMAGE_DIMENSIONS for each in self._arguments):
            layers = model.module.modules()
            self.convolutions = sum(isinstance(layer, torch.nn.Conv2d) for layer in layers)
        self._device = torch.device(request.device)
        self._seed = request.seed
        self._request = request
        #: The size of the inputs' second dimension that is replaced, and the one that replaces it.
        self._resized: tuple[int, int] | None = None
        #: Precision of the reference.
        self._precision = ReferencePrecision(torch.float64, self._own)
        #: Output elements and seconds of the last call of the module.
        self._output_elements = 0
        self._call_seconds = 0.0
        #: What `examine_calls` has found: random outputs, operators and precisions.
        self._random: Mapping[int, Any] = {}
        self._eager: list[Any] | None = None
        self._observed = equal_keys.Observer()
        self._places_matter = False
        self._settings = adjustments.read_settings()

    def inputs(self, batch_size: int, number: int) -> list[Any]:
        generator = np.random.default_rng([self._seed, batch_size, number])
        drawn = [argument.draw(generator, batch_size) for argument in self._arguments]
        return resize(drawn, *self._resized) if self._resized else drawn

    @property
    def has_length(self) -> bool:
        """Whether a call has a length of its own: tokens, or the positions of synthetic models."""
        return self.unit == "tokens" or self._request.subject["kind"] == "synthetic"

    def length(self, request: Request) -> int | None:
        return request.input_tokens if self.has_length else self._length_of_examples

    @functools.cached_property
    def _length_of_examples(self) -> int | None:
        sizes = collections.Counter(
            each.shape[0] for each in self._arguments if each.batched and each.shape
        )
        inputs = self.inputs(min(self._request.batch_sizes), 0)
        return next(
            (
                size
                for size, _ in sizes.most_common()
                if size >= SHORTEST_LENGTH and self._takes(resize(inputs, size, other_length(size)))
            ),
            None,
        )

    def at(self, request: Request) -> TorchSubject:
        built = self.length(self._request)
        if built is None:
            raise ModelError(*NO_LENGTH)
        changed = copy.copy(self)
        changed._resized = (built, request.input_tokens)  # noqa: SLF001 - a copy of this object
        return changed

    def settle_inputs(self, batch_size: int, input_sets: int) -> int:
        """Use the values of the examples from now on if the model refuses, or hangs with, others.

        Return the number of input sets to use: fewer than `input_sets` where outputs are large,
        calls slow, or a set has many rows. All of them are tried unless calls are slow: a mask may
        leave out too much in one of them only. A model that does not take the examples either keeps
        the random values. Raise `ModelError` for one that takes them, but not this number of rows.
        """
        drawn = self._arguments
        examples = [each for each in drawn if isinstance(each, call_inputs.ExampleLike)]
        if not examples:
            self._takes(self.inputs(batch_size, 0))
            return self._count_sets(batch_size, input_sets)
        *_, self._arguments = call_inputs.alternatives(drawn)
        limit: TimeLimit = contextlib.nullcontext
        if self._takes(self.inputs(batch_size, 0)):
            limit = functools.partial(higher_precision.time_limit, self._call_seconds)
        for arguments in call_inputs.alternatives(drawn):
            self._arguments = arguments
            number = 0
            while self._takes(self.inputs(batch_size, number), limit):
                number += 1
                count = self._count_sets(batch_size, input_sets)
                if number == count or self._call_seconds > SLOW_CALL_SECONDS:
                    return count
        rows = {len(each.example) for each in examples if each.batched}
        # The last alternative has the rows of the examples.
        for own in rows - {batch_size}:
            if self._takes(self.inputs(own, 0)):
                reason = (
                    f"the model takes its example inputs of {own} rows, but not batch size"
                    f" {batch_size}"
                )
                raise ModelError(reason, call_inputs.name_rows(own, is_nested=self._names is None))
        self._arguments = drawn
        return input_sets

    def _count_sets(self, batch_size: int, input_sets: int) -> int:
        is_costly = (
            self._output_elements > MANY_OUTPUT_ELEMENTS or self._call_seconds > SLOW_CALL_SECONDS
        )
        enough = 0 if is_costly else math.ceil(ENOUGH_ROWS / batch_size)
        return min(input_sets, max(enough, FEWEST_SETS))

    @property
    def has_batch(self) -> bool:
        """Whether any input has a batch dimension; otherwise all have the examples' shapes."""
        return any(each.batched for each in self._arguments)

    def _takes(self, inputs: list[Any], limit: TimeLimit = contextlib.nullcontext) -> bool:
        """Return whether the model computes numbers from these inputs; -inf masks are numbers."""
        try:
            with module_state.restored(self.module), limit():
                outputs = self._call(self.tensors(inputs))
        except torch.OutOfMemoryError:
            raise
        except higher_precision.REFUSALS:
            return False
        self._output_elements = sum(each.size for each in outputs)
        # The largest of values with NaN is NaN.
        return all(each.max(initial=-np.inf) < np.inf for each in outputs if each.dtype.kind == "f")

    def describe_inputs(self) -> tuple[InputSpec, ...]:
        names = self._names or [""] * len(self._arguments)
        return tuple(
            InputSpec(
                name,
                tuple(argument.shape),
                str(argument.dtype).removeprefix("torch."),
                argument.batched,
                argument.low,
                argument.high,
                nested=self._names is None,
                reordered=isinstance(argument, call_inputs.ExampleLike)
                and not argument.example.is_contiguous(),
                rows=len(argument.example)
                if isinstance(argument, call_inputs.ExampleLike) and argument.batched
                else None,
            )
            for name, argument in zip(names, self._arguments, strict=True)
        )

    def tensors(self, inputs: list[Any]) -> tuple[torch.Tensor, ...]:
        """Return copies on the device: a module may change its inputs in place."""
        return tuple(
            argument.lay_out(
                torch.from_numpy(array).to(device=self._device, dtype=argument.dtype, copy=True)
            )
            for array, argument in zip(inputs, self._arguments, strict=True)
        )

    def run(self, inputs: list[Any]) -> list[Any]:
        return self._call(self.tensors(inputs))

    def _call(self, tensors: tuple[torch.Tensor, ...]) -> list[Any]:
        start = time.perf_counter()
        outputs = collect(self.module(*tensors))
        self._call_seconds = time.perf_counter() - start
        return outputs

    def reference(
        self, input_sets: list[list[Any]], *, quick: bool = False
    ) -> tuple[str, Iterator[list[Any]]]:
        """Compute one input set at a time. A module with one precision is its own reference."""
        fits = self.parameters <= MAX_FLOAT64_PARAMETERS and not quick
        higher = [torch.float64, torch.float32] if fits else [torch.float32]
        # The outputs of the first input set in the precision that is chosen.
        known: list[list[Any]] = []
        self._precision = chosen = higher_precision.choose(
            higher,
            self._own,
            lambda option: known.append(self._try_precision(option, input_sets[0])),
        )
        name = self.dtype if chosen.dtype is None else str(chosen.dtype).removeprefix("torch.")
        return name, itertools.chain(known, self._outputs_in(chosen, input_sets[len(known) :]))

    def examine_calls(self, input_sets: list[list[Any]]) -> Findings:
        modes.leave_out_dynamo()
        others = call_effects.at_other_positions(input_sets)
        findings = call_effects.find_random_outputs(
            self.module,
            [functools.partial(self.tensors, inputs) for inputs in input_sets],
            self._call,
            [functools.partial(self.tensors, inputs) for inputs in others],
        )

        def call(mode: contextlib.AbstractContextManager[Any]) -> Any:
            with module_state.restored(self.module), call_effects.seeded(()), mode:
                return self.module(*self.tensors(input_sets[0]))

        try:
            output = call(self._observed)
        except higher_precision.REFUSALS:  # Some compiled code takes no such mode.
            output = call(contextlib.nullcontext())
        # As long as the output is alive.
        self._places_matter = self._observed.places.may_reach_outputs
        self._random = findings.random
        self._eager = findings.outputs[0] if findings.outputs else None
        adjustments.refuse_changed_settings(self._settings)
        return dataclasses.replace(findings, unseen=tuple(sorted(unseen_types(output))))

    def find_ties(self, inputs: list[Any], outputs: list[Any]) -> list[Any] | None:
        if not self._places_matter:
            return None
        return equal_keys.find_tied(
            outputs, lambda: next(self._outputs_in(self._precision, [inputs]))
        )

    def _try_precision(self, option: ReferencePrecision, inputs: list[Any]) -> list[Any]:
        # For example, the grouped matrix products of mixtures of experts have no float64 kernels.
        own = self._eager or self.run(inputs)
        with higher_precision.time_limit(self._call_seconds):
            exact = next(self._outputs_in(option, [inputs]))
        self._precision = option
        own_unit = torch.finfo(self._own).eps
        higher_precision.refuse_unfit(
            exact,
            own,
            (self.perturbed(inputs, seed) for seed in range(higher_precision.PERTURBATIONS)),
            self._random,
            max(self._observed.unit, own_unit),
            own_unit,
        )
        return exact

    def _outputs_in(
        self, option: ReferencePrecision, input_sets: list[list[Any]]
    ) -> Iterator[list[Any]]:
        call = option.call(self.module)
        batched = [argument.batched for argument in self._arguments]
        unit = torch.finfo(self._own).eps
        for inputs in input_sets:
            yield row_parts.run_within_memory(
                lambda arrays: collect(call(*self.tensors(arrays))),
                inputs,
                batched,
                functools.partial(row_parts.has_uncoupled_rows, self.run, inputs, batched, unit),
            )

    def perturbed(self, inputs: list[Any], seed: int) -> list[Any] | None:
        """Return outputs with inputs and weights off by one unit in the last place.

        They are computed in the precision of the reference. If that is the module's own, the unit
        is that of the least exact precision that it computes in, such as autocast's. None if the
        device has no memory.
        """
        if self.parameters > MAX_FLOAT64_PARAMETERS:
            return None
        generator = torch.Generator(device=self._device).manual_seed(seed)
        dtype = self._precision.dtype
        least_unit = 0.0 if dtype else self._observed.unit

        def step(tensor: torch.Tensor, unit: float) -> torch.Tensor:
            moved = higher_precision.step(
                higher_precision.cast(tensor, torch.float64), max(unit, least_unit), generator
            )
            return higher_precision.cast(moved, dtype) if dtype else moved.to(tensor.dtype)

        try:
            moved = higher_precision.copy_module(self.module)
            units = [higher_precision.unit_of(parameter) for parameter in moved.parameters()]
            if dtype:
                moved = higher_precision.cast_module(moved, dtype)
            for parameter, unit in zip(moved.parameters(), units, strict=True):
                parameter.data = step(parameter.data, unit)
            tensors = [step(each, higher_precision.unit_of(each)) for each in self.tensors(inputs)]
            with self._precision.context():
                return collect(moved(*tensors))
        except higher_precision.REFUSALS:
            return None

    def workload(self, shape: Shape, inputs: list[Any]) -> Workload:
        return Workload(
            shape,
            count_flops(lambda: self.module(*self.tensors(inputs))),
            fixed_inputs=sum(each.fixed for each in self._arguments),
            has_length=self.has_length,
            has_batch=self.has_batch,
        )
