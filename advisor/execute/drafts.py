"""Draft runs of a question and store them, or answer for an absent GPU from a stored run."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt

import msgspec

from advisor.ask import planning
from advisor.ask.context import Context
from advisor.ask.devices import CPU, VISIBLE_DEVICES, matches_name
from advisor.ask.obstacles import required_packages
from advisor.ask.resolve import resolve, worker_interpreter
from advisor.ask.run_options import RunOptions, command_of
from advisor.decide.answers import answer_from_stored, platform_of_run
from advisor.decide.performance_portability import is_same_work
from advisor.domain.answer import Answer
from advisor.domain.catalogue import Catalogue
from advisor.domain.errors import GpuNotAttachedError, RunFileError, UnknownGpuError, UserError
from advisor.domain.machine import Machine
from advisor.domain.model import OnnxModel
from advisor.domain.plan import Plan
from advisor.domain.question import Budget, Question
from advisor.domain.results import Platform
from advisor.domain.run_events import ArmsPlanned, LoggedEvent, OtherPlatformFound, RunEvent
from advisor.domain.run_state import SCHEMA, Header, RunState
from advisor.domain.text import write_count
from advisor.domain.version import __version__
from advisor.execute import build_rules, servers
from advisor.execute.execution import refuse_foreign
from advisor.execute.expected_builds import with_expected_builds
from advisor.probing import detection, env_registry
from advisor.probing.examples import find_own_batch
from advisor.probing.supervisor import require_sandbox
from advisor.store.runs import Run
from advisor.store.store import Store


@dataclasses.dataclass(frozen=True)
class DraftRun:
    """A run before it is stored."""

    catalogue: Catalogue
    machine: Machine
    question: Question
    plan: Plan
    #: The batch size of the example inputs, if that is measured because none was asked for.
    example_rows: int | None = None


def draft_run(
    run_options: RunOptions, context: Context, detected: Machine | None = None
) -> DraftRun:
    """Draft a run, on the machine `detected` if the caller has detected it with its interpreter."""
    catalogue = context.catalogue(run_options.rubric)
    here = detect_machine(worker_interpreter(run_options), catalogue, context, detected)
    if run_options.sandbox:
        require_sandbox()
    question = resolve(run_options, here, catalogue, context.environment.get(VISIBLE_DEVICES))
    question, rows = with_own_batch(question, run_options, context)
    catalogue = catalogue.for_question(question)
    if question.serves:
        servers.find_interpreter(catalogue, here)
    return DraftRun(catalogue, here, question, planning.plan(question, here, catalogue), rows)


def with_own_batch(
    question: Question, run_options: RunOptions, context: Context
) -> tuple[Question, int | None]:
    """Return the question with the batch size of the model's own inputs if none was asked for.

    Also return that size if the inputs are examples, so that the model may take others. An ONNX
    file states whether it does.
    """
    model, is_asked = question.model, bool(run_options.batch_sizes)
    is_needed = not is_asked or isinstance(model, OnnxModel)
    own = is_needed and find_own_batch(question, context.probes, context.environment)
    if not own:
        return question, None
    if own.is_fixed and isinstance(model, OnnxModel):
        model = msgspec.structs.replace(model, batch_size=own.size)
    sizes = question.batch_sizes if is_asked else (own.size,)
    found = msgspec.structs.replace(question, model=model, batch_sizes=sizes)
    return found, None if own.is_fixed or is_asked else own.size


def detect_machine(
    python: str, catalogue: Catalogue, context: Context, detected: Machine | None = None
) -> Machine:
    """Return `detected`, or what is found now, with the environments that were created."""
    here = detected or detection.detect(python, required_packages(catalogue))
    root = env_registry.default_root(context.environment)
    environments = env_registry.find_created(root, catalogue.workflows, context.catalogue_directory)
    return msgspec.structs.replace(here, environments=environments)


def create(draft: DraftRun, context: Context) -> Run:
    """Store a draft as a new run, with what stored runs measured on other platforms.

    Raise `NoStackError` for a draft in which no workflow that was asked for can run, and
    `OptionValueError` for a budget that cannot reach an answer.
    """
    planning.refuse_without_rival(draft.question, draft.plan)
    created = context.now()
    header = Header(
        schema=SCHEMA,
        run_id=f"{created:%Y%m%d-%H%M%S}-{context.random.getrandbits(16):04x}",
        created=created.replace(microsecond=0),
        advisor_version=__version__,
        question=draft.question,
        machine=draft.machine,
        catalogue=draft.catalogue,
    )
    arms = with_expected_builds(draft.plan.arms, header, context.store)
    build_rules.refuse_short_budget(arms, header)
    first: tuple[RunEvent, ...] = (
        ArmsPlanned(plan=msgspec.structs.replace(draft.plan, arms=arms)),
        *find_platforms(context.store, header),
    )
    run = context.store.create(header)
    with run.writer() as writer:
        for number, run_event in enumerate(first, start=1):
            writer.append(LoggedEvent(seq=number, at=0.0, run_event=run_event))
    return run


def find_platforms(store: Store, header: Header) -> tuple[OtherPlatformFound, ...]:
    """Return other devices by their newest finished run of the same work; skip unreadable runs."""
    platforms: dict[str, Platform] = {}
    for run, other in store.finished_runs(header.question.model.name):
        if (
            other.run_id != header.run_id
            and other.device_name not in {header.device_name, *platforms}
            and is_same_work(other.question, header.question)
        ):
            with contextlib.suppress(UserError):
                platforms[other.device_name] = platform_of_run(other, run.state())
    return tuple(OtherPlatformFound(platform=platform) for platform in platforms.values())


def draft_again(
    header: Header,
    workflows: tuple[str, ...],
    context: Context,
    budget: Budget | None = None,
    python: str = "",
    *,
    all_arms: bool = False,
) -> DraftRun:
    """Draft a run of the same question, limited to `workflows`, on this machine as it is now.

    `budget` and the interpreter `python` replace those of the question; another interpreter has to
    measure all these arms, as has a run with `all_arms`, which has no time limit. Raise
    `GpuNotAttachedError` if the GPU of the question is not attached, and `ForeignRunError` for a
    foreign run.
    """
    refuse_foreign(header)
    question, catalogue = header.question, header.catalogue
    here = detect_machine(python or question.python, catalogue, context)
    if question.gpu and question.gpu not in {gpu.uuid for gpu in here.gpus}:
        raise GpuNotAttachedError(
            "the GPU of that run is not attached",
            "retry on the machine of the run, or ask again for a device of this one",
        )
    changes = {
        "workflows": ",".join(workflows),
        "budget": budget.name if budget else "",
        "python": python,
        "all_arms": all_arms or bool(python),
    }
    question = msgspec.structs.replace(
        question,
        workflows=workflows,
        budget=budget or question.budget,
        python=here.software.executable,
        all_arms=all_arms or question.all_arms or bool(python),
        asked=question.asked and {**question.asked, **{k: v for k, v in changes.items() if v}},
    )
    return DraftRun(catalogue, here, question, planning.plan(question, here, catalogue))


def find_answer(run_options: RunOptions, context: Context) -> Answer | None:
    """Return the answer of this question's newest finished run on such a GPU; None without one."""
    catalogue = context.catalogue(run_options.rubric)
    here = detection.detect(worker_interpreter(run_options), required_packages(catalogue))
    question = resolve(
        msgspec.structs.replace(run_options, gpu=CPU, gpus_per_model=1), here, catalogue
    )
    question, _ = with_own_batch(question, run_options, context)
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
    answer = answer_from_stored(header, state, f"run {header.run_id}", provenance=origin)
    return msgspec.structs.replace(answer, rerun_command=command_of(run_options))


def find_run(
    run_options: RunOptions, question: Question, context: Context
) -> tuple[Header, RunState] | None:
    """Find a finished run of the question; sizes and precision count only if the user named any."""
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
    age_days = max((now - header.created).days, 0)
    ago = f"{write_count(age_days, 'day')} ago" if age_days else "today"
    return (
        f"measured {ago} on {gpu.name}, driver {gpu.driver}, {header.machine.cpu.model} (run "
        f"{header.run_id}); nothing was measured on this machine"
    )


def draft_or_answer(
    run_options: RunOptions, context: Context, detected: Machine | None = None
) -> DraftRun | Answer:
    """Draft a run; for an absent GPU answer from a stored run, or raise the error without one."""
    try:
        return draft_run(run_options, context, detected)
    except (GpuNotAttachedError, UnknownGpuError):
        found = find_answer(run_options, context)
        if found is None:
            raise
        return found
