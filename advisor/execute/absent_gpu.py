"""Answer for a GPU that is absent from a stored run on such a one."""

from __future__ import annotations

import contextlib
import datetime as dt

import msgspec

from advisor.ask.context import Context
from advisor.ask.devices import CPU, matches_name
from advisor.ask.obstacles import required_packages
from advisor.ask.resolve import resolve, worker_interpreter
from advisor.ask.run_options import RunOptions, command_of
from advisor.decide.decision import evaluate
from advisor.decide.performance_portability import is_same_work
from advisor.domain.answer import Answer
from advisor.domain.errors import GpuNotAttachedError, RunFileError, UnknownGpuError
from advisor.domain.machine import Machine
from advisor.domain.question import Question
from advisor.domain.recommendation import Trust
from advisor.domain.run_state import Header, RunState
from advisor.domain.text import write_count
from advisor.execute.drafts import DraftRun, propose
from advisor.probing import detection

#: Best trust grade of an imported answer: whether this machine is like the one of the run is not
#: known.
BEST_TRUST: Trust = "B"


def find_answer(run_options: RunOptions, context: Context) -> Answer | None:
    """Return the answer of this question's newest finished run on such a GPU; None without one."""
    catalogue = context.catalogue(run_options.rubric)
    here = detection.detect(worker_interpreter(run_options), required_packages(catalogue))
    question = resolve(
        msgspec.structs.replace(run_options, gpu=CPU, gpus_per_model=1), here, catalogue
    )
    found = find_run(run_options, question, context)
    if found is None:
        return None
    header, state = found
    asked = ("priorities", "constraints", "requests", "price_per_hour")
    stored_question = msgspec.structs.replace(
        header.question, **{name: getattr(question, name) for name in asked}
    )
    with_rubric = msgspec.structs.replace(header.catalogue, rubric=catalogue.rubric)
    header = msgspec.structs.replace(header, question=stored_question, catalogue=with_rubric)
    origin = describe_origin(header, context.now())
    answer = evaluate(header, state, evidence="imported")
    advice = answer.recommendation
    if advice is not None:
        another_machine = (
            "run p3-advisor on the machine that will serve, if it is not the one of run "
            f"{header.run_id}"
        )
        advice = msgspec.structs.replace(
            advice,
            trust=max(advice.trust, BEST_TRUST),
            trust_reasons=(origin, *advice.trust_reasons),
            next_steps=(another_machine, *advice.next_steps),
        )
    return msgspec.structs.replace(
        answer, provenance=origin, recommendation=advice, rerun_command=command_of(run_options)
    )


def find_run(
    run_options: RunOptions, question: Question, context: Context
) -> tuple[Header, RunState] | None:
    """Compare batch sizes and precision only if the user has named them."""
    for run, header in context.store.finished_runs(question.model.name):
        if matches_name(header.device_name, run_options.gpu) and _is_same_question(
            header.question, run_options, question
        ):
            with contextlib.suppress(RunFileError):
                return header, run.state()
    return None


def _is_same_question(found: Question, run_options: RunOptions, question: Question) -> bool:
    wanted = (
        question
        if run_options.batch_sizes
        else msgspec.structs.replace(question, batch_sizes=found.batch_sizes)
    )
    return (
        found.gpu is not None
        and found.devices_per_model == run_options.gpus_per_model
        and is_same_work(found, wanted)
        and run_options.dtype in {"auto", found.dtype}
    )


def describe_origin(header: Header, now: dt.datetime) -> str:
    gpu = next(gpu for gpu in header.machine.gpus if gpu.uuid == header.question.gpu)
    age_days = max((now - dt.datetime.fromisoformat(header.created)).days, 0)
    ago = f"{write_count(age_days, 'day')} ago" if age_days else "today"
    return (
        f"measured {ago} on {gpu.name}, driver {gpu.driver}, {header.machine.cpu.model} (run "
        f"{header.run_id}); nothing was measured on this machine"
    )


def propose_or_answer(
    run_options: RunOptions, context: Context, detected: Machine | None = None
) -> DraftRun | Answer:
    """Answer for an absent GPU from a stored run on one; raise its error without such a run."""
    try:
        return propose(run_options, context, detected)
    except (GpuNotAttachedError, UnknownGpuError):
        found = find_answer(run_options, context)
        if found is None:
            raise
        return found
