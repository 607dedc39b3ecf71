"""Every worker has the weights that the reference worker saved, and small ones at little cost."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import workers
from forks import ForkServer
from lazy import lazy

torch = lazy("torch")
torch_subject = lazy("probes.subjects.torch_subject")

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


@pytest.mark.parametrize("are_drawn", [False, True])
def test_a_worker_gets_the_saved_weights(
    are_drawn: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not are_drawn:
        monkeypatch.setattr("probes.subjects.torch_subject.MAX_DRAWN_BYTES", 0)

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


def test_small_weights_need_no_symbolic_operators() -> None:
    server = ForkServer("torch", "workers")  # the compiler of `stack_server` imports sympy
    assert server.run_script(OPEN_TWICE) == {"has imported sympy": False}
    server.close()
