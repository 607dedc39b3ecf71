"""The Python interface: `advisor.recommend` and `load`.

Nothing is printed on standard output; notebooks and terminals show the progress. Errors that
the user can correct are `advisor.UserError`.

A live module is saved by `probes.subjects.live_models`, in the process of the caller and with its
torch, so that the advisor itself never imports torch.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec

from advisor.ask.context import Context
from advisor.ask.run_options import DTYPE_SPELLINGS, FURTHER_NAMES, RunOptions
from advisor.domain.answer import Answer
from advisor.domain.errors import (
    ModelRefusedError,
    OptionValueError,
    UnknownRunError,
    UserError,
    choose_among,
    reported_as,
)
from advisor.domain.model import ExportedModel, FactoryModel
from advisor.domain.run_events import LoggedEvent
from advisor.execute.drafts import DraftRun, create, draft_or_answer
from advisor.execute.execution import drop_refused, execute
from advisor.report import answer_files
from advisor.report.notebook import Report, priority_option, reports_errors, show_progress
from advisor.store.store import default_home

WANTED = "pass a torch.nn.Module with inputs=(example tensors), or a name as in --model"


@reports_errors
def recommend(
    model: object = "demo",
    *,
    inputs: object = None,
    priorities: Mapping[str, float] | str | None = None,
    on_event: Callable[[LoggedEvent], None] | None = None,
    progress: bool | None = None,
    **options: object,
) -> Report:
    """Measure the workflows for a model on this machine, and return the recommendation.

    `model` is a name as in `--model`, or a `torch.nn.Module`. With a name, `inputs` is a file as in
    `--inputs`. A live module needs `inputs`, a tensor, a tuple of positional inputs or a mapping of
    keyword inputs, as a factory returns them; the first dimension of each tensor is the batch. It
    is saved in the directory of the runs first: by its class where a new process can import it,
    else with `torch.export`.
    `priorities` has weights of the criteria, those of the three Ps summing to 100, or the name of a
    preset. `on_event` is called with every event, after it is stored. `progress` shows a line in a
    notebook, else lines on standard error; None: in a notebook or on a terminal. `options` are
    those of `p3-advisor recommend`, without `preset` and `priority`.

    A run without a recommendation has `recommendation` None and its reason in `problem`. Raise
    `UserError` for a question that cannot be measured.
    """
    context = Context.of_process()
    draft = draft_or_answer(_read_options(model, inputs, priorities, options, context), context)
    if isinstance(draft, Answer):
        return Report(draft, context.catalogue())
    if not isinstance(model, (str, pathlib.Path)):
        draft = _mark_copy(draft)
    run = create(draft, context)
    show = show_progress(draft.plan, wanted=progress)
    try:
        for event in execute(run, context):
            show(event)
            if on_event is not None:
                on_event(event)
    except UserError:
        drop_refused(run, context)
        raise
    return Report(answer_files.answer_of_run(run), run.header().catalogue, run)


@reports_errors
def load(name: str | os.PathLike[str] = "latest") -> Report:
    """Return a stored run by its id, `latest` or its directory, or a JSON document by its file.

    A document is decided again with the present rubric. Raise `UnknownRunError` or
    `ExportFileError`.
    """
    context = Context.of_process()
    what, next_step = "no run has this name", "pass an id, latest, a directory or a JSON file"
    with reported_as(UnknownRunError, what, next_step, TypeError):
        path = os.fspath(name)
    return Report(*answer_files.open_with_catalogue(path, context))


def _read_options(
    model: object,
    inputs: object,
    priorities: Mapping[str, float] | str | None,
    options: dict[str, object],
    context: Context,
) -> RunOptions:
    """Return the options of a run; a live module is saved. The batch size is that of its inputs."""
    if isinstance(inputs, (str, pathlib.Path)):
        options["inputs"] = os.fspath(inputs)
    if isinstance(model, (str, pathlib.Path)):
        return make_options(str(model), priorities, options)
    name = save_live_model(model, inputs, default_home(context.environment) / "models")
    arguments, keywords = _split(inputs)
    shapes = [getattr(each, "shape", ()) for each in (*arguments, *keywords.values())]
    rows = {shape[0] for shape in shapes if shape}
    if len(rows) == 1:
        options.setdefault("batch_sizes", rows.pop())
    return make_options(name, priorities, options)


def _mark_copy(draft: DraftRun) -> DraftRun:
    """Return the draft of a live module that knows that its file is a copy."""
    saved = draft.question.model
    if isinstance(saved, (FactoryModel, ExportedModel)):
        saved = msgspec.structs.replace(saved, is_copy=True)
    question = msgspec.structs.replace(draft.question, model=saved)
    return dataclasses.replace(draft, question=question)


def save_live_model(model: object, inputs: object, directory: pathlib.Path) -> str:
    """Save a `torch.nn.Module` below `directory`; return its name for `--model`.

    Raise `ModelRefusedError` for anything else, and for a module that cannot be saved.
    """
    torch, name = sys.modules.get("torch"), type(model).__name__
    if torch is None or not isinstance(model, torch.nn.Module):
        raise ModelRefusedError(f"a model cannot be a {name}", WANTED)
    if inputs is None:
        raise ModelRefusedError(f"{name} needs example inputs", WANTED)
    arguments, keywords = _split(inputs)
    if keywords:
        what = f"the inputs do not fit {name}.forward"
        next_step = "pass inputs=(tensor, ...) in the order of forward"
        with reported_as(ModelRefusedError, what, next_step, TypeError):
            inspect.signature(model.forward).bind(**keywords)
    from probes.subjects import live_models  # noqa: PLC0415 - imports torch, which the caller has

    try:
        return live_models.save(model, arguments, directory, keywords)
    except live_models.NotSavableError as problem:
        raise ModelRefusedError(f"{name}: {problem}", problem.fix) from problem


def _split(inputs: object) -> tuple[tuple[object, ...], dict[str, object]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def make_options(
    model: str, priorities: Mapping[str, float] | str | None, options: Mapping[str, object]
) -> RunOptions:
    """Return the options of a run; `options` has those that no other argument sets.

    Raise `TypeError` for an unknown option and `OptionValueError` for a wrong value.
    """
    options = {FURTHER_NAMES.get(name, name): value for name, value in options.items()}
    known = {*RunOptions.__struct_fields__} - {"model", "priority", "preset"}
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}: {choose_among(unknown[0], sorted(known))}")
    fields = {name: _as_text(value) for name, value in options.items()}
    if "dtype" in fields:
        fields["dtype"] = DTYPE_SPELLINGS.get(str(fields["dtype"]), fields["dtype"])
    for name in ("budget", "accuracy", "batch_sizes", "input_tokens", "output_tokens"):
        if name in fields:
            fields[name] = str(fields[name])
    if isinstance(mix := options.get("length_mix"), Mapping):
        names = ("/".join(map(str, key)) if isinstance(key, tuple) else key for key in mix)
        shares = zip(names, mix.values(), strict=True)
        fields["length_mix"] = ",".join(f"{name}:{share:g}" for name, share in shares)
    if priorities is not None:
        fields.update(priority_option(priorities))
    what, next_step = "an option has a wrong value", "see p3-advisor recommend --help"
    with reported_as(OptionValueError, what, next_step, msgspec.ValidationError):
        return msgspec.convert({"model": model, **fields}, RunOptions)


def _as_text(value: object) -> object:
    """Return a sequence or mapping as its items with commas, and anything else unchanged."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return value
