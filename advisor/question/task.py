"""`--task`: what a model is asked to do, and what is proposed where the user has not said."""

from __future__ import annotations

import pathlib

import msgspec

from advisor.domain.catalogue import Models
from advisor.domain.question import Model, Task, Transformers
from advisor.errors import TaskError

#: How transformers ends the names of its classes that generate text.
GENERATING = ("ForCausalLM", "LMHeadModel")
FORWARD: Task = "forward"


class Configuration(msgspec.Struct, frozen=True):
    """What is read of a model's configuration here."""

    architectures: tuple[str, ...] = ()


def suggest_task(model: str, models: Models) -> Task:
    """Return `generate` for what its configuration, shipped or in a local directory, calls a causal language model; else `forward`."""
    shipped = models.configurations.get(model)
    if shipped is not None:
        return _task_of(shipped.config)
    try:
        return _task_of(msgspec.json.decode((pathlib.Path(model) / "config.json").read_bytes()))
    except (OSError, ValueError):
        return FORWARD


def check_task(task: Task, model: Model, models: Models) -> None:
    """Raise `TaskError` for a model that cannot do the task."""
    if task == "generate" and not isinstance(model, Transformers):
        raise TaskError(
            f"{model.name!r} cannot generate text",
            f"use a causal language model, such as {models.demo_language_model}",
        )


def _task_of(config: object) -> Task:
    try:
        named = msgspec.convert(config, Configuration).architectures
    except msgspec.ValidationError:
        return FORWARD
    return "generate" if any(name.endswith(GENERATING) for name in named) else FORWARD
