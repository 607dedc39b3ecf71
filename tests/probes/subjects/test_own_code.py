"""Models with code of their own run with `trust_remote_code`, and only then."""

from __future__ import annotations

import pathlib

import pytest
import workers
from lazy import by_request, causal_lm, torch, transformers_generate

from probes import protocol
from probes.adapter import ModelError

pytestmark = [pytest.mark.stack, pytest.mark.filterwarnings("ignore")]

CONFIGURATION = """
from transformers import PretrainedConfig


class OwnConfig(PretrainedConfig):
    model_type = "p3-own"

    def __init__(self, vocab_size=40, hidden_size=16, **fields):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, 1
        super().__init__(**fields)
"""
MODEL = """
import torch
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from .configuration_own import OwnConfig


class OwnModel(PreTrainedModel):
    config_class = OwnConfig


class OwnForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.table = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, return_dict=True, **others):
        return CausalLMOutput(logits=self.head(self.table(input_ids).cumsum(1)))
"""
CONFIG = {
    "model_type": "p3-own",
    "architectures": ["OwnForCausalLM"],
    "auto_map": {
        "AutoConfig": "configuration_own.OwnConfig",
        "AutoModel": "modeling_own.OwnModel",
        "AutoModelForCausalLM": "modeling_own.OwnForCausalLM",
    },
}


@pytest.fixture
def own_model(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a directory with a model, whose code transformers copies below `tmp_path`."""
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    directory = tmp_path / "own"
    directory.mkdir()
    (directory / "configuration_own.py").write_text(CONFIGURATION)
    (directory / "modeling_own.py").write_text(MODEL)
    return directory


def request_for(directory: pathlib.Path, task: str, *, trusted: bool) -> protocol.Request:
    return workers.subject_request(
        workers.random_weights(CONFIG, directory),
        directory.parent,
        task=task,
        input_tokens=5,
        output_tokens=3,
        trust_remote_code=trusted,
    )


def test_trusted_code_computes_and_generates(own_model: pathlib.Path) -> None:
    with torch.no_grad():
        opened = by_request.open_torch_subject(
            request_for(own_model, protocol.FORWARD, trusted=True)
        )
        (logits,) = opened.run(opened.inputs(2, 0))
        request = request_for(own_model, protocol.GENERATE, trusted=True)
        # The worker that opens it next reads the checkpoint that the first one wrote.
        subject = [causal_lm.open_causal_lm(request) for _ in range(2)][-1]
        program = transformers_generate.TextGeneration(subject.model, request)
        (tokens,) = program.collect(program(program.feed(subject.inputs(2, 0))))
    assert logits.shape == (2, 5, 40)
    assert tokens.shape == (2, 3)


@pytest.mark.parametrize("task", [protocol.FORWARD, protocol.GENERATE])
def test_code_that_is_not_trusted_is_not_executed(task: str, own_model: pathlib.Path) -> None:
    (own_model / "configuration_own.py").write_text("raise AssertionError")
    with pytest.raises(ModelError) as raised:
        by_request.open_subject(request_for(own_model, task, trusted=False))
    assert "--trust-remote-code" in raised.value.fix
