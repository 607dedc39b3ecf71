"""Train a tiny language model on Python's standard library: `train_tiny_model.py DIRECTORY`.

It takes a bit over a minute and has about two million weights. Losses of trained models can be
measured with it where no trained model can be downloaded. The last tenth of the text, on which it
is not trained, is written as `texts.jsonl`.
"""

from __future__ import annotations

import json
import pathlib
import sys
import sysconfig
import time

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY, CONTEXT, ROWS, SECONDS = 1024, 128, 16, 75.0
CHARACTERS = 6_000_000
TEXT_LINES, TEXT_CHARACTERS = 400, 400


def read_library() -> str:
    """Return the beginning of the modules of the standard library, in alphabetical order."""
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    texts = (
        file.read_text(encoding="utf-8", errors="ignore") for file in sorted(folder.glob("*.py"))
    )
    return "".join(texts)[:CHARACTERS]


def train_tokenizer(text: str) -> transformers.PreTrainedTokenizerFast:
    """Return a byte-level tokenizer of `VOCABULARY` tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def make_model() -> transformers.LlamaForCausalLM:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=6,
        max_position_embeddings=512,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=False,
    )
    return transformers.LlamaForCausalLM(config)


def train(model: transformers.LlamaForCausalLM, tokens: torch.Tensor) -> None:
    """Train for `SECONDS`, and print the loss in nats a token."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95))
    generator = torch.Generator().manual_seed(0)
    start, step = time.monotonic(), 0
    while (passed := (time.monotonic() - start) / SECONDS) < 1:
        for group in optimiser.param_groups:
            group["lr"] = 2e-3 * min(1.0, (step + 1) / 20) * max(1 - passed, 0.05)
        begins = torch.randint(len(tokens) - CONTEXT, (ROWS,), generator=generator)
        rows = torch.stack([tokens[begin : begin + CONTEXT] for begin in begins])
        loss = model(input_ids=rows, labels=rows).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        step += 1
        if step % 100 == 0:
            sys.stdout.write(f"step {step}: {loss.item():.3f} nats a token\n")


def main(directory: pathlib.Path) -> None:
    torch.manual_seed(0)
    text = read_library()
    split = len(text) * 9 // 10
    tokenizer = train_tokenizer(text[:split])
    tokens = torch.from_numpy(np.array(tokenizer(text[:split])["input_ids"], dtype=np.int64))
    model = make_model()
    train(model, tokens)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    rest = text[split:]
    lines = [
        json.dumps({"prompt": rest[begin : begin + TEXT_CHARACTERS]})
        for begin in range(0, min(len(rest), TEXT_LINES * TEXT_CHARACTERS), TEXT_CHARACTERS)
    ]
    (directory / "texts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
