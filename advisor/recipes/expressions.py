"""Expressions and arguments that the lines for all kinds of models share."""

from __future__ import annotations

import json
import pathlib
import pprint

from advisor.domain.model import TransformersModel
from advisor.domain.question import Question

WIDTH = 100
#: The line that gives weights at random the same values in every process.
SEED = "torch.manual_seed(0)"


def trust_argument(question: Question) -> str:
    """Return the argument that lets a model's own code run, if the question allowed it."""
    return ", trust_remote_code=True" if question.trust_remote_code else ""


def config_line(model: TransformersModel, trusted: str = "") -> str:
    if model.config is None:
        name, comment = quoted(model_name(model.name)), place_comment(model.name)
        return f"config = transformers.AutoConfig.from_pretrained({name}{trusted}){comment}"
    fields = pprint.pformat(model.config, width=WIDTH, sort_dicts=False, compact=True)
    return f"config = transformers.AutoConfig.for_model(**{fields})"


def checkpoint_line(model: TransformersModel) -> str:
    return f"CHECKPOINT = {quoted(model_name(model.name))}{place_comment(model.name)}"


def cast_lines(question: Question) -> list[str]:
    dtype = f"torch.{question.dtype}" if question.dtype != "native" else ""
    device = '"cuda"' if question.device == "cuda" else ""
    arguments = ", ".join(part for part in (device, dtype) if part)
    return [
        f"model = model.to({arguments}).eval()" if arguments else "model = model.eval()",
        # Compilers make another program for parameters that require gradients. One by one, because
        # a scripted module has no `requires_grad_`.
        "for parameter in model.parameters():",
        "    parameter.requires_grad_(False)",
    ]


def in_dtype(shape: tuple[int, ...], question: Question) -> str:
    device = ', device="cuda"' if question.device == "cuda" else ""
    sizes = ", ".join(map(str, shape))
    return f"({sizes}, dtype=torch.{question.dtype}{device})"


def to_device(question: Question) -> str:
    return '.to("cuda")' if question.device == "cuda" else ""


def file_name(path: str) -> str:
    return pathlib.PurePath(path).name


def model_name(name: str) -> str:
    """Return a name on the hub, or the relative path of a local directory from where it is.

    The `./` keeps transformers from opening a model of that name on the hub.
    """
    return f"./{file_name(name)}" if pathlib.PurePath(name).is_absolute() else name


def place_comment(name: str) -> str:
    """Return the comment that says where to run lines that name a local path; else nothing."""
    is_local = pathlib.PurePath(name).is_absolute()
    return f"  # run this in the folder of {in_comment(file_name(name))}" if is_local else ""


def quoted(name: str) -> str:
    """Return the string literal of a name, which may come from another machine."""
    return json.dumps(name, ensure_ascii=False)


def in_comment(name: str) -> str:
    """Return a name without characters that could end the line of a comment."""
    return "".join(character if character.isprintable() else "?" for character in name)
