"""Find a known fault of a stack that explains a failure, so that the model is not suspected."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

from advisor.domain.machine import Gpu
from advisor.domain.run import Header
from advisor.domain.workflow import KnownFault


def find_next_step(header: Header, workflow: str, status: str) -> str | None:
    """Return the next step, the description and the source of the first fault that fits.

    `status` is the document's status of the workflow. Return None if no known fault fits.
    """
    gpu = header.machine.find_gpu(header.question.gpu)
    faults = (
        fault
        for entry in header.catalogue.workflows
        if entry.id == workflow
        for fault in entry.faults
    )
    for fault in faults:
        is_affected = _affects_dtype(fault, header.question.dtype) and _affects_gpu(fault, gpu)
        if status in fault.statuses and is_affected:
            return f"{fault.next_step}: {fault.description} ({fault.source})"
    return None


def _affects_dtype(fault: KnownFault, dtype: str) -> bool:
    return not fault.dtypes or dtype in fault.dtypes


def _affects_gpu(fault: KnownFault, gpu: Gpu | None) -> bool:
    capabilities = fault.compute_capabilities
    return not capabilities or (
        gpu is not None
        and any(SpecifierSet(each).contains(gpu.compute_capability) for each in capabilities)
    )
