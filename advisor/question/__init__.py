"""Stage: what the user said -> `Question`; every answer is checked against the machine and the catalogue."""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Sequence
from typing import Literal

import msgspec

from advisor.domain.catalogue import Catalogue, Models
from advisor.domain.machine import Gpu, Machine
from advisor.domain.question import (
    Budget,
    Dtype,
    Exported,
    Factory,
    Model,
    OnnxFile,
    Question,
    Synthetic,
)
from advisor.errors import (
    DividedGpuError,
    GpuNotAttachedError,
    NoStackError,
    SizeError,
    UnknownGpuError,
    UnknownWorkflowError,
)
from advisor.question.answers import Answers
from advisor.question.model import DEFAULT_FAMILY, parse_model
from advisor.question.priorities import choose_priorities, parse_constraints
from advisor.question.task import check_task

CPU = "cpu"
#: The variable by which CUDA is told which GPUs there are.
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
#: How the name of a part of a GPU begins.
MIG = "MIG-"
ONLY_WHOLE = "memory, clocks and power are told for whole GPUs only, so only these are measured"


def resolve(
    answers: Answers, machine: Machine, catalogue: Catalogue, visible: str | None = None
) -> Question:
    """Check every answer against the machine and the catalogue; raise the `UserError` that names the first one that does not fit.

    Without an answer the GPU is one of `visible`, as CUDA's variable of that name has it.
    """
    model = parse_model(choose_demo(answers, catalogue.models), catalogue.models)
    check_task(answers.task, model, catalogue.models)
    gpu = choose_gpu(answers.gpu, machine, catalogue, visible)
    return Question(
        model=model,
        task=answers.task,
        device="cuda" if gpu else "cpu",
        gpu=gpu.uuid if gpu else None,
        dtype=choose_dtype(answers.dtype, model, catalogue.models, on_gpu=gpu is not None),
        batch_sizes=parse_batch_sizes(answers.batch_sizes)
        or default_batch_sizes(model, catalogue.models),
        input_tokens=_in_range("--input-tokens", answers.input_tokens, 1, 1 << 20),
        output_tokens=_in_range("--output-tokens", answers.output_tokens, 1, 1 << 20),
        priorities=choose_priorities(answers, catalogue),
        constraints=parse_constraints(answers.require),
        budget=choose_budget(answers.budget, catalogue),
        max_build_seconds=_positive("--max-build-seconds", answers.max_build_seconds),
        workflows=parse_workflows(answers.workflows, catalogue),
        seed=_in_range("--seed", answers.seed, 0, (1 << 63) - 1),
        python=machine.software.executable,
        trust_remote_code=answers.trust_remote_code,
        allow_pickle=answers.allow_pickle,
        offline=answers.offline,
        requests=_in_range("--requests", answers.requests, 1, 1 << 53)
        if answers.requests
        else None,
        price_per_hour=_positive_price(answers.price_per_hour) if answers.price_per_hour else None,
        survey=answers.survey,
        build_minutes=_positive("--build-minutes", answers.build_minutes)
        if answers.build_minutes
        else None,
    )


def choose_demo(answers: Answers, models: Models) -> Answers:
    """Return the answers with the demonstration that fits the task."""
    if answers.task == "generate" and answers.model == models.demo.name:
        return msgspec.structs.replace(answers, model=models.demo_language_model)
    return answers


def choose_gpu(
    text: str, machine: Machine, catalogue: Catalogue, visible: str | None = None
) -> Gpu | None:
    """Return the GPU to measure on; None for the CPU."""
    usable = machine.software.torch_cuda is not None
    if text == CPU or (not text and not (machine.gpus and usable)):
        return None
    refuse_part(text)
    if not text:
        return choose_visible_gpu(machine.gpus, visible)
    exactly = [gpu for gpu in machine.gpus if text in {str(gpu.index), gpu.uuid}]
    named = exactly or [gpu for gpu in machine.gpus if _has_words(gpu.name, text)]
    if named:
        if not usable:
            what = f"the torch of {machine.software.executable} was built without CUDA"
            raise NoStackError(
                what,
                "install a CUDA build of torch there, or name another interpreter with --python",
            )
        return refuse_divided(named)
    here = ", ".join(f"{gpu.index} {gpu.name}" for gpu in machine.gpus) or "none"
    known = find_known_gpu(text, catalogue)
    if known is None:
        raise UnknownGpuError(
            f"there is no GPU {text!r}; attached: {here}",
            f"use an index, a UUID, cpu, or one of {', '.join(catalogue.gpus)}",
        )
    raise GpuNotAttachedError(
        f"the {known} is not attached (attached: {here}), and no run from one is stored",
        "probe it there",
    )


def choose_visible_gpu(gpus: Sequence[Gpu], visible: str | None) -> Gpu | None:
    """Return the first whole GPU that CUDA would see with this value of its variable; None where it would see none."""
    refuse_part(visible or "")
    seen = list(gpus) if visible is None else []
    for entry in map(str.strip, visible.split(",") if visible else ()):
        found = [
            gpu
            for gpu in gpus
            if entry == str(gpu.index) or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))
        ]
        if not found:
            break  # as CUDA does: what follows an entry that names nothing, such as -1, is not seen
        seen.append(found[0])
    return refuse_divided(seen) if seen else None


def refuse_part(name: str) -> None:
    """Raise `DividedGpuError` for the name of a MIG instance."""
    if name.startswith(MIG):
        raise DividedGpuError(
            f"{name} is a part of a GPU", f"{ONLY_WHOLE}; name one, or cpu, with --gpu"
        )


def refuse_divided(gpus: Sequence[Gpu]) -> Gpu:
    """Return the first that is not cut into MIG instances; raise `DividedGpuError` where all are."""
    whole = next((gpu for gpu in gpus if not gpu.mig), None)
    if whole is None:
        what = f"the {gpus[0].name} with index {gpus[0].index} is cut into MIG instances"
        raise DividedGpuError(
            what, f"{ONLY_WHOLE}; switch MIG off, or name another GPU, or cpu, with --gpu"
        )
    return whole


def find_known_gpu(text: str, catalogue: Catalogue) -> str | None:
    """Return the name of the GPU that is known, attached or not."""
    return next(
        (name for name in catalogue.gpus if _has_words(text, name) or _has_words(name, text)), None
    )


def choose_dtype(
    text: Literal["auto"] | Dtype, model: Model, models: Models, *, on_gpu: bool
) -> Dtype:
    """Return the precision: the one asked for, else on a GPU the one the paper gave the model, else float32; files keep their own."""
    if text != "auto":
        return text
    if isinstance(model, (Factory, Exported, OnnxFile)):
        return "native"
    if not on_gpu:
        return "float32"
    if isinstance(model, Synthetic):
        family = model.name.partition("@")[2] or DEFAULT_FAMILY
        return models.families[family].dtype if family in models.families else "bfloat16"
    return (
        models.configurations[model.name].dtype
        if model.name in models.configurations
        else "bfloat16"
    )


def parse_batch_sizes(text: str) -> tuple[int, ...]:
    """Return the batch sizes in ascending order; none for an empty text."""
    if not text:
        return ()
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError as problem:
        raise SizeError(
            f"--batch-sizes {text!r} is no list of whole numbers", "write it like 1,4,16,64"
        ) from problem
    for size in sizes:
        _in_range("--batch-sizes", size, 1, 65536)
    return tuple(sizes)


def default_batch_sizes(model: Model, models: Models) -> tuple[int, ...]:
    """Return the paper's batch sizes; fewer for the demonstration, and 1 for models whose inputs the user brings."""
    if model.name in {models.demo.name, *models.demo_language_models}:
        return models.demo_batch_sizes
    return (1,) if isinstance(model, (Factory, Exported, OnnxFile)) else models.batch_sizes


def choose_budget(text: str, catalogue: Catalogue) -> Budget:
    """Return a named budget, or one of so many seconds of measuring with the rounds of the default one."""
    budgets = catalogue.presets.budgets
    name = text or catalogue.presets.default_budget
    if name in budgets:
        return budgets[name]
    try:
        seconds = _positive("--budget", float(name))
    except ValueError as problem:
        raise SizeError(
            f"--budget {text!r} is neither a name nor a number of seconds",
            f"use one of {', '.join(budgets)}, or seconds",
        ) from problem
    return msgspec.structs.replace(
        budgets[catalogue.presets.default_budget], name=f"{seconds:g} s", measuring_seconds=seconds
    )


def parse_workflows(text: str, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the workflows and arms that the plan is limited to."""
    workflows = {workflow.id: workflow for workflow in catalogue.workflows}
    chosen = tuple(filter(None, (part.strip() for part in text.split(","))))
    for name in chosen:
        workflow, _, option = name.partition("/")
        if workflow not in workflows or (option and option not in workflows[workflow].arms):
            known = [
                *workflows,
                *(f"{id_}/{arm}" for id_, entry in workflows.items() for arm in entry.arms),
            ]
            close = difflib.get_close_matches(name, known, n=1)
            raise UnknownWorkflowError(
                f"there is no workflow {name!r}",
                f"did you mean {close[0]}?" if close else "see p3-advisor workflows",
            )
    return chosen


def interpreter_of(answers: Answers) -> str:
    """Return the interpreter that runs the workers."""
    return answers.python or sys.executable


def _in_range(name: str, number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise SizeError(
            f"{name} {number} is out of range", f"use a whole number from {low} to {high}"
        )
    return number


def _positive(name: str, number: float) -> float:
    if not (math.isfinite(number) and number > 0):
        raise SizeError(f"{name} {number:g} is not a positive number", "use seconds, such as 120")
    return number


def _positive_price(number: float) -> float:
    if not (math.isfinite(number) and number > 0):
        raise SizeError(
            f"--price-per-hour {number:g} is not a positive number",
            "use what an hour of the device costs, such as 2.5",
        )
    return number


def _has_words(text: str, words: str) -> bool:
    """Say whether `words` stand in `text`, each whole: `H100` is in `NVIDIA H100`, and `1`, which is an index, is not."""
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE) is not None
