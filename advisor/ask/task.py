"""`--task`: suggest a task for a model, and check it."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import msgspec

from advisor.ask.answers import Answers
from advisor.domain.catalogue import Models
from advisor.domain.model import Model, TransformersModel
from advisor.domain.question import Task
from advisor.domain.workflow import Workflow
from advisor.errors import TaskError

#: Suffixes of the transformers classes that generate text.
GENERATING_SUFFIXES = ("ForCausalLM", "LMHeadModel")
FORWARD: Task = "forward"


class Configuration(msgspec.Struct, frozen=True):
    """The part of a model's config.json that shows its task."""

    architectures: tuple[str, ...] = ()


def choose_task(
    answers: Answers,
    models: Models,
    workflows: Sequence[Workflow] = (),
    named: Sequence[str] = (),
) -> Task:
    """Return the task of the answers, or the one that fits the model and the `named` workflows.

    Raise `TaskError` where the named workflows have no task in common that fits the model.
    """
    if answers.task != "auto":
        return answers.task
    task = suggest_task(answers.model, models)
    if task == FORWARD:
        return task
    known = {workflow.id: workflow for workflow in workflows}
    supported = {name: _tasks_of(known[name.partition("/")[0]], name) for name in named}
    if all(task in tasks for tasks in supported.values()):
        return task
    if all(FORWARD in tasks for tasks in supported.values()):
        return FORWARD
    without = [name for name, tasks in supported.items() if task not in tasks]
    others = [name for name, tasks in supported.items() if FORWARD not in tasks]
    raise TaskError(
        f"{', '.join(without)} cannot generate text, and {', '.join(others)} can do nothing else",
        f"measure them in two runs; --task forward measures {', '.join(without)}",
    )


def _tasks_of(workflow: Workflow, name: str) -> set[Task]:
    """Return the tasks of a workflow, or of the arm that `name` has after a slash."""
    option = name.partition("/")[2]
    if option:
        return {*workflow.arm_tasks.get(option, workflow.tasks)}
    return {task for arm in workflow.arms for task in workflow.arm_tasks.get(arm, workflow.tasks)}


def suggest_task(model: str, models: Models) -> Task:
    """Return `generate` for a causal language model, else `forward`.

    The model's configuration is looked up in the catalogue and in a local directory.
    """
    shipped = models.configurations.get(model)
    if shipped is not None:
        return _task_of(shipped.config)
    try:
        return _task_of(msgspec.json.decode((pathlib.Path(model) / "config.json").read_bytes()))
    except (OSError, ValueError, RecursionError):
        return FORWARD


def check_task(task: Task, model: Model, models: Models) -> None:
    """Raise `TaskError` when the model cannot do the task."""
    if task in {"generate", "serve"} and not isinstance(model, TransformersModel):
        raise TaskError(
            f"{model.name!r} cannot generate text",
            f"use a causal language model, such as {models.demo_language_model}",
        )


def check_gpus_per_model(count: int, task: Task) -> None:
    """Raise `TaskError` when a model is to be split over GPUs for another task than `serve`."""
    if count > 1 and task != "serve":
        raise TaskError(
            f"--gpus-per-model {count} splits the models of servers only",
            "add --task serve with --ttft and --itl, or leave out --gpus-per-model",
        )


def _task_of(config: object) -> Task:
    try:
        architectures = msgspec.convert(config, Configuration).architectures
    except msgspec.ValidationError:
        return FORWARD
    return (
        "generate" if any(name.endswith(GENERATING_SUFFIXES) for name in architectures) else FORWARD
    )
