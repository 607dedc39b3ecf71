"""Turn `RunOptions` into a `Question`."""

from __future__ import annotations

import contextlib
import math
import sys
import typing
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from advisor.ask.devices import choose_further_gpus, choose_gpu
from advisor.ask.model import family_name, parse_model
from advisor.ask.option_values import (
    choose_priorities,
    choose_weight_formats,
    parse_constraints,
    parse_duration,
    parse_file,
    parse_function,
    parse_tolerance,
)
from advisor.ask.run_options import RunOptions, given_options
from advisor.ask.task import check_task, choose_lengths, choose_task, parse_counts, parse_load
from advisor.domain.arm_figures import START
from advisor.domain.catalogue import Catalogue, Models
from advisor.domain.constraints import check_constraints
from advisor.domain.errors import OptionValueError, UnknownWorkflowError, choose_among
from advisor.domain.machine import Machine
from advisor.domain.model import ExportedModel, FactoryModel, Model, OnnxModel, SyntheticModel
from advisor.domain.plan import ArmName
from advisor.domain.question import LARGEST_BATCH, Budget, Dtype, Question
from advisor.domain.workflow import DEFAULT_OPTION, Workflow

#: Prompts whose texts are compared before a server is put under load; they are sent at once.
CHECKED_PROMPTS = (4,)


def resolve(
    run_options: RunOptions,
    machine: Machine,
    catalogue: Catalogue,
    visible_devices: str | None = None,
) -> Question:
    """Return the question; raise the `UserError` of the first invalid option.

    `visible_devices` is the value of `CUDA_VISIBLE_DEVICES`; it counts without `--gpu`.
    """
    check_numbers(run_options)
    models = catalogue.models
    model = parse_model(select_demo_model(run_options, models), models)
    workflows = parse_workflows(run_options.workflows, catalogue)
    task = choose_task(run_options, models, catalogue.workflows, workflows)
    check_task(task, model, models, run_options.gpus_per_model)
    constraints = parse_constraints(run_options.require)
    check_constraints(constraints, task)
    gpu = choose_gpu(run_options.gpu, machine, catalogue, visible_devices)
    if gpu is not None and run_options.model == model.name == models.demo.name:
        model = models.demo_gpu
    default_sizes = default_batch_sizes(model, models, on_gpu=gpu is not None)
    wait = run_options.wait_for_quiet
    return Question(
        model=model,
        task=task,
        device="cuda" if gpu else "cpu",
        gpu=gpu.uuid if gpu else None,
        further_gpus=choose_further_gpus(gpu, run_options.gpus_per_model, machine, visible_devices),
        dtype=choose_dtype(run_options.dtype, model, models, on_gpu=gpu is not None),
        batch_sizes=parse_batch_sizes(run_options.batch_sizes)
        or (CHECKED_PROMPTS if task == "serve" else default_sizes),
        lengths=choose_lengths(run_options, model, task),
        priorities=choose_priorities(run_options, catalogue),
        constraints=constraints,
        budget=choose_budget(run_options.budget, catalogue),
        max_build_seconds=run_options.max_build_seconds,
        max_open_seconds=run_options.max_open_seconds or None,
        max_build_times=parse_build_times(run_options.max_build_times, catalogue),
        workflows=workflows,
        leave_out=parse_workflows(run_options.leave_out, catalogue),
        seed=run_options.seed,
        python=machine.software.executable,
        load=parse_load(run_options, task, model, catalogue),
        cold_start=run_options.cold_start or any(each.quantity == START for each in constraints),
        requests=run_options.requests or None,
        price_per_hour=run_options.price_per_hour or None,
        wait_seconds=parse_duration("--wait-for-quiet", wait) if wait else 0.0,
        accuracy=parse_tolerance(run_options.accuracy),
        quantised=choose_weight_formats(run_options.quantised, constraints),
        data=parse_file("--data", run_options.data, "name a file in the format JSON Lines"),
        metric=parse_function("--metric", run_options.metric),
        trust_remote_code=run_options.trust_remote_code,
        allow_pickle=run_options.allow_pickle,
        offline=run_options.offline or run_options.sandbox,
        sandbox=run_options.sandbox,
        all_arms=run_options.all_arms,
        asked=given_options(run_options),
    )


def check_numbers(run_options: RunOptions) -> None:
    """Raise `OptionValueError` for a number outside the bounds that its option declares."""
    hints = typing.get_type_hints(RunOptions, include_extras=True)
    for field in msgspec.structs.fields(run_options):
        value, hint = getattr(run_options, field.name), hints[field.name]
        with contextlib.suppress(msgspec.ValidationError):
            if isinstance(value, str) or math.isfinite(msgspec.convert(value, hint)):
                continue
        _, at = typing.get_args(hint)
        bounds = (("at least", at.ge), ("above", at.gt), ("at most", at.le), ("below", at.lt))
        limits = " and ".join(f"{word} {to:,}" for word, to in bounds if to is not None)
        option = field.encode_name.replace("_", "-")
        raise OptionValueError(f"--{option} {value} is out of range", f"use a number {limits}")


def select_demo_model(run_options: RunOptions, models: Models) -> RunOptions:
    if run_options.task in {"generate", "serve"} and run_options.model == models.demo.name:
        return msgspec.structs.replace(run_options, model=models.demo_language_model)
    return run_options


def choose_dtype(
    text: Literal["auto"] | Dtype, model: Model, models: Models, *, on_gpu: bool
) -> Dtype:
    """Return the dtype that `text` names, or the default.

    The default is the paper's dtype for the model on a GPU, float32 on the CPU, and the model's own
    for files and factories. Raise `OptionValueError` for another one than that of a file.
    """
    if text not in {"auto", "own"} and isinstance(model, (ExportedModel, OnnxModel)):
        raise OptionValueError(
            f"--dtype {text}: the file of a program keeps the precision that it was exported in",
            f"leave it out, or export the model and its inputs in {text}",
        )
    if text != "auto":
        return text
    if isinstance(model, (FactoryModel, ExportedModel, OnnxModel)):
        return "own"
    if not on_gpu:
        return "float32"
    if isinstance(model, SyntheticModel):
        family = family_name(model)
        return models.families[family].dtype if family in models.families else "bfloat16"
    return (
        models.configurations[model.name].dtype
        if model.name in models.configurations
        else "bfloat16"
    )


def parse_batch_sizes(text: str) -> tuple[int, ...]:
    return parse_counts("--batch-sizes", text, LARGEST_BATCH) if text else ()


def default_batch_sizes(model: Model, models: Models, *, on_gpu: bool) -> tuple[int, ...]:
    """Return the batch sizes that are measured if none are asked for.

    Models with inputs of their own have 1 unless `advisor.probing.examples` finds theirs.
    """
    if model.name == models.demo_gpu.name:
        return models.demo_gpu_batch_sizes
    if isinstance(model, (FactoryModel, ExportedModel, OnnxModel)):
        return (1,)
    is_small = model.name in {models.demo.name, *models.demo_language_models}
    return models.batch_sizes if on_gpu and not is_small else models.cpu_batch_sizes


def choose_budget(text: str, catalogue: Catalogue) -> Budget:
    """Return a named budget, or the default one with another duration of the run."""
    budgets = catalogue.presets.budgets
    name = text or catalogue.presets.default_budget
    if name in budgets:
        return budgets[name]
    try:
        seconds = parse_duration("--budget", name)
    except OptionValueError as problem:
        if name[:1].isdigit():
            raise
        raise OptionValueError(
            f"--budget {name!r} is neither a known name nor a duration",
            f"a duration is written 120s or 5min; {choose_among(name, budgets)}",
        ) from problem
    default = budgets[catalogue.presets.default_budget]
    return msgspec.structs.replace(
        default,
        name=f"{seconds:g} s",
        seconds=dict.fromkeys(default.seconds, seconds),
        measuring_seconds=seconds,
        # Measuring an open decision further takes no longer than measuring until then.
        undecided_seconds=min(default.undecided_seconds, seconds),
        undecided_share=0.0,
    )


def parse_workflows(text: str, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the workflows and arms that an option names; raise `UnknownWorkflowError`."""
    workflows = catalogue.by_id
    found = [
        str(_parse_workflow(each, workflows))
        for part in text.split(",")
        if (name := part.strip())
        for each in spell_out(ArmName.parse(name), workflows)
    ]
    return tuple(dict.fromkeys(found))


def parse_build_times(text: str, catalogue: Catalogue) -> dict[str, float]:
    """Return limits in seconds by workflow; raise `UnknownWorkflowError`, `OptionValueError`."""
    limits: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, duration = (each.strip() for each in part.partition("="))
        called = parse_workflows(name.lower(), catalogue)
        is_one = separator and called and limits.keys().isdisjoint(called)
        if not is_one or not catalogue.by_id.keys() >= {*called}:
            message = f"--max-build-times {text!r} is not one time for each workflow"
            raise OptionValueError(message, f"write it like {name}=30min")
        limits |= dict.fromkeys(called, parse_duration("--max-build-times", duration))
    return limits


def titles_by_spelling(workflows: Iterable[Workflow]) -> dict[str, str]:
    """Return the id and the title of each workflow, by its id and by its other names."""
    return {
        name: f"{each.id} ({each.title})" for each in workflows for name in (each.id, *each.aliases)
    }


def spell_out(name: ArmName, workflows: Mapping[str, Workflow]) -> list[ArmName]:
    """Return the workflows that people call so, with the option; else the name as it is."""
    called = [each.id for each in workflows.values() if name.workflow.lower() in each.aliases]
    return [ArmName(each, name.option) for each in called] or [name]


def _parse_workflow(name: ArmName, workflows: Mapping[str, Workflow]) -> ArmName:
    """Return a workflow, or one of its arms: `default` is the first one under any name."""
    what = f"unknown workflow {str(name)!r}"
    if name.workflow not in workflows:
        measured = [each for each in workflows.values() if each.not_measured is None]
        ids, titles = [each.id for each in measured], titles_by_spelling(measured)
        raise UnknownWorkflowError(what, choose_among(name.workflow, ids, titles))
    arms = workflows[name.workflow].arms
    if not name.option or name.option in arms:
        return name
    if name.option == DEFAULT_OPTION and arms:
        return ArmName(name.workflow, next(iter(arms)))
    known = ", ".join(str(ArmName(name.workflow, arm)) for arm in arms)
    use = f"use one of {known}" if arms else f"use {name.workflow}, which has no arms"
    raise UnknownWorkflowError(what, use)


def worker_interpreter(run_options: RunOptions) -> str:
    return run_options.python or sys.executable
