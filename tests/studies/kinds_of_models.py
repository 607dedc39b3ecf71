"""Measure how often the check of outputs errs in unusual kinds of models, beside a simple check.

    python tests/studies/kinds_of_models.py    # about 5 minutes

The models are those of `tests/reference_cases.py`, with other weights and inputs for each seed. The
simple check asks whether outputs have the shapes of eager PyTorch and finite values.

- False alarms: right programs that are called wrong, and right models that are refused.
- Misses: faults in outputs that are compared and that are not called wrong, and models with a state
  that are not refused.

The table and `results/kinds-of-models.json` have both by kind.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

import numpy as np
import torch
import workers
from reference_cases import Case, make_case

from probes.adapter import ModelError
from probes.checking import correctness
from probes.subjects.equal_keys import OtherOrder
from probes.wire.shape import Shape

RESULTS = HERE / "results" / "kinds-of-models.json"
#: By half and kind, the models with a state that later calls read, and those without. Those of the
#: second half were written after the check, to judge it.
STATES = {
    "first": {
        "alias of a state": ["returns_changed_buffer", "returns_view_of_buffer"],
        "state": [
            *["keeps_hidden", "counts", "counts_in_its_class", "remembers", "replaces_in_a_list"],
            *["remembers_globally", "keeps_in_a_global", "keeps_in_an_object", "in_closure"],
            *["counts_by_an_iterator", "changes_a_parameter", "changes_a_parameter_slightly"],
            "keeps_the_first_call",
        ],
    },
    "held out": {
        "alias of a state": ["expands_buffer", "splits_buffer", "strides_attribute"],
        "state": [
            *["nests", "counts_in_a_default_dict", "rebinds_a_global", "counts_in_a_function"],
            *["keeps_in_a_default", "keeps_in_slots", "replaces_a_pair", "rolls", "cycles"],
            *["counts_by_a_generator", "cycles_in_a_list", "counts_in_a_context", "in_a_hook"],
            *["counts_in_a_thread", "counts_in_a_partial", "counts_in_bytes", "changes_late"],
            *["counts_in_the_environment", "remembers_a_result"],
        ],
    },
}
KINDS = {
    "first": {
        "pure": ["overwrites_buffer", "logs", "caches", "rounds_inside", "is_complex"],
        "one random output": [
            *["samples", "samples_by_numpy", "samples_by_python", "samples_by_a_new_generator"],
            *["samples_by_a_generator", "samples_without_a_seed", "drops", "samples_once"],
            *["counts_and_draws", "takes_some"],
        ],
        "path by dtype": [
            *["seeds_itself", "makes_a_generator", "doubles_in_double", "scales_in_single"],
        ],
        "ties": ["sorts_equal_keys", "takes_the_largest_of_constants", "gathers_by_ties"],
        "empty output": ["finds_nothing"],
        "objects": ["returns_boxes", "returns_array", "returns_opaque", "returns_number"],
    },
    "held out": {
        "pure": [
            *["logs_in_a_default_dict", "writes_to_scratch", "remembers_a_table"],
            *["returns_its_input", "returns_conjugate", "returns_float8", "masks_by_infinity"],
        ],
        "one random output": [
            *["draws_for_a_row", "joins_mean_and_sample", "returns_distribution"],
            *["draws_from_the_system", "draws_in_some_calls", "hashes"],
        ],
        "path by dtype": [
            *["reads_bits", "draws_by_dtype", "takes_no_double", "scales_by_the_default"],
        ],
        "ties": [
            *["takes_the_median", "takes_the_fourth", "takes_ten", "takes_the_first_false"],
            *["takes_the_largest_of_all", "sorts_flags", "runs_a_beam"],
        ],
        "empty output": ["finds_no_boxes", "lists_nothing"],
        "objects": [
            *["returns_slots", "returns_deque", "returns_callable", "returns_spectrum"],
            *["returns_sparse", "returns_nested", "returns_packed"],
        ],
    },
}
Outputs = list[list[Any]]
Counts: TypeAlias = "collections.Counter[str]"
#: A fault changes more than this share of the elements that are compared.
LEAST_CHANGED = 0.1


def judge(case: Case, produced: Outputs) -> tuple[bool, bool]:
    """Return whether the check, and the simple one, call the outputs wrong."""
    rules = workers.rules(case.dtype)
    record, _ = correctness.check_outputs(case.reference, produced, rules, Shape(2))
    is_simple = all(
        [array.shape for array in ones] == [array.shape for array in others]
        and all(
            np.isfinite(array).all() or not np.isfinite(other).all()
            for array, other in zip(ones, others, strict=True)
        )
        for ones, others in zip(produced, case.outputs, strict=True)
    )
    return record.accuracy_class == "incorrect", not is_simple


def right_programs(case: Case, generator: Any) -> Iterator[Outputs]:
    """Yield outputs of eager PyTorch again, with ties in another order, and rounded otherwise."""
    again = [case.subject.run(each) for each in case.inputs]
    yield again
    with OtherOrder(int(generator.integers(100, 1 << 30))):
        yield [case.subject.run(each) for each in case.inputs]
    yield [
        [
            array * (1 + 2.0**-24 * generator.choice([-1, 1], array.shape)).astype(array.dtype)
            if array.dtype.kind == "f"
            else array
            for array in arrays
        ]
        for arrays in again
    ]


def faults(case: Case, generator: Any) -> Iterator[Outputs]:
    """Yield outputs with a fault in each output that is compared."""

    def noisy(array: Any) -> Any:
        return array + 0.05 * np.sqrt((array**2).mean()) * generator.standard_normal(array.shape)

    def last_row(array: Any) -> Any:
        changed = array.copy()
        changed[-1] = changed[-1] * 1.05 if array.dtype.kind == "f" else changed[-1] + 1
        return changed

    changes: list[Callable[[Any], Any]] = [
        np.zeros_like,
        lambda array: array * 2,
        lambda array: array[::-1],
        last_row,
    ]
    uncompared = case.reference.uncompared
    for index in range(len(case.outputs[0])):
        if uncompared.get(index) not in {None, "partly-random"}:
            continue
        is_float = case.outputs[0][index].dtype.kind == "f"
        for change in (*changes, *([noisy] if is_float else [])):
            produced = [list(arrays) for arrays in case.outputs]
            for arrays in produced:
                arrays[index] = change(arrays[index])
            expected = [outputs[index] for outputs in case.reference.outputs]
            if any(
                (each.align(arrays[index]) != each.align(right[index])).mean() > LEAST_CHANGED
                for arrays, right, each in zip(produced, case.outputs, expected, strict=True)
                if each.values.size
            ):
                yield produced


def add_case(function: str, seed: int, directory: pathlib.Path, found: Counts) -> Counts:
    """Count what is wrong for one model, and return the misses and false alarms by its name."""
    generator = np.random.default_rng(seed)
    names: Counts = collections.Counter()
    case = make_case(function, directory, seed=seed)
    for produced in right_programs(case, generator):
        alarm, simple = judge(case, produced)
        found.update({"right": 1, "alarms": alarm, "alarms of a simple check": simple})
        names[f"{function}, false alarm"] += alarm
    for produced in faults(case, generator):
        seen, simple = judge(case, produced)
        found.update({"faults": 1, "missed": not seen, "missed by a simple check": not simple})
        names[function] += not seen
    return names


def is_refused(function: str, seed: int, directory: pathlib.Path) -> bool:
    try:
        make_case(function, directory, seed=seed)
    except ModelError:
        return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=27)
    parser.add_argument("--first-seed", type=int, default=100)
    options = parser.parse_args()
    counts: dict[str, dict[str, Counts]] = {}
    errors: Counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        for half, kinds in KINDS.items():
            of_half = counts[half] = {
                kind: collections.Counter() for kind in (*STATES[half], *kinds)
            }
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                # Of its own, because the model is imported from there.
                directory = pathlib.Path(folder) / half / str(seed)
                directory.mkdir(parents=True)
                for kind, functions in STATES[half].items():
                    for function in functions:
                        missed = not is_refused(function, seed, directory)
                        of_half[kind].update(
                            {"faults": 1, "missed": missed, "missed by a simple check": 1}
                        )
                        errors[function] += missed
                for kind, functions in kinds.items():
                    for function in functions:
                        errors += add_case(function, seed, directory, of_half[kind])
            of_half["all"] = sum(of_half.values(), collections.Counter())
    heads = (
        *("faults", "missed", "missed by a simple check"),
        *("right", "alarms", "alarms of a simple check"),
    )
    lines = [f"| models | kind | {' | '.join(heads)} |", f"|---|---|{'---|' * len(heads)}"]
    lines += [
        f"| {half} | {kind} | {' | '.join(str(found[head]) for head in heads)} |"
        for half, of_half in counts.items()
        for kind, found in of_half.items()
    ]
    sys.stdout.write("\n".join(lines) + f"\n{dict(+errors)}\n")
    RESULTS.write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main()
