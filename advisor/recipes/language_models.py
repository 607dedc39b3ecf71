"""Lines that load a language model or its checkpoint, and make prompts."""

from __future__ import annotations

from advisor.domain.model import TransformersModel
from advisor.domain.question import Question
from advisor.errors import NoRecipeError
from advisor.recipes.expressions import (
    SEED,
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
#: The line that keeps settings of the checkpoint, such as the end of a text, out of `generate`.
AS_MEASURED = (
    "model.generation_config = transformers.GenerationConfig()  # greedy, to the last token"
)
#: Directory of a checkpoint that the lines write.
WRITTEN_CHECKPOINT = "checkpoint"


def language_model_lines(model: TransformersModel, question: Question) -> list[str]:
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
        SEED,
        f"model = {source}{to_device(question)}.eval().requires_grad_(False)",
    ]


def checkpoint_prompt_lines(
    question: Question, batch_size: int, *, prompts_on_device: bool
) -> list[str]:
    """Return the lines that name a checkpoint and make prompts; a model is not loaded.

    A checkpoint with random weights is written first. Raise `NoRecipeError` for other models.
    """
    model, trusted = question.model, trust_argument(question)
    if not isinstance(model, TransformersModel):
        raise NoRecipeError(
            "only models of transformers generate text", "measure a name or a directory of one"
        )
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
        SEED,
        f"model = transformers.AutoModelForCausalLM.from_config(config, {dtype})",
        "model.save_pretrained(CHECKPOINT)  # random weights",
        "del model",
        *STUB_TOKENIZER,
        *prompts,
    ]


def prompt_lines(question: Question, batch_size: int, config: str, *, on_device: bool) -> list[str]:
    """Return the line for random prompts; `config` is the expression of the configuration."""
    device = ', device="cuda"' if on_device and question.device == "cuda" else ""
    tokens = question.input_tokens
    ids = INPUT_IDS.format(config=config, batch_size=batch_size, tokens=tokens, device=device)
    return [f"prompts = {ids}"]
