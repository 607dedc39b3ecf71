"""Whether a failure is a known fault of its stack, and what helps: so that nobody looks for it in his own model. Pure."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

from advisor.domain.machine import Gpu
from advisor.domain.run import Header
from advisor.domain.workflow import KnownFault


def find_next_step(header: Header, workflow: str, status: str) -> str | None:
    """Return what helps against the known fault that accounts for this outcome, what it is, and who says so; None where none does."""
    gpu = header.machine.find_gpu(header.question.gpu)
    known = (
        fault
        for entry in header.catalogue.workflows
        if entry.id == workflow
        for fault in entry.faults
    )
    for fault in known:
        if status in fault.statuses and _is_in(fault, header.question.dtype) and _is_on(fault, gpu):
            return f"{fault.next_step}: {fault.what} ({fault.source})"
    return None


def _is_in(fault: KnownFault, dtype: str) -> bool:
    return not fault.dtypes or dtype in fault.dtypes


def _is_on(fault: KnownFault, gpu: Gpu | None) -> bool:
    generations = fault.compute_capabilities
    return not generations or (
        gpu is not None
        and any(SpecifierSet(each).contains(gpu.compute_capability) for each in generations)
    )
