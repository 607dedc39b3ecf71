"""Why no GPU of a machine can be used."""

from __future__ import annotations

import builders
import msgspec
import pytest

from advisor.domain.machine import Machine
from advisor.errors import NoStackError
from advisor.question.devices import NoGpuReason, choose_gpu, find_no_gpu_reason

WITH_GPU = builders.gpu_machine(builders.gpu())
CPU_BUILD = msgspec.structs.replace(
    WITH_GPU, software=msgspec.structs.replace(WITH_GPU.software, torch_cuda=None)
)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [(builders.machine(), "no-gpu"), (CPU_BUILD, "cpu-build"), (WITH_GPU, None)],
)
def test_a_gpu_needs_a_cuda_build_of_torch(machine: Machine, reason: NoGpuReason | None) -> None:
    assert find_no_gpu_reason(machine) == reason


def test_a_gpu_that_is_named_is_refused_with_a_cpu_build() -> None:
    catalogue = builders.catalogue()
    assert choose_gpu("", CPU_BUILD, catalogue) is None
    with pytest.raises(NoStackError):
        choose_gpu("0", CPU_BUILD, catalogue)
