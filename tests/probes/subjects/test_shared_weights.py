"""Weights that workers share, and weights that cannot be read."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import workers
from forks import ForkServer
from lazy import lazy
from reference_cases import Factories

from probes.adapter import ModelError

torch = lazy("torch")
by_request = lazy("probes.subjects.by_request")
transformers = lazy("transformers")

SUBJECT = {"kind": "synthetic", "block": "ffn", "hidden": 8, "intermediate": 16, "layers": 1}
OPEN_TWICE = """
import dataclasses
from probes.subjects.by_request import open_torch_subject

asked = dataclasses.replace(request, shared_directory=str(directory))
for _ in range(2):
    open_torch_subject(asked)
results["has imported sympy"] = "sympy" in sys.modules
"""


@pytest.mark.stack
@pytest.mark.parametrize("are_drawn", [False, True])
def test_a_worker_gets_the_saved_weights(
    are_drawn: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not are_drawn:
        monkeypatch.setattr("probes.subjects.by_request.MAX_DRAWN_BYTES", 0)

    def opened(seed: int) -> list[Any]:
        request = workers.make_request(
            pathlib.Path("x.py"),
            tmp_path,
            subject=SUBJECT,
            shared_directory=str(tmp_path),
            seed=seed,
        )
        return list(by_request.open_torch_subject(request).module.parameters())

    reference, worker = opened(seed=1), opened(seed=2)
    assert all(torch.equal(one, other) for one, other in zip(reference, worker, strict=True))
    assert not any(parameter.is_meta for parameter in worker)


FACTORY = """
import pathlib
import torch

def build():
    with (pathlib.Path(__file__).parent / "calls").open("a") as calls:
        calls.write("x")
    return torch.nn.Linear(4, 2), (torch.randn(1, 4),)
"""


@pytest.mark.stack
def test_a_model_that_was_created_ahead_is_used_once_and_gets_the_saved_weights(
    tmp_path: pathlib.Path,
) -> None:
    factories = Factories(FACTORY, shared_directory=str(tmp_path))

    def opened(seed: int, *, ahead: bool) -> list[Any]:
        request = factories.request("build", tmp_path, seed=seed)
        if ahead:
            by_request.create_ahead(request)
        return list(by_request.open_torch_subject(request).module.parameters())

    reference, worker = opened(1, ahead=False), opened(2, ahead=True)
    calls = (tmp_path / "calls").read_text()
    third = opened(3, ahead=False)
    assert (calls, (tmp_path / "calls").read_text()) == ("xx", "xxx")
    for other in (worker, third):
        assert all(torch.equal(one, each) for one, each in zip(reference, other, strict=True))


@pytest.mark.stack
def test_small_weights_need_no_symbolic_operators() -> None:
    server = ForkServer("torch", "workers")  # the compiler of `stack_server` imports sympy
    assert server.run_script(OPEN_TWICE) == {"has imported sympy": False}
    server.close()


SIZES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}


def open_directory(directory: pathlib.Path) -> Any:
    subject = {"kind": "transformers", "name": str(directory), "weights": str(directory)}
    return by_request.open_torch_subject(
        workers.make_request(
            pathlib.Path("x.py"), directory, subject=subject, shared_directory=str(directory)
        )
    )


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("content", [b"", b"no weights at all", None])
def test_weights_that_cannot_be_read_have_a_next_step(
    content: bytes | None, tmp_path: pathlib.Path
) -> None:
    config = transformers.BertConfig(**SIZES)
    transformers.BertModel(config).save_pretrained(tmp_path)
    if content is None:
        transformers.BertConfig(**{**SIZES, "intermediate_size": 16}).save_pretrained(tmp_path)
    else:
        (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError) as refused:
        open_directory(tmp_path)
    assert "--weights-from random" in refused.value.fix


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")
def test_weights_that_the_directory_lacks_are_named(tmp_path: pathlib.Path) -> None:
    transformers.BertModel(transformers.BertConfig(**SIZES)).save_pretrained(tmp_path)
    assert open_directory(tmp_path).adjusted == {}
    config = transformers.BertConfig(**SIZES, architectures=["BertForMaskedLM"])
    config.save_pretrained(tmp_path)
    assert "cls.predictions." in open_directory(tmp_path).adjusted["the weights"]
