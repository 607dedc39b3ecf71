"""Measure how often the check of outputs errs in unusual kinds of models, beside a simple check.

    python tests/studies/kinds_of_models.py    # about 5 minutes

The models are those of `tests/kinds_source.py`, with other weights and inputs for each seed. The
simple check asks whether outputs have the shapes of eager PyTorch and finite values.

- False alarms: right programs that are called wrong, and right models that are refused.
- Misses: faults in outputs that are compared and that are not called wrong, and models with a state
  that are not refused.

The table and `results/kinds-of-models.json` have both by kind.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

import numpy as np
import torch
import workers
from kinds_source import MODELS

from probes.adapter import ModelError
from probes.checking import array_reference, correctness, dispatch
from probes.checking.array_reference import Reference
from probes.checking.deviation import sample
from probes.subjects.equal_keys import OtherOrder
from probes.subjects.torch_subject import TorchSubject, open_torch_subject
from probes.wire.shape import Shape
from probes.workflows import pytorch_eager

RESULTS = HERE / "results" / "kinds-of-models.json"
STATES = {
    "alias of a state": ["returns_changed_buffer", "returns_view_of_buffer"],
    "state": [
        *["keeps_hidden", "counts", "counts_in_its_class", "remembers", "replaces_in_a_list"],
        *["remembers_globally", "keeps_in_a_global", "keeps_in_an_object", "in_closure"],
        *["counts_by_an_iterator", "changes_a_parameter", "changes_a_parameter_slightly"],
        "keeps_the_first_call",
    ],
}
KINDS = {
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
}
Outputs = list[list[Any]]
#: A fault changes more than this share of the elements that are compared.
LEAST_CHANGED = 0.1


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with its reference and eager PyTorch's outputs."""

    subject: TorchSubject
    inputs: Outputs
    reference: Reference
    eager: Outputs

    def judge(self, produced: Outputs) -> tuple[bool, bool]:
        """Return whether the check, and the simple one, call the outputs wrong."""
        rules = workers.rules("float32")
        record, _ = correctness.check_outputs(self.reference, produced, rules, Shape(2))
        is_simple = all(
            [array.shape for array in ones] == [array.shape for array in others]
            and all(np.isfinite(array).all() for array in ones)
            for ones, others in zip(produced, self.eager, strict=True)
        )
        return record.accuracy_class == "incorrect", not is_simple


def make_case(function: str, seed: int, directory: pathlib.Path) -> Case:
    request = workers.make_request(
        pathlib.Path("x.py"),
        directory,
        subject={"kind": "factory", "name": f"{directory / 'kinds.py'}:of_{function}"},
        dtype="native",
        batch_sizes=[2],
        input_sets=4,
        seed=seed,
        shared_directory=str(directory),
    )
    for file in directory.glob("*.safetensors"):
        file.unlink()
    subject = open_torch_subject(request)
    inputs = [subject.inputs(2, number) for number in range(4)]
    file = dispatch.reference_file(request, Shape(2))
    program = pytorch_eager.build(subject, inputs[0], request)
    dispatch.make_reference(pytorch_eager, subject, program, inputs, file, request)
    eager = [subject.run(each) for each in inputs]
    return Case(subject, inputs, array_reference.load_reference(file), eager)


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
        return array + 0.05 * array.std() * generator.standard_normal(array.shape)

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
    for index in range(len(case.eager[0])):
        if index in case.reference.uncompared:
            continue
        is_float = case.eager[0][index].dtype.kind == "f"
        for change in (*changes, *([noisy] if is_float else [])):
            produced = [list(arrays) for arrays in case.eager]
            for arrays in produced:
                arrays[index] = change(arrays[index])
            expected = [outputs[index] for outputs in case.reference.outputs]
            if any(
                (each.align(sample(arrays[index])) != each.values).mean() > LEAST_CHANGED
                for arrays, each in zip(produced, expected, strict=True)
                if each.values.size
            ):
                yield produced


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=27)
    options = parser.parse_args()
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    missed: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        directory = pathlib.Path(folder)
        (directory / "kinds.py").write_text(MODELS)
        for seed in range(options.seeds):
            generator = np.random.default_rng(seed)
            for kind, functions in STATES.items():
                for function in functions:
                    counts[kind]["faults"] += 1
                    counts[kind]["missed by a simple check"] += 1
                    try:
                        make_case(function, seed, directory)
                    except ModelError:
                        continue
                    counts[kind]["missed"] += 1
                    missed[function] += 1
            for kind, functions in KINDS.items():
                for function in functions:
                    case, found = make_case(function, seed, directory), counts[kind]
                    for produced in right_programs(case, generator):
                        alarm, simple = case.judge(produced)
                        found.update(
                            {"right": 1, "alarms": alarm, "alarms of a simple check": simple}
                        )
                        missed[f"{function}, false alarm"] += alarm
                    for produced in faults(case, generator):
                        seen, simple = case.judge(produced)
                        found.update(
                            {
                                "faults": 1,
                                "missed": not seen,
                                "missed by a simple check": not simple,
                            }
                        )
                        missed[function] += not seen
    total: collections.Counter[str] = sum(counts.values(), collections.Counter())
    heads = (
        "faults",
        "missed",
        "missed by a simple check",
        "right",
        "alarms",
        "alarms of a simple check",
    )
    lines = [f"| kind | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for kind, found in (*counts.items(), ("all", total)):
        lines.append(f"| {kind} | {' | '.join(str(found[head]) for head in heads)} |")
    sys.stdout.write("\n".join(lines) + f"\n{dict(+missed)}\n")
    RESULTS.write_text(json.dumps({**counts, "all": total}, indent=1) + "\n")


if __name__ == "__main__":
    main()
