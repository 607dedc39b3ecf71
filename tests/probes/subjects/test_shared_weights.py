"""Every worker has the weights that the reference worker saved, and small ones at little cost."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import workers
from stack_scripts import RunScript

torch = pytest.importorskip(
    "torch", reason="the stack is not installed: pip install 'p3-advisor[stack]'"
)

from probes.subjects import torch_subject  # noqa: E402 - needs torch

pytestmark = pytest.mark.stack

SUBJECT = {"kind": "synthetic", "block": "ffn", "hidden": 8, "intermediate": 16, "layers": 1}
OPEN_TWICE = """
import dataclasses
from probes.subjects.torch_subject import open_torch_subject

asked = dataclasses.replace(request, shared_directory=str(directory))
for _ in range(2):
    open_torch_subject(asked)
results["has imported sympy"] = "sympy" in sys.modules
"""


@pytest.mark.parametrize("most_drawn", [0, torch_subject.MAX_DRAWN_BYTES])
def test_a_worker_gets_the_saved_weights(
    most_drawn: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_subject, "MAX_DRAWN_BYTES", most_drawn)

    def opened(seed: int) -> list[Any]:
        request = workers.make_request(
            pathlib.Path("x.py"),
            tmp_path,
            subject=SUBJECT,
            shared_directory=str(tmp_path),
            seed=seed,
        )
        return list(torch_subject.open_torch_subject(request).module.parameters())

    reference, worker = opened(seed=1), opened(seed=2)
    assert all(torch.equal(one, other) for one, other in zip(reference, worker, strict=True))
    assert not any(parameter.is_meta for parameter in worker)


def test_small_weights_need_no_symbolic_operators(run_script: RunScript) -> None:
    assert run_script(OPEN_TWICE) == {"has imported sympy": False}
