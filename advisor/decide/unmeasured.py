"""List the arms and workflows of a run that have no measurement, with reason and next step."""

from __future__ import annotations

import msgspec
from packaging.specifiers import SpecifierSet

from advisor.domain.answer import Status, UnmeasuredArm
from advisor.domain.machine import Gpu
from advisor.domain.plan import Arm, Plan
from advisor.domain.results import Results
from advisor.domain.run import Header, resume_command
from advisor.domain.run_state import RunState, varying_sibling
from advisor.domain.serving import ServedArm
from advisor.domain.workflow import KnownFault, Workflow
from advisor.errors import UserError
from advisor.system.number_format import format_share
from probes.wire.outcome import Failure

ANOTHER_NAME = "or the package that provides this module under another name"


def list_excluded(header: Header, plan: Plan) -> tuple[UnmeasuredArm, ...]:
    """Return the workflows that the plan excludes."""
    workflows = {workflow.id: workflow for workflow in header.catalogue.workflows}
    return tuple(
        UnmeasuredArm(
            arm=each.workflow,
            workflow=each.workflow,
            title=workflows[each.workflow.partition("/")[0]].title_of(each.workflow),
            status=each.status,
            reason=each.reason,
            fix=each.fix,
        )
        for each in plan.excluded
    )


def list_planned(
    header: Header, state: RunState, results: Results, final_problem: UserError | None
) -> tuple[UnmeasuredArm, ...]:
    """Return the planned arms without a measurement.

    `final_problem` is why the rest of the run cannot be executed; None where it can.
    """
    measured = {measurement.arm for measurement in results.measurements}
    workflows = {workflow.id: workflow for workflow in header.catalogue.workflows}
    return tuple(
        _planned(arm, workflows[arm.workflow], header, state, results, final_problem)
        for arm in (state.plan.arms if state.plan else ())
        if arm.duplicate_of is None and arm.id not in measured
    )


def _planned(
    arm: Arm,
    workflow: Workflow,
    header: Header,
    state: RunState,
    results: Results,
    final_problem: UserError | None,
) -> UnmeasuredArm:
    """Return an arm that failed, is too slow to serve, or was not reached."""
    entry = UnmeasuredArm(
        arm=arm.id,
        workflow=arm.workflow,
        title=workflow.title_of(arm.id),
        option=arm.option,
        status="excluded",
        reason="the run stopped before this arm was measured",
        fix=_measuring_step(header, final_problem),
    )
    processes = state.processes.get(arm.id, ())
    failures = [process.failure for process in processes if process.failure]
    if failures:
        failure, status = failures[-1], status_of(failures[-1])
        return msgspec.structs.replace(
            entry,
            status=status,
            reason=failure.reason,
            fix=failure.fix
            or _install_step(header, workflow, failure)
            or _step_of_known_fault(header, workflow, status),
            skip_cause=failure.skip_cause,
            checks=tuple(checked for _, checked in sorted(processes[-1].checked.items())),
        )
    sibling = varying_sibling(state, arm.id)
    if sibling is not None:
        return msgspec.structs.replace(
            entry,
            status="nondeterministic",
            reason=f"it runs the same artefact as {sibling}, whose outputs vary",
            fix=_step_of_known_fault(header, workflow, "nondeterministic"),
        )
    served = results.serving.arms if results.serving else ()
    own = next((each for each in served if each.arm == arm.id), None)
    return entry if own is None else _too_slow(entry, own)


def status_of(failure: Failure) -> Status:
    """Return the status of an arm whose last process failed."""
    if failure.status in {"model-refused", "model-failed"}:
        return "build-failed"
    status: Status = msgspec.convert(failure.status, Status)
    return status


def _measuring_step(header: Header, final_problem: UserError | None) -> str | None:
    """Return how the arms that the run did not come to are measured; None on another machine."""
    if header.imported:
        return None
    return final_problem.next_step if final_problem else resume_command(header.run_id)


def _too_slow(entry: UnmeasuredArm, served: ServedArm) -> UnmeasuredArm:
    """Return a server that meets the limits at no rate that was tried."""
    slowest = min(served.levels, key=lambda level: level.rate, default=None)
    met = (
        f"; at {slowest.rate:.3g} requests/s {format_share(slowest.met)} of them do"
        if slowest
        else ""
    )
    return msgspec.structs.replace(
        entry,
        reason=f"too few requests meet the limits at every rate that was tried{met}",
        fix="allow more with --ttft and --itl, or choose shorter requests with --lengths",
    )


def _install_step(header: Header, workflow: Workflow, failure: Failure) -> str | None:
    """Return the next step if the model needs a module that its environment does not have."""
    if failure.missing_module is None:
        return None
    module, chosen = failure.missing_module, workflow.for_question(header.question)
    if chosen.environment.kind == "own":
        name = chosen.environment_name
        return f"p3-advisor env create {name} --with {module}, {ANOTHER_NAME}"
    return f"install {module} where the workflow runs, {ANOTHER_NAME}"


def _step_of_known_fault(header: Header, workflow: Workflow, status: Status) -> str | None:
    """Return the next step of the first known fault of the stack that explains the status.

    With it the model is not suspected.
    """
    question = header.question
    gpu = header.machine.find_gpu(question.gpu)
    for fault in workflow.faults:
        affects_dtype = not fault.dtypes or question.dtype in fault.dtypes
        if status in fault.statuses and affects_dtype and _affects_gpu(fault, gpu):
            return f"{fault.next_step}: {fault.description} ({fault.source})"
    return None


def _affects_gpu(fault: KnownFault, gpu: Gpu | None) -> bool:
    capabilities = fault.compute_capabilities
    return not capabilities or (
        gpu is not None
        and any(SpecifierSet(each).contains(gpu.compute_capability) for each in capabilities)
    )
