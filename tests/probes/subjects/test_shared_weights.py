"""Checkpoints: weights that workers share or cannot read, tokenizer and info file."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import workers
from forks import ForkServer
from lazy import by_request, torch, transformers
from reference_cases import Factories

from probes.adapter import ModelError
from probes.subjects import checkpoint
from probes.subjects.checkpoint import CheckpointInfo, EngineSubject

SUBJECT = {"kind": "synthetic", "block": "ffn", "hidden": 8, "intermediate": 16, "layers": 1}
OPEN_TWICE = """
from probes.subjects.by_request import open_torch_subject

for _ in range(2):
    open_torch_subject(request)
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
        request = workers.subject_request(SUBJECT, tmp_path, seed=seed)
        return list(by_request.open_torch_subject(request).module.parameters())

    reference, worker = opened(seed=1), opened(seed=2)
    assert all(torch.equal(one, other) for one, other in zip(reference, worker, strict=True))
    assert not any(parameter.is_meta for parameter in worker)
    state = torch.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(state, torch.get_rng_state()) is not are_drawn, "large weights are not drawn"


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
    here: pathlib.Path,
) -> None:
    factories = Factories(FACTORY)

    def opened(seed: int, *, ahead: bool) -> list[Any]:
        request = factories.request("build", seed=seed)
        if ahead:
            by_request.create_ahead(request)
        return list(by_request.open_torch_subject(request).module.parameters())

    reference, worker = opened(1, ahead=False), opened(2, ahead=True)
    calls = (here / "calls").read_text()
    third = opened(3, ahead=False)
    assert (calls, (here / "calls").read_text()) == ("xx", "xxx")
    for other in (worker, third):
        assert all(torch.equal(one, each) for one, each in zip(reference, other, strict=True))


@pytest.mark.stack
@pytest.mark.usefixtures("here")
def test_parameters_require_gradients_as_users_leave_them() -> None:
    """With gradients AOTInductor folds more matrix products."""
    code = FACTORY.replace("torch.nn.Linear(4, 2)", "torch.nn.Linear(4, 2).requires_grad_({})")
    for required in (True, False):
        module = Factories(code.format(required)).open("build").module
        assert {each.requires_grad for each in module.parameters()} == {required}


@pytest.mark.stack
def test_small_weights_need_no_symbolic_operators() -> None:
    server = ForkServer("torch", "workers")  # the compiler of `stack_server` imports sympy
    assert server.run_script(OPEN_TWICE) == {"has imported sympy": False}
    server.close()


def open_directory(directory: pathlib.Path) -> Any:
    subject = {"kind": "transformers", "name": str(directory), "weights": str(directory)}
    return by_request.open_torch_subject(workers.subject_request(subject, directory))


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("content", [b"", b"no weights at all", None])
def test_weights_that_cannot_be_read_have_a_next_step(
    content: bytes | None, tmp_path: pathlib.Path
) -> None:
    transformers.BertModel(transformers.BertConfig(**workers.TEXT)).save_pretrained(tmp_path)
    if content is None:
        other = {**workers.TEXT, "intermediate_size": 64}
        transformers.BertConfig(**other).save_pretrained(tmp_path)
    else:
        (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError) as refused:
        open_directory(tmp_path)
    assert "--weights-from random" in refused.value.fix


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")
def test_weights_that_the_directory_lacks_are_named(tmp_path: pathlib.Path) -> None:
    transformers.BertModel(transformers.BertConfig(**workers.TEXT)).save_pretrained(tmp_path)
    assert open_directory(tmp_path).adjusted == {}
    config = transformers.BertConfig(**workers.TEXT, architectures=["BertForMaskedLM"])
    config.save_pretrained(tmp_path)
    assert "cls.predictions." in open_directory(tmp_path).adjusted["the weights"]


def test_no_token_word_is_a_prefix_of_another() -> None:
    words = [checkpoint.token_word(token) for token in (0, 1, 2, 20, 2007, 128255, 999_999)]
    assert len({len(word) for word in words}) == 1
    assert len(set(words)) == len(words)
    assert not any(" " in word for word in words)


@pytest.mark.parametrize(
    ("device", "least_cache_gib", "cache_gib", "share"),
    [("cuda", 0.0, 3, 0.7), ("cuda", 4.0, 4, 0.8), ("cpu", 4.0, 3, 0.7), ("cuda", 7.0, 7, 0.9)],
)
def test_an_engine_gets_memory_for_weights_cache_and_its_overhead(
    device: str, least_cache_gib: float, cache_gib: int, share: float, tmp_path: pathlib.Path
) -> None:
    request = workers.make_request(
        tmp_path / "workflow.py",
        tmp_path,
        device=device,
        batch_sizes=[1, 8],
        input_tokens=32,
        output_tokens=32,
        engine_memory={
            "overhead_gib": 2.0,
            "cache_factor": 3.0,
            "least_cache_gib": least_cache_gib,
            "most_share": 0.9,
        },
    )
    gibibyte = checkpoint.GIBIBYTE
    info = CheckpointInfo("A", "float32", 1, 2 * gibibyte, {}, 16, gibibyte // (8 * 64))
    checkpoint.folder_of(request).mkdir()
    checkpoint.write_info(checkpoint.folder_of(request), info)
    subject = EngineSubject(request)
    assert subject.engine_cache_bytes() == cache_gib * gibibyte
    assert subject.engine_memory_share(10 * gibibyte) == share
