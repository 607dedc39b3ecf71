"""ONNX Runtime GenAI takes 32 prompts at once; larger batches take turns, in order."""

from __future__ import annotations

import types
from typing import Any, ClassVar

import numpy as np
import pytest
from stub_stacks import load_with_stubs

from advisor.ask import catalogue_files
from probes.adapter import UnsupportedError

MAX_PROMPTS, PROMPT, NEW, VOCABULARY = 32, 3, 4, 50


class Generator:
    """Generates the last token plus one; refuses larger batches with the library's error."""

    sizes: ClassVar[list[int]] = []

    def __init__(self, _model: object, parameters: types.SimpleNamespace) -> None:
        self.count = parameters.options["batch_size"]
        if not 1 <= self.count <= MAX_PROMPTS:
            raise RuntimeError(f"batch_size ({self.count}) must be in [1, {MAX_PROMPTS}]")
        self.sizes.append(self.count)
        self.forced: Any = None

    def append_tokens(self, tokens: Any) -> None:
        assert len(tokens) == self.count
        self.sequences = [list(row) for row in tokens]

    def get_logits(self) -> Any:
        logits = np.zeros((self.count, 1, VOCABULARY), dtype=np.float32)
        for row, sequence in enumerate(self.sequences):
            logits[row, 0, (sequence[-1] + 1) % VOCABULARY] = 5
        return logits

    def set_logits(self, logits: Any) -> None:
        self.forced = logits

    def generate_next_token(self) -> None:
        chosen = (self.get_logits() if self.forced is None else self.forced)[:, 0].argmax(-1)
        self.forced = None
        for sequence, token in zip(self.sequences, chosen, strict=True):
            sequence.append(token)

    def get_sequence(self, row: int) -> Any:
        return np.array(self.sequences[row], dtype=np.int32)


class Parameters(types.SimpleNamespace):
    def __init__(self, _model: object) -> None:
        super().__init__(options={})

    def set_search_options(self, **options: Any) -> None:
        self.options.update(options)


@pytest.fixture
def program() -> Any:
    """Return the program that the probe times, with a fake library."""
    Generator.sizes = []
    stubs = ("onnxruntime", "onnxruntime_genai", "probes.stacks.onnxruntime_quantisation")
    module: Any = load_with_stubs("workflows/onnxruntime_genai.py", stubs)
    module.og.Generator, module.og.GeneratorParams = Generator, Parameters
    options = catalogue_files.read_shipped().by_id["onnxruntime-genai"].arms["default"].options
    subject = types.SimpleNamespace(
        engine=object(), info=types.SimpleNamespace(vocabulary=VOCABULARY)
    )
    return module.EngineGeneration(
        subject,
        types.SimpleNamespace(options=dict(options), input_tokens=PROMPT, output_tokens=NEW),
    )


def prompts(count: int) -> Any:
    return np.arange(count * PROMPT, dtype=np.int32).reshape(count, PROMPT) % VOCABULARY


@pytest.mark.parametrize(("count", "sizes"), [(4, [4]), (32, [32]), (70, [32, 32, 6])])
def test_prompts_take_turns_and_keep_their_order(
    program: Any, count: int, sizes: list[int]
) -> None:
    (tokens,) = program.collect(program(prompts(count)))
    assert Generator.sizes == sizes
    assert (tokens == (prompts(count)[:, -1:] + np.arange(1, NEW + 1)) % VOCABULARY).all()


def test_prompts_that_take_turns_have_no_first_token_call(program: Any) -> None:
    assert [len(sequence) for sequence in program.first_token(prompts(32))] == [PROMPT + 1] * 32
    Generator.sizes.clear()
    with pytest.raises(UnsupportedError, match="32 prompts"):
        program.first_token(prompts(33))
    assert Generator.sizes == [], "nothing was generated"


@pytest.mark.parametrize("rows", [1, 32, 40])
def test_only_the_first_rows_are_scored(program: Any, rows: int) -> None:
    (tokens,) = program.collect(program(prompts(70)))
    scores = program.score(prompts(70), tokens, rows).logprobs
    assert scores.shape == (rows, NEW, VOCABULARY)
    assert (scores.argmax(-1) == tokens[:rows]).all()
