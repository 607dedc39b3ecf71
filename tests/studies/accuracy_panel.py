"""Measure how often the check of outputs errs: false alarms and misses.

    python tests/studies/accuracy_panel.py --seeds 3    # about 5 minutes
    python tests/studies/accuracy_panel.py --summary

Every model of `panel.toml` runs in float32, bfloat16 and float16 at batch sizes 1 and 8,
with several seeds of weights and inputs. One-dimensional parameters get random values, so that each
bias counts. The reference and its envelope are made as in a measurement.

- False alarms: outputs of programs that are right: eager PyTorch with another number of threads and
  with padded batches.
- Misses: faults are injected, and an output that counts as exact all the same is a miss. A fault
  whose effect in float64 is below four times eager PyTorch's own error, or below two units of the
  precision, is inside rounding: it is counted apart.

Results are added to `results/accuracy-panel.jsonl`, one line for each model, precision, batch size
and seed. Targets: false alarms at most 0.5 %, misses at most 1 %.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import datetime as dt
import itertools
import json
import math
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

import msgspec
import numpy as np
import torch
import workers
from injected_faults import MODULE_FAULTS, change_last_row, half_accumulation
from scipy.stats import binomtest

from advisor.ask.catalogue_files import read
from advisor.domain.model import FactoryModel, Model, TransformersModel
from advisor.probing.detection import cpu_model
from probes import protocol
from probes.checking import array_reference, correctness
from probes.checking.array_reference import create_reference
from probes.checking.deviation import root_mean_square, sample
from probes.checking.rules import Rules
from probes.checking.stored_reference import Reference
from probes.shape import Shape
from probes.subjects.by_request import open_torch_subject
from probes.subjects.outputs import collect
from probes.subjects.torch_subject import TorchSubject

RESULTS = HERE / "results" / "accuracy-panel.jsonl"
DTYPES = ("float32", "bfloat16", "float16")
BATCH_SIZES = (1, 8)
INPUT_SETS = 4
#: Names of the class in results; early ones have the second.
EXACT = ("exact", "equivalent")
#: Of the programs in a line of the results.
KINDS = ("right", "faults")
#: A fault whose effect is smaller than this many times eager's error, or than this many units of
#: the precision, is inside rounding.
BEYOND_ROUNDING, UNITS = 4.0, 2.0
UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


class PanelModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A small model with random weights: a configuration of transformers, or a factory."""

    id: str
    family: str
    config: dict[str, Any] | None = None
    #: A function of `panel_models.py`.
    factory: str = ""

    def to_model(self) -> Model:
        if self.config is not None:
            return TransformersModel(name=self.id, weights="random", config=self.config)
        return FactoryModel(name=f"{HERE / 'panel_models.py'}:{self.factory}")


@dataclasses.dataclass(frozen=True)
class Case:
    subject: TorchSubject
    reference: Reference
    #: Eager PyTorch's outputs by input set.
    eager: list[list[Any]]
    batch_size: int


def make_request(model: PanelModel, dtype: str, batch_size: int, seed: int) -> protocol.Request:
    return workers.subject_request(
        msgspec.to_builtins(model.to_model()),
        dtype=dtype,
        batch_sizes=[batch_size],
        input_tokens=16,
        seed=seed,
        input_sets=INPUT_SETS,
    )


def make_case(request: protocol.Request) -> Case:
    """Open the model and make its reference as a measurement does."""
    torch.manual_seed(request.seed)
    subject = open_torch_subject(request)
    # Fresh biases and norms are 0 and 1, and faults in them would have no effect.
    generator = torch.Generator().manual_seed(request.seed)
    for parameter in subject.module.parameters():
        if parameter.ndim == 1 and parameter.is_floating_point():
            noise = torch.empty(parameter.shape).normal_(0, 0.2, generator=generator)
            parameter.data += noise.to(parameter.dtype)
    (size,) = request.batch_sizes
    inputs = [subject.inputs(size, number) for number in range(INPUT_SETS)]
    findings = subject.examine_calls(inputs)
    name, exact = subject.reference(inputs)
    eager = [subject.run(each) for each in inputs]
    reference = create_reference(
        name, exact, eager, inputs, subject.class_counts, findings, subject.find_ties
    )
    reference = array_reference.measure_rounding(reference, subject, request.accuracy["envelope"])
    return Case(subject, reference, eager, size)


def judge(case: Case, produced: list[list[Any]], rules: Rules) -> dict[str, Any]:
    record, _ = correctness.check_outputs(case.reference, produced, rules, Shape(case.batch_size))
    return {
        "class": record.accuracy_class,
        "fault": record.accuracy.fault,
        "error": rounded(record.accuracy.relative_error),
    }


def rounded(value: float | None) -> float | None:
    """Return three significant digits."""
    return None if value is None else float(f"{value:.3g}")


# Faults


def run_module(
    case: Case, module: torch.nn.Module, dtype: torch.dtype | None = None
) -> list[list[Any]]:
    """Return the outputs of a module for inputs of its precision, which is `dtype` if given."""
    return [
        collect(
            module(
                *(
                    tensor.to(dtype) if tensor.is_floating_point() else tensor
                    for tensor in case.subject.tensors(arguments)
                )
            )
        )
        for arguments in case.reference.inputs
    ]


def effect_of(case: Case, produced: list[list[Any]]) -> float:
    """Return the largest error of an output over eager PyTorch's own, or over half a unit."""
    effects = [0.0]
    for outputs, expected in zip(produced, case.reference.outputs, strict=True):
        for array, target in zip(outputs, expected, strict=True):
            error = root_mean_square(sample(array) - target.values)
            units = UNITS * UNIT[case.subject.dtype] * target.scale
            rounding = max(target.eager.rmse, units / BEYOND_ROUNDING)
            effects.append(error / rounding if rounding else math.inf if error else 0.0)
    return max(effects)


def faulty_outputs(case: Case) -> Iterator[tuple[str, float, list[list[Any]]]]:
    """Yield name, effect and outputs of each fault that has an effect."""
    exact = getattr(torch, case.reference.name)
    for name, change in MODULE_FAULTS.items():
        module = copy.deepcopy(case.subject.module)
        if change(module):
            torch.manual_seed(1)
            # Outputs in float64 show the effect of the fault.
            precise = copy.deepcopy(module).to(exact)
            effect = effect_of(case, run_module(case, precise, exact))
            if effect:
                yield name, effect, run_module(case, module)
    if case.subject.dtype != "bfloat16":
        with half_accumulation():
            produced = run_module(case, case.subject.module)
        effect = effect_of(case, produced)
        if effect != effect_of(case, case.eager):
            yield "FP16 accumulation", effect, produced
    eager = case.eager
    changed = {
        "last row 5 % too large": [change_last_row(outputs) for outputs in eager],
        "previous input's output": [eager[-1], *eager[:-1]],
        "zeros": [[np.zeros_like(array) for array in outputs] for outputs in eager],
    }
    if case.batch_size > 1:
        permuted = [[np.roll(array, 1, 0) for array in outputs] for outputs in eager]
        changed["rows permuted"] = permuted
    for name, produced in changed.items():
        if effect := effect_of(case, produced):
            yield name, effect, produced


# Programs that are right


def eager_copies(case: Case) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield outputs of eager PyTorch with other orders of its sums."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2 if threads == 1 else 1)
    yield "eager, other threads", run_module(case, case.subject.module)
    torch.set_num_threads(threads)
    padded = []
    for arguments in case.reference.inputs:
        longer = [np.concatenate([array, array[:1]]) for array in arguments]
        outputs = case.subject.run(longer)
        padded.append([array[: case.batch_size] for array in outputs])
    yield "eager, padded batch", padded


def measure(model: PanelModel, dtype: str, size: int, seed: int) -> dict[str, Any]:
    """Return the line of one model, precision, batch size and seed."""
    line: dict[str, Any] = {"model": model.id, "dtype": dtype, "batch_size": size, "seed": seed}
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            request = make_request(model, dtype, size, seed)
            case = make_case(dataclasses.replace(request, shared_directory=folder))
            rules = workers.rules(dtype)
            line["right"] = [
                {"name": name} | judge(case, produced, rules)
                for name, produced in (("eager", case.eager), *eager_copies(case))
            ]
            line["faults"] = [
                {"name": name, "effect": rounded(effect)} | judge(case, produced, rules)
                for name, effect, produced in faulty_outputs(case)
            ]
    except Exception as problem:  # noqa: BLE001 - a model may not run in a precision
        return line | {"failed": f"{type(problem).__name__}: {problem}"[:200]}
    return line | {"seconds": time.perf_counter() - start}


# Summary


def cell(found: list[dict[str, Any]], *, exact: bool) -> str:
    """Return the share of exact or other outputs with Wilson's 95 % interval."""
    if not found:
        return "-"
    hits = sum((each["class"] in EXACT) == exact for each in found)
    share = binomtest(hits, len(found)).proportion_ci(method="wilson")
    return f"{hits} of {len(found)} ({share.low:.1%} to {share.high:.1%})"


def by_name(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return what was found of each program or fault, and of all."""
    names = dict.fromkeys(each["name"] for each in found)
    return {name: [each for each in found if each["name"] == name] for name in names} | {
        "all": found
    }


def summarise(lines: list[dict[str, Any]]) -> str:
    """Return both rates by rule as Markdown."""
    right, faults = ([each for line in lines for each in line.get(k, ())] for k in KINDS)
    checked = [each for each in right if "failed" not in each and each["class"] != "unchecked"]
    rows = ["| right programs | called wrong |", "|---|---|"]
    rows += [f"| {name} | {cell(found, exact=False)} |" for name, found in by_name(checked).items()]
    rows += ["", "| faults | called exact | inside rounding: called exact |", "|---|---|---|"]
    for name, found in by_name(faults).items():
        beyond = [each for each in found if each["effect"] >= BEYOND_ROUNDING]
        inside = [each["class"] in EXACT for each in found if each["effect"] < BEYOND_ROUNDING]
        hidden = f"{sum(inside)} of {len(inside)}"
        rows.append(f"| {name} | {cell(beyond, exact=True)} | {hidden} |")
    failed = sum("failed" in line for line in lines)
    return "\n".join([*rows, "", f"{len(lines)} cases, {failed} of them do not run in eager."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--summary", action="store_true", help="print the tables of the results")
    options = parser.parse_args()
    if not options.summary:
        models = read(HERE / "panel.toml", dict[str, list[PanelModel]])["model"]
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        cells = itertools.product(models, DTYPES, BATCH_SIZES, seeds)
        with options.out.open("a", encoding="utf-8") as file:
            machine = {"date": dt.datetime.now(tz=dt.timezone.utc).isoformat(timespec="minutes")}
            machine |= {"cpu": cpu_model(), "torch": torch.__version__}
            measured = itertools.starmap(measure, cells)
            for line in itertools.chain([{"machine": machine}], measured):
                file.write(json.dumps(line) + "\n")
                file.flush()
    lines = [json.loads(line) for line in options.out.read_text(encoding="utf-8").splitlines()]
    sys.stdout.write(summarise([line for line in lines if "model" in line]) + "\n")


if __name__ == "__main__":
    main()
