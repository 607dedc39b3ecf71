"""Find out how the calls of a module depend on each other, and which of its outputs are random.

Compared calls draw the same random numbers: those of PyTorch, numpy and Python, of generators that
the module holds, and the entropy by which new ones are seeded. What differs all the same is a state
or, where nothing that the module can reach has changed, drawn in a way that no seed fixes.
"""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

from probes import arrays
from probes.adapter import Findings, ModelError
from probes.subjects.call_inputs import StructuredCall
from probes.subjects.higher_precision import REFUSALS
from probes.subjects.module_state import Generator, State, restored
from probes.subjects.row_parts import is_near

#: Number of states that a reason names.
MAX_NAMED = 3
#: A state may take some calls to show: their number, and the seconds after which they end.
LATER_CALLS, LATER_SECONDS = 40, 1.0
#: Pairs of calls with other random numbers, if they take no longer.
PAIRS = 16
#: What a call changes that prints, logs or writes to a file.
PRINTED = "printed text or files"
Tensors = tuple[torch.Tensor, ...]
Call = Callable[[Tensors], list[Any]]


def find_random_outputs(
    module: torch.nn.Module,
    make_tensors: Sequence[Callable[[], Tensors]],
    call: Call,
    make_others: Sequence[Callable[[], Tensors]] = (),
) -> Findings:
    """Return which outputs are random, whether a call draws any numbers, and what it changes.

    Random are the elements that differ in each pair of calls, if all others never differ, else the
    whole output. Raise `ModelError` if a later call differs because one changed an input or a
    state: a race calls the same module with the same tensors again and again, and exporters drop
    such changes. `make_tensors` has a function for each input set, and `call` returns copies. With
    `make_others`, whose inputs a model may refuse, other parts of a state may be written.
    """
    for cached in State(module, reads_tensors=False).caches:
        cached.cache_clear()
    before = State(module)
    draws: list[bool] = []

    def call_seeded(tensors: Tensors) -> list[Any]:
        with seeded(before.generators) as has_drawn:
            outputs = call(tensors)
            draws.append(has_drawn())
        return outputs

    with restored(module):
        calls = _call_in_a_row(module, make_tensors, call_seeded, before)
        if calls.changed and not _has_other_tensors(calls.first, calls.again):
            known = [*draws]
            calls = _call_after_others(module, [*make_others, make_tensors[0]], call_seeded, calls)
            draws[:] = known
    for cached in before.caches:
        cached.cache_clear()
    with restored(module):
        fresh = call_seeded(make_tensors[-1]())
    is_same = not (
        _has_other_tensors(calls.first, calls.again) or _has_other_tensors(calls.outputs[-1], fresh)
    )
    if not is_same and calls.changed:
        is_lasting = bool(before.changed(State(module)))
        with restored(module):
            if is_lasting or not _has_other_tensors(calls.first, call_seeded(make_tensors[0]())):
                raise _state_error(module, calls.changed)
    changes = tuple(calls.changes)
    if is_same and not any(draws):
        counts = dict.fromkeys(_differing(calls.first, calls.again))  # such as of the calls so far
        return Findings(counts, changed_states=changes, outputs=calls.outputs)
    with restored(module):
        pairs = list(_call_in_pairs(call, make_tensors))
    differing = [_differing(*pair, is_exact=is_same) for pair in pairs]
    return Findings(
        {index: _random_elements(pairs, index) for index in sorted(set().union(*differing))},
        tuple(sorted(set.intersection(*differing))),
        draws=any(draws),
        changed_states=changes,
    )


class _Calls(NamedTuple):
    """Calls of the same module, one after the other."""

    #: Outputs for the first input set, of the first call and of a later one: one that differs, if
    #: any does.
    first: list[Any]
    again: list[Any]
    #: The outputs for each input set.
    outputs: list[list[Any]]
    #: States that differ from those before all calls, and what calls after the first change.
    changed: list[str]
    changes: list[str]


def _call_in_a_row(
    module: torch.nn.Module,
    make_tensors: Sequence[Callable[[], Tensors]],
    call_seeded: Call,
    before: State,
) -> _Calls:
    tensors = make_tensors[0]()
    first = call_seeded(tensors)
    inputs = [
        f"input {number}"
        for number, (one, other) in enumerate(zip(tensors, make_tensors[0](), strict=True), 1)
        if one.shape != other.shape or not torch.allclose(one, other, 0, 0, equal_nan=True)
    ]
    if inputs and _has_other_tensors(first, call_seeded(tensors)):
        reason = "the model changes its inputs in place, so a second call with them differs"
        raise ModelError(reason, "let forward change a copy, such as x = x.clone()")
    settled, start = State(module), perf_counter()
    changed = before.changed(settled)
    outputs, written = [], [_written_bytes()]
    for make in make_tensors:
        outputs.append(call_seeded(make()))
        written.append(_written_bytes())
    # What only the first call fills, such as a table, is nothing that later ones have to do.
    changes = [*inputs, *(settled.changed(State(module)) if changed else ())]
    # A single call may fill a cache of a library.
    changes += [PRINTED] if all(one < other for one, other in itertools.pairwise(written)) else []
    again = _repeat(lambda: call_seeded(make_tensors[0]()), first, outputs[0], changed, start)
    last = State(module)
    changed += [name for name in before.changed(last) if name not in changed]
    changes += [name for name in settled.changed(last) if name not in changes]
    return _Calls(first, again, outputs, changed, changes)


def _call_after_others(
    module: torch.nn.Module,
    make_tensors: Sequence[Callable[[], Tensors]],
    call: Call,
    calls: _Calls,
) -> _Calls:
    """Return the calls with one of the last inputs that follows one of others and differs, if any.

    An input that the model refuses is left out: the call may leave a state half written.
    """
    *make_others, make_first = make_tensors
    for make in make_others:
        with contextlib.suppress(*REFUSALS):
            with restored(module):
                call(make())
            call(make())
            if _has_other_tensors(calls.first, again := call(make_first())):
                return calls._replace(again=again)
    return calls


def _written_bytes() -> int:
    """Return what this process has written so far; 0 where the system does not tell."""
    # A model may close or replace its streams.
    with contextlib.suppress(AttributeError, OSError, StopIteration, ValueError):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        lines = pathlib.Path("/proc/self/io").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("wchar:")).split()[1])
    return 0


def _repeat(
    call_again: Callable[[], list[Any]],
    first: list[Any],
    again: list[Any],
    changed: Sequence[str],
    start: float,
) -> list[Any]:
    """Return the first output that differs from `first`, else the last before `LATER_SECONDS`."""
    for number in range(LATER_CALLS if changed else 1):
        is_late = perf_counter() - start > LATER_SECONDS
        if _has_other_tensors(first, again) or (is_late and (number or not changed)):
            break
        again = call_again()
    return again


def _state_error(module: torch.nn.Module, changed: Sequence[str]) -> ModelError:
    if isinstance(module, StructuredCall) and {*changed} <= {"arguments", "keywords"}:
        return ModelError(
            "each call changes an example input that is not a tensor, so a later call differs",
            "let forward take its tensors, and make the other object, such as a cache, of them",
        )
    more = ", ..." if len(changed) > MAX_NAMED else ""
    return ModelError(
        f"calls change a state of the model ({', '.join(changed[:MAX_NAMED])}{more}), so later ones"
        " may differ",
        "let forward take such a state as an input and return the new one, or change it in"
        " training mode only (if self.training:)",
    )


def at_other_positions(input_sets: list[list[Any]]) -> Iterator[list[Any]]:
    """Yield the first set with one less for each integer above 1 that all sets have in common.

    Such are positions at which a state is written. 0 and 1 are mostly masks and kinds of tokens.
    """
    first, *others = input_sets
    for index, array in enumerate(first):
        is_same = all(np.array_equal(array, each[index]) for each in others)
        if array.dtype.kind in "iu" and array.size and is_same and array.min() > 1:
            yield [*first[:index], np.asarray(array - 1), *first[index + 1 :]]


def _call_in_pairs(
    call: Call, make_tensors: Sequence[Callable[[], Tensors]]
) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield outputs of two calls with other random numbers, more than once for fast models."""
    start = perf_counter()
    for number in range(PAIRS):
        if number >= len(make_tensors) and perf_counter() - start > LATER_SECONDS:
            return
        make = make_tensors[number % len(make_tensors)]
        yield _call_freely(call, make(), 2 * number), _call_freely(call, make(), 2 * number + 1)


def _random_elements(pairs: Sequence[tuple[list[Any], list[Any]]], index: int) -> Any:
    """Return None if an element differs in some pairs only: others may be equal by chance."""
    of_pairs = [
        (one[index], other[index]) for one, other in pairs if index < min(len(one), len(other))
    ]
    shapes = {array.shape for pair in of_pairs for array in pair}
    if len(of_pairs) < len(pairs) or len(pairs) < PAIRS or len(shapes) > 1:
        return None
    differing = np.array([one != other for one, other in of_pairs])
    always, never = differing.all(0), ~differing.any(0)
    return always if (always | never).all() and never.any() else None


@contextlib.contextmanager
def seeded(generators: Sequence[Generator]) -> Iterator[Callable[[], bool]]:
    """Draw the same random numbers in each such context.

    Yield a function that tells whether any were drawn. Generators of the module begin in the state
    that they have at first, and have it again at the end.
    """
    shared: list[Generator] = [
        (torch.get_rng_state, torch.set_rng_state),
        (np.random.get_state, np.random.set_state),
        (random.getstate, random.setstate),
    ]
    if torch.cuda.is_initialized():
        shared.append((torch.cuda.get_rng_state, torch.cuda.set_rng_state))
    every = (*shared, *generators)
    states = [read() for read, _ in every]
    entropy = np.random.default_rng(0)
    drawn: list[int] = []

    def draw_bytes(count: int) -> bytes:
        drawn.append(count)
        return entropy.bytes(count)

    original = vars(random)["_urandom"]
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - the generator of the user's code
    random.seed(0)
    # New generators of numpy take it for a seed.
    vars(random)["_urandom"] = draw_bytes
    begun = [_as_text(read()) for read, _ in every]
    try:
        yield lambda: bool(drawn) or begun != [_as_text(read()) for read, _ in every]
    finally:
        vars(random)["_urandom"] = original
        for (_, write), state in zip(every, states, strict=True):
            write(state)


def _as_text(state: Any) -> str:
    return repr(state.tolist() if isinstance(state, torch.Tensor) else state)


def _call_freely(call: Call, tensors: Tensors, seed: int) -> list[Any]:
    """Call with other random numbers for each seed; generators of the module go on."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return call(tensors)


def _differing(one: list[Any], other: list[Any], *, is_exact: bool = True) -> set[int]:
    """Return the numbers of the outputs that differ, or do by more than noise if not `is_exact`."""
    if len(one) != len(other):
        return set(range(max(len(one), len(other))))
    return {
        index
        for index, (ones, others) in enumerate(zip(one, other, strict=True))
        if not arrays.is_same(ones, others) and (is_exact or not _is_noise(ones, others))
    }


def _has_other_tensors(one: list[Any], other: list[Any]) -> bool:
    return len(one) != len(other) or any(
        isinstance(one[index], np.ndarray) for index in _differing(one, other)
    )


def _is_noise(one: Any, other: Any) -> bool:
    """Return whether sums in another order account for the difference."""
    if one.shape != other.shape or one.dtype.kind != "f":
        return False
    return is_near(one, other, np.sqrt(np.finfo(one.dtype).eps))
