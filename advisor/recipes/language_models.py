"""Lines that load a language model or its checkpoint, and make prompts."""

from __future__ import annotations

from advisor.domain.model import TransformersModel
from advisor.domain.question import Question
from advisor.errors import NoRecipeError
from advisor.recipes.expressions import (
    checkpoint_line,
    config_line,
    to_device,
    trust_argument,
)

#: The token numbers of random prompts.
INPUT_IDS = (
    "torch.randint(0, {config}.get_text_config().vocab_size, ({batch_size}, {tokens}){device})"
)
#: Lines that write a tokenizer, without which some engines do not open a checkpoint.
STUB_TOKENIZER = (
    "words = {str(token): token for token in range(config.get_text_config().vocab_size)}",
    'stub = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="0"))',
    "tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=stub)",
    "tokenizer.save_pretrained(CHECKPOINT)  # a word for each token; some engines need one",
)
#: Directory of a checkpoint that the lines write.
WRITTEN_CHECKPOINT = "checkpoint"


def language_model_lines(model: TransformersModel, question: Question) -> list[str]:
    """Return the lines that open the checkpoint, or a model with random weights."""
    dtype = f"dtype=torch.{question.dtype}{trust_argument(question)}"
    if model.weights != "random":
        source = f"transformers.AutoModelForCausalLM.from_pretrained(CHECKPOINT, {dtype})"
        return [
            checkpoint_line(model),
            f"model = {source}{to_device(question)}.eval().requires_grad_(False)",
        ]
    source = f"transformers.AutoModelForCausalLM.from_config(config, {dtype})"
    return [
        config_line(model, trust_argument(question)),
        f"model = {source}{to_device(question)}.eval().requires_grad_(False)",
    ]


def checkpoint_prompt_lines(
    question: Question, batch_size: int, *, prompts_on_device: bool
) -> list[str]:
    """Return the lines that name a checkpoint and make prompts; a model is not loaded.

    A checkpoint with random weights is written first. Raise `NoRecipeError` for other models.
    """
    model, trusted = _require_language_model(question), trust_argument(question)
    prompts = prompt_lines(question, batch_size, "config", on_device=prompts_on_device)
    if model.weights != "random":
        return [
            checkpoint_line(model),
            f"config = transformers.AutoConfig.from_pretrained(CHECKPOINT{trusted})",
            *prompts,
        ]
    dtype = f"dtype=torch.{question.dtype}{trusted}"
    return [
        f'CHECKPOINT = "{WRITTEN_CHECKPOINT}"',
        config_line(model, trusted),
        f"model = transformers.AutoModelForCausalLM.from_config(config, {dtype})",
        "model.save_pretrained(CHECKPOINT)  # random weights",
        "del model",
        *STUB_TOKENIZER,
        *prompts,
    ]


def _require_language_model(question: Question) -> TransformersModel:
    if not isinstance(question.model, TransformersModel):
        raise NoRecipeError(
            "only models of transformers generate text", "measure a name or a directory of one"
        )
    return question.model


def checkpoint_lines(question: Question) -> list[str]:
    """Return the lines of a function `load`, which opens the model of a checkpoint.

    Raise `NoRecipeError` for other models. `CHECKPOINT` is empty for random weights.
    """
    model = _require_language_model(question)
    opened = [
        "def load(checkpoint):",
        '    """Return the model in a directory or on the hub; without one, random weights."""',
    ]
    dtype = f"dtype=torch.{question.dtype}{trust_argument(question)}"
    source = f"transformers.AutoModelForCausalLM.from_pretrained(checkpoint, {dtype})"
    found = f"return {source}{to_device(question)}.eval().requires_grad_(False)"
    if model.weights != "random":
        return [checkpoint_line(model), "", "", *opened, f"    {found}"]
    *made, last = language_model_lines(model, question)
    made.append("return " + last.removeprefix("model = "))
    indented = [f"    {line}" for each in made for line in each.splitlines()]
    return ['CHECKPOINT = ""', "", "", *opened, "    if checkpoint:", f"        {found}", *indented]


def prompt_lines(question: Question, batch_size: int, config: str, *, on_device: bool) -> list[str]:
    """Return the line for random prompts; `config` is the expression of the configuration."""
    device = ', device="cuda"' if on_device and question.device == "cuda" else ""
    tokens = question.input_tokens
    ids = INPUT_IDS.format(config=config, batch_size=batch_size, tokens=tokens, device=device)
    return [f"prompts = {ids}"]
