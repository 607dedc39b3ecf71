"""Lines that call a model with the tensors that were measured, in the order of its inputs.

Exporters take positional tensors, so a module with keyword inputs gets a module around it.
"""

from __future__ import annotations

import json
import keyword
import pathlib
import pprint
import re
from collections.abc import Sequence

from advisor.domain.errors import NoRecipeError
from advisor.domain.model import MAX_SHORT_NAME, Model, TransformersModel
from advisor.domain.question import Question
from probes.facts import InputSpec


def fill_template(template: str, **values: object) -> str:
    """Return code from one of `templates` with these values in it."""
    import jinja2  # noqa: PLC0415 - slow to import, and few snippets need it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("advisor.recipes"),
        autoescape=False,  # noqa: S701 - the result is code
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"quoted": quoted, "file_name": file_name, "in_comment": in_comment}
    return environment.get_template(template).render(values)


def nested_call(count: int) -> list[str]:
    """Return the lines of a module that takes the `count` tensors of nested inputs in their order.

    A tensor may stand at several places. Each has a parameter: exporters take the shapes of
    `*tensors` in another structure.
    """
    names = ", ".join(f"tensor{number}" for number in range(1, count + 1))
    return fill_template("nested_call.py.jinja", names=names).splitlines()


def call_class(
    name: str, inputs: Sequence[InputSpec], *, is_of_transformers: bool = False
) -> list[str]:
    """Return the lines of a module that takes the inputs in their order and gives their names."""
    names = [each.name for each in inputs]
    # A run from another machine could have anything else here.
    if not all(each.isidentifier() and not keyword.iskeyword(each) for each in names):
        raise NoRecipeError(
            "an input of the model has a name that is not a Python identifier",
            "give the model as file.py:factory, with a module around it",
        )
    return fill_template(
        "call_class.py.jinja",
        name=name,
        names=", ".join(names),
        keywords=", ".join(f"{each}={each}" for each in names),
        is_of_transformers=is_of_transformers,
    ).splitlines()


def random_values(each: InputSpec, batch_size: int) -> str:
    if not each.dtype.isidentifier():
        raise NoRecipeError(f"{each.dtype!r} is not a dtype", "measure again")
    shape, dtype = (batch_size, *each.shape) if each.batched else each.shape, f"torch.{each.dtype}"
    if each.low is not None and each.high is not None:
        cast = f", dtype={dtype}" if each.dtype != "int64" else ""
        return f"torch.randint({each.low}, {each.high}, {shape}{cast})"
    return f"torch.randn({shape}, dtype={dtype})"


WIDTH = 100
#: The line that gives weights at random the same values in every process.
SEED = "torch.manual_seed(0)"


def trust_argument(question: Question) -> str:
    return ", trust_remote_code=True" if question.trust_remote_code else ""


def config_line(model: TransformersModel, trusted: str) -> str:
    if model.config is None:
        name, comment = quoted(model_name(model.name)), place_comment(model.name)
        return f"config = transformers.AutoConfig.from_pretrained({name}{trusted}){comment}"
    fields = pprint.pformat(model.config, width=WIDTH, sort_dicts=False, compact=True)
    return f"config = transformers.AutoConfig.for_model(**{fields})"


def checkpoint_line(model: TransformersModel) -> str:
    return f"CHECKPOINT = {quoted(model_name(model.name))}{place_comment(model.name)}"


def cast_lines(
    question: Question, *, complex_weights: bool = False, fixed_mode: bool = False
) -> list[str]:
    """Return the lines that cast and move the model; `eval` of some models returns nothing."""
    return fill_template(
        "cast.py.jinja",
        dtype=f"torch.{question.dtype}" if question.dtype != "own" else "",
        device='"cuda"' if question.device == "cuda" else "",
        complex_weights=complex_weights,
        fixed_mode=fixed_mode,
    ).splitlines()


def to_device(question: Question) -> str:
    return '.to("cuda")' if question.device == "cuda" else ""


def file_name(path: str) -> str:
    return pathlib.PurePath(path).name


def file_stem(model: Model) -> str:
    """Return how names of files begin that are made of a model, which may have any name."""
    name = re.sub(r"\.(?:py|onnx|pt2)(?=:|$)", "", file_name(model.name))
    return re.sub(r"[^a-zA-Z0-9_]+", "-", name)[:MAX_SHORT_NAME].strip("-") or "model"


def model_name(name: str) -> str:
    """Name a local directory as `./NAME`, which transformers does not look for on the hub."""
    return f"./{file_name(name)}" if pathlib.PurePath(name).is_absolute() else name


def place_comment(name: str) -> str:
    is_local = pathlib.PurePath(name).is_absolute()
    return f"  # run this in the folder of {in_comment(file_name(name))}" if is_local else ""


def quoted(name: str) -> str:
    """Return the string literal of a name, which may come from another machine."""
    return json.dumps(name, ensure_ascii=False)


def in_comment(name: str) -> str:
    """Return a name without characters that could end the line of a comment."""
    return "".join(character if character.isprintable() else "?" for character in name)


INPUT_IDS = (
    "torch.randint(0, {config}.get_text_config().vocab_size, ({batch_size}, {tokens}){device})"
)
#: The line that keeps settings of the checkpoint, such as the end of a text, out of `generate`.
AS_MEASURED = (
    "model.generation_config = transformers.GenerationConfig()  # greedy, to the last token"
)


def language_model_lines(model: TransformersModel, question: Question) -> list[str]:
    trusted = trust_argument(question)
    lines, opened = [checkpoint_line(model)], "from_pretrained(CHECKPOINT"
    if model.weights == "random":
        lines, opened = [config_line(model, trusted), SEED], "from_config(config"
    source = f"transformers.AutoModelForCausalLM.{opened}, dtype=torch.{question.dtype}{trusted})"
    return [*lines, f"model = {source}{to_device(question)}.eval()"]


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
    named = fill_template(
        "checkpoint.py.jinja",
        is_random=model.weights == "random",
        config=config_line(model, trusted),
        seed=SEED,
        dtype=question.dtype,
        trusted=trusted,
        checkpoint=checkpoint_line(model),
    )
    prompts = prompt_line(question, batch_size, "config", on_device=prompts_on_device)
    return [*named.splitlines(), prompts]


def prompt_line(question: Question, batch_size: int, config: str, *, on_device: bool) -> str:
    """Return the line for random prompts; `config` is the expression of the configuration."""
    device = ', device="cuda"' if on_device and question.device == "cuda" else ""
    tokens = question.input_tokens
    ids = INPUT_IDS.format(config=config, batch_size=batch_size, tokens=tokens, device=device)
    return f"prompts = {ids}"
