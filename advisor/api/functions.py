"""The functions of the Python interface."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping

from advisor.api.answers import make_answers, reports_errors
from advisor.api.live_models import save_live_model
from advisor.api.notebook import notebook_progress
from advisor.api.report import Report, Session
from advisor.context import Context
from advisor.domain.run_events import LoggedEvent
from advisor.errors import GpuNotAttachedError, UnknownGpuError
from advisor.pipeline.answers.imported_answer import answer_without_measurement
from advisor.pipeline.draft import prepare as prepare_run
from advisor.report import opening
from advisor.store.store import Store, default_home

#: A function that is called with every event of a run, after it is stored.
OnEvent = Callable[[LoggedEvent], None]


@reports_errors
def recommend(
    model: object = "demo",
    *,
    inputs: object = None,
    priorities: Mapping[str, float] | str | None = None,
    on_event: OnEvent | None = None,
    progress: bool | None = None,
    **options: object,
) -> Report:
    """Measure the workflows for a model on this machine, and return the recommendation.

    `model` is a name as in `--model`, or a `torch.nn.Module`. A live module needs `inputs`, a
    tensor, a tuple of positional inputs or a mapping of keyword inputs, as a factory returns them;
    the first dimension of each tensor is the batch. It is saved in the directory of
    the runs first: by its class where a new process can import it, else with `torch.export`.
    `priorities` has weights of the criteria, those of the three Ps summing to 100, or the name of a
    preset. `progress` shows a line in a notebook; None: where there is one. `options` are those of
    `p3-advisor recommend`.

    A run without a recommendation has `recommendation` None and its reason in `problem`. Raise
    `UserError` for a question that cannot be measured.
    """
    context = _context()
    answers = make_answers(_model_name(model, inputs, context), priorities, options)
    try:
        session = Session(prepare_run(answers, context), context)
    except (GpuNotAttachedError, UnknownGpuError) as absent:
        return Report(answer_without_measurement(answers, context, absent))
    show = notebook_progress(session.plan, wanted=progress)
    for event in session.events():
        show(event)
        if on_event is not None:
            on_event(event)
    return session.report()


@reports_errors
def prepare(
    model: object = "demo",
    *,
    inputs: object = None,
    priorities: Mapping[str, float] | str | None = None,
    **options: object,
) -> Session:
    """Check a question and store it as a run that is not measured yet.

    The arguments are those of `recommend`. Iterate over `events()` of what is returned to measure.
    """
    context = _context()
    answers = make_answers(_model_name(model, inputs, context), priorities, options)
    return Session(prepare_run(answers, context), context)


@reports_errors
def load(name: str | os.PathLike[str] = "latest") -> Report:
    """Return a stored run by its id, `latest` or its directory, or a JSON document by its file.

    It is decided again with the present rubric. Raise `UnknownRunError` or `ExportFileError`.
    """
    return Report(opening.open_answer(os.fspath(name), _context().store))


def _context() -> Context:
    return Context(environment=dict(os.environ), store=Store(default_home(os.environ)))


def _model_name(model: object, inputs: object, context: Context) -> str:
    if isinstance(model, (str, pathlib.Path)):
        return str(model)
    return save_live_model(model, inputs, default_home(context.environment) / "models")
