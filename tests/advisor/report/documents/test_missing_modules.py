"""A model that imports what its environment does not have: the next step installs it there."""

from __future__ import annotations

import builders
import pytest
from advisor.report.documents.missing_modules import find_install_step

from advisor.domain.environment import Environment
from advisor.domain.outcome import BuildFailed, Failure, ModelRefused

MISSING = ModelRefused(phase="load", reason="no module", missing_module="timm")
OWN = Environment(kind="own", name="openvino")
CUDA = Environment(kind="own", name="openvino-cuda")


@pytest.mark.parametrize(
    ("device", "environment"), [("cpu", "openvino"), ("cuda", "openvino-cuda")]
)
def test_the_module_is_added_to_the_environment_of_the_device(
    device: str, environment: str
) -> None:
    workflow = builders.workflow("arm", environment=OWN, environment_on={"cuda": CUDA})
    header = builders.header(
        question=builders.question(device=device), catalogue=builders.catalogue(workflow)
    )
    step = find_install_step(header, "arm", MISSING)
    assert step is not None
    assert step.startswith(f"p3-advisor env create {environment} --with timm,")


def test_no_environment_is_created_for_a_workflow_of_the_shared_one() -> None:
    header = builders.header(catalogue=builders.catalogue(builders.workflow("arm")))
    step = find_install_step(header, "arm", MISSING)
    assert step is not None
    assert "env create" not in step


@pytest.mark.parametrize(
    "failure",
    [ModelRefused(phase="load", reason="no weights"), BuildFailed(phase="build", reason="no op")],
)
def test_another_failure_has_no_such_step(failure: Failure) -> None:
    header = builders.header(catalogue=builders.catalogue(builders.workflow("arm")))
    assert find_install_step(header, "arm", failure) is None
