"""Expressions and arguments that the lines for all kinds of models share."""

from __future__ import annotations

import pathlib
import pprint

from advisor.domain.model import TransformersModel
from advisor.domain.question import Question

WIDTH = 100


def trust_argument(question: Question) -> str:
    """Return the argument that lets a model's own code run, if the question allowed it."""
    return ", trust_remote_code=True" if question.trust_remote_code else ""


def config_expression(model: TransformersModel, trusted: str = "") -> str:
    """Return the expression that opens the configuration."""
    if model.config is None:
        return f'transformers.AutoConfig.from_pretrained("{model_name(model.name)}"{trusted})'
    fields = pprint.pformat(model.config, width=WIDTH, sort_dicts=False, compact=True)
    return f"transformers.AutoConfig.for_model(**{fields})"


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
    """Return a name on the hub, or the name of a local file or directory without its directory."""
    return file_name(name) if pathlib.PurePath(name).is_absolute() else name
