"""Choose the arms that are measured, and state why every other workflow is not."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from packaging.requirements import Requirement

from advisor.ask import obstacles
from advisor.domain.catalogue import Catalogue
from advisor.domain.errors import NoStackError, OptionValueError
from advisor.domain.machine import Machine
from advisor.domain.model import OnnxModel, input_format_of
from advisor.domain.plan import EAGER, SERVING_BASELINE, Arm, ArmName, Excluded, Plan
from advisor.domain.question import DeviceKind, Question
from advisor.domain.version import how_to_install
from advisor.domain.workflow import DEFAULT_OPTION, Workflow

NOT_NAMED = "not named in --workflows"
LEFT_OUT = "left out by --leave-out"


def plan(question: Question, machine: Machine, catalogue: Catalogue) -> Plan:
    """Return the arms in build order, the baseline and its duplicate first.

    Raise `NoStackError` when the baseline cannot run, and `OptionValueError` where `--leave-out`
    names it, or leaves nothing to compare with it.
    """
    return _leave_out(_plan_all(question, machine, catalogue), question)


def _plan_all(question: Question, machine: Machine, catalogue: Catalogue) -> Plan:
    arms: list[Arm] = []
    excluded: list[Excluded] = []
    for workflow in catalogue.workflows:
        chosen, unusable = _choose_arms(workflow, question, machine)
        arms += chosen
        excluded += unusable
    if question.serves:
        return Plan(arms=_serving_arms(arms), excluded=tuple(excluded))
    baseline = _find_baseline(question, arms, excluded)
    duplicate = msgspec.structs.replace(
        baseline, id=baseline.id + "#duplicate", duplicate_of=baseline.id
    )
    return Plan(
        arms=(baseline, duplicate, *(each for each in arms if each != baseline)),
        excluded=tuple(excluded),
    )


def _choose_arms(
    workflow: Workflow, question: Question, machine: Machine
) -> tuple[list[Arm], list[Excluded]]:
    obstacle = obstacles.find_obstacle(workflow, question, machine)
    # What the question did not ask for need not be installed.
    if obstacle is not None and obstacle.status != "not-installed":
        return [], [obstacle]
    python = obstacles.environment_interpreter(workflow, machine) if obstacle is None else ""
    named = {*question.workflows}
    requested = [
        each
        for each in list_arms(workflow, question.device, python)
        if is_chosen(each, question.workflows)
        and ({each.id, str(each.name)} & named or not is_on_request(workflow, each, question))
    ]
    if not requested:
        return [], [Excluded(workflow.id, "excluded", NOT_NAMED)]
    with_weights = [each for each in requested if each.weight_format in {None, *question.quantised}]
    if not with_weights:
        formats = ",".join(sorted({each.weight_format for each in requested if each.weight_format}))
        reason = f"{requested[0].id} has quantised weights, for which the question did not ask"
        lacking = obstacle or _with_quantiser(workflow, requested[0], machine)
        install = [f"{lacking.fix}"] if isinstance(lacking, Excluded) else []
        fix = ", and ".join([*install, f"add --quantised {formats}"])
        return [], [Excluded(workflow.id, "excluded", reason, fix)]
    if obstacle is not None:
        return [], [obstacle]
    usable = [each for each in with_weights if unsupported_use(workflow, each, question) is None]
    if not usable:
        use = unsupported_use(workflow, with_weights[0], question)
        reason = f"{with_weights[0].id} does not support {use}"
        return [], [Excluded(workflow.id, "unsupported", reason)]
    found = [_with_quantiser(workflow, each, machine) for each in usable]
    arms = [each for each in found if isinstance(each, Arm)]
    left_out = [
        Excluded(workflow.id, "excluded", NOT_NAMED, option=each.option)
        for each in (list_arms(workflow, question.device) if arms else ())
        if not (is_chosen(each, question.workflows) or is_on_request(workflow, each, question))
        if each.weight_format in {None, *question.quantised}
        if unsupported_use(workflow, each, question) is None
    ]
    return arms, [*(each for each in found if isinstance(each, Excluded)), *left_out]


def _leave_out(made: Plan, question: Question) -> Plan:
    """Return the plan without what `--leave-out` names; no other arm takes its place."""
    unwanted = [each for each in made.distinct if is_named(each.name, question.leave_out)]
    # What is not wanted need not be installed, and no next step proposes to measure it.
    not_planned = [
        each
        for each in made.excluded
        if each.status in {"not-installed", "excluded"}
        if is_named(each.name, question.leave_out)
    ]
    baseline = made.baseline
    if baseline in unwanted:
        raise OptionValueError(
            f"--leave-out names {baseline.id}, the baseline, with which all others are compared",
            "leave out only other workflows or arms",
        )
    # A server is put under load for its own rate of requests.
    if unwanted and len(unwanted) == len(made.distinct) - 1 and not question.serves:
        raise OptionValueError(
            f"--leave-out leaves nothing to compare with the baseline {baseline.id}",
            "leave out fewer workflows or arms",
        )
    arms = tuple(each for each in made.arms if each not in unwanted)
    measured = {each.workflow for each in arms}
    names = [
        *(each.name if each.workflow in measured else ArmName(each.workflow) for each in unwanted),
        *(each.name for each in not_planned),
    ]
    return Plan(
        arms=arms,
        excluded=(
            *(each for each in made.excluded if each not in not_planned),
            *(
                Excluded(workflow, "excluded", LEFT_OUT, "take it out of --leave-out", option)
                for workflow, option in dict.fromkeys(names)
            ),
        ),
    )


def _serving_arms(arms: list[Arm]) -> tuple[Arm, ...]:
    """Return the arms of servers with the baseline first; raise `NoStackError` without one.

    Servers have no duplicate: every one is measured in two processes.
    """
    if not arms:
        raise NoStackError(
            "no workflow with a server can run here",
            f"{how_to_install('stack')} 'transformers[serving]', or create an environment "
            "with p3-advisor env create",
        )
    return tuple(sorted(arms, key=lambda each: each.id != SERVING_BASELINE))


def refuse_without_rival(question: Question, made: Plan) -> None:
    """Raise `NoStackError` where none of the workflows of `--workflows` can run here."""
    named = {ArmName.parse(name).workflow for name in question.workflows}
    reasons = [each for each in made.excluded if each.workflow in named]
    if question.serves or not named or named & {each.workflow for each in made.arms}:
        return
    raise NoStackError(
        "; ".join(f"{each.name} cannot run here: {each.reason}" for each in reasons),
        next((each.fix for each in reasons if each.fix), None)
        or "see p3-advisor workflows, and leave out --workflows to measure those that can run",
    )


def _find_baseline(question: Question, arms: list[Arm], excluded: list[Excluded]) -> Arm:
    if isinstance(question.model, OnnxModel) and not arms:
        named = " of --workflows" if question.workflows else ""
        raise NoStackError(
            f"no workflow{named} that takes ONNX files can run here",
            "leave out --workflows" if named else how_to_install("stack"),
        )
    for planned in arms:
        if planned.id == EAGER or isinstance(question.model, OnnxModel):
            return planned
    reason = next(each for each in excluded if each.workflow == EAGER)
    raise NoStackError(
        f"the baseline {EAGER} cannot run: {reason.reason}",
        reason.fix or "choose another dtype or device",
    )


def _with_quantiser(workflow: Workflow, planned: Arm, machine: Machine) -> Arm | Excluded:
    """Return the arm with the interpreter that writes its checkpoint, or why nothing writes it.

    It is that of `--python` if it has the packages, else that of the created environment.
    """
    environment = workflow.arms[planned.option].quantiser
    if environment is None:
        return planned
    if not obstacles.missing_packages(environment.requirements, machine):
        return msgspec.structs.replace(planned, quantiser=machine.software.executable)
    name = environment.name
    problem = obstacles.environment_problem(name, machine)
    if problem is None:
        return msgspec.structs.replace(planned, quantiser=machine.environments[name].python)
    reason = f"the environment {name}, which writes its checkpoint, {problem}"
    fix = f"p3-advisor env create {name}"
    return Excluded(workflow.id, "not-installed", reason, fix, planned.option)


def list_arms(workflow: Workflow, device: DeviceKind, python: str = "") -> list[Arm]:
    """Return one arm for each set of options of the workflow, on any device."""
    requirements = [Requirement(text) for text in workflow.environment.requirements]
    extras = {each.name: tuple(sorted(each.extras)) for each in requirements if each.extras}
    return [
        Arm(
            id=str(ArmName(workflow.id, "" if option == DEFAULT_OPTION else option)),
            workflow=workflow.id,
            option=option,
            options=declared.options,
            python=python,
            builds_alone=device in workflow.builds_alone_on,
            weight_format=declared.weight_format,
            artefact=declared.artefact,
            called_for=declared.called_for,
            eager_fallback=bool(workflow.eager_fallback and workflow.eager_fallback.value),
            dtypes=declared.dtypes or workflow.dtypes,
            extras=extras,
        )
        for option, declared in workflow.arms.items()
    ]


def unsupported_use(workflow: Workflow, planned: Arm, question: Question) -> str | None:
    """Return the question's device, precision, task or form of the model that the arm lacks.

    A model's own precision is known only to the worker that opens it, which refuses it then.
    """
    declared = workflow.arms[planned.option]
    if question.device not in (declared.devices or workflow.devices):
        return question.device
    if question.dtype not in {"own", *planned.dtypes}:
        return question.dtype
    model_format = input_format_of(question.model)
    if model_format not in (declared.input_formats or workflow.input_formats):
        return f"models in the form {model_format}"
    return None if question.task in (declared.tasks or workflow.tasks) else question.task


def is_on_request(workflow: Workflow, planned: Arm, question: Question) -> bool:
    """Return whether the arm is measured only if it is named, or if a run finds a need for it."""
    on_request = workflow.arms[planned.option].on_request
    return question.device in on_request or planned.called_for is not None


def is_chosen(planned: Arm, chosen: tuple[str, ...]) -> bool:
    """Return whether the list names the arm or its workflow; the baseline is always chosen."""
    return not chosen or planned.id == EAGER or is_named(planned.name, chosen)


def is_named(name: ArmName, names: Iterable[str]) -> bool:
    """Return whether the names have this one, or its workflow."""
    return bool({ArmName(name.workflow), name} & {*map(ArmName.parse, names)})
