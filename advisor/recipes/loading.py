"""The lines that load the measured model and make inputs of the measured shapes.

A workflow's integration takes `model` and `inputs`, or for text `model` or `CHECKPOINT`, and
`prompts`, a tensor of token numbers. Names of files are those of the user's files without their
directories.
"""

from __future__ import annotations

import keyword
import pathlib
from collections.abc import Sequence

from advisor.domain.errors import NoRecipeError
from advisor.domain.model import (
    ExportedModel,
    FactoryModel,
    OnnxModel,
    SyntheticModel,
    TransformersModel,
)
from advisor.domain.question import Question
from advisor.recipes import calls
from probes.facts import InputSpec


def loading_lines(
    question: Question,
    batch_size: int,
    inputs: Sequence[InputSpec] | None = None,
    cast: Sequence[str] | None = None,
) -> list[str]:
    """Return the lines that open the model with reported `inputs`, or raise `NoRecipeError`."""
    cast = calls.cast_lines(question) if cast is None else cast
    match question.model:
        case SyntheticModel() as model:
            return calls.fill_template(
                "synthetic.py.jinja",
                seed=calls.SEED,
                model=model,
                cast=cast,
                size=batch_size,
                tokens=question.input_tokens,
                dtype=question.dtype,
                device=', device="cuda"' if question.device == "cuda" else "",
            ).splitlines()
        case ExportedModel() as model:
            # The tensors of nested inputs become positional ones.
            is_nested = any(each.nested or each.name for each in inputs or ())
            return calls.fill_template(
                "exported.py.jinja",
                model=model,
                classes=calls.nested_call(len(inputs or ())) if is_nested else [],
                to_device=calls.to_device(question),
                value=_cut_example(question, batch_size, inputs),
            ).splitlines()
        case FactoryModel() as model:
            value = _cut_example(question, batch_size, inputs)
            return _factory_lines(model, value, inputs or (), cast)
        case TransformersModel() as model if question.task == "generate":
            prompts = calls.prompt_line(question, batch_size, "model.config", on_device=True)
            return [*calls.language_model_lines(model, question), calls.AS_MEASURED, prompts]
        case OnnxModel(inputs="") if inputs is None:
            raise NoRecipeError("the run does not say what inputs the file had", "measure again")
        case OnnxModel() as model:
            return calls.fill_template(
                "onnx_file.py.jinja",
                path=calls.quoted(calls.file_name(model.name)),
                given=model.inputs,
                size=batch_size,
                values=[calls.random_values(each, batch_size) for each in inputs or ()],
                to_device=calls.to_device(question),
            ).splitlines()
        case TransformersModel() as model:
            return _forward_model_lines(model, question, batch_size, inputs or ())


def _factory_lines(
    model: FactoryModel, value: str, inputs: Sequence[InputSpec], cast: Sequence[str]
) -> list[str]:
    place, _, function = model.name.rpartition(":")
    if not function.isidentifier():
        raise NoRecipeError("the name of the factory is not a name of Python", "measure again")
    module = pathlib.PurePath(place).stem if place.endswith(".py") else place
    names = [each.name for each in inputs if each.name]
    is_nested, classes = any(each.nested for each in inputs), list[str]()
    if is_nested:
        classes = calls.nested_call(len(inputs))
    elif inputs and len(names) == len(inputs):
        classes = calls.call_class("Call", inputs)
    return calls.fill_template(
        "factory.py.jinja",
        model=model,
        place=place,
        module=module,
        function=function,
        is_module=all(
            name.isidentifier() and not keyword.iskeyword(name) for name in module.split(".")
        ),
        is_nested=is_nested,
        names=names if classes else [],
        classes=classes,
        seed=calls.SEED,
        cast=cast,
        value=value,
    ).splitlines()


def _cut_example(question: Question, batch_size: int, inputs: Sequence[InputSpec] | None) -> str:
    """Return the expression that repeats or cuts an example `x` to the batch, if it has one."""
    dtype = f".to(torch.{question.dtype})" if question.dtype != "own" else ""
    cast = f"(x{dtype} if x.is_floating_point() else x)" if dtype else "x"
    # More copies than that would take their memory; concatenation keeps the layout.
    value = f"torch.cat([{cast}] * -(-{batch_size} // len(x)))[:{batch_size}]"
    if inputs and all(not each.batched or each.rows == batch_size for each in inputs):
        value = cast
    elif inputs and not all(each.batched for each in inputs):
        value = f"({value} if x.dim() else x)"
    return f"{value}{calls.to_device(question)}"


def _forward_model_lines(
    model: TransformersModel, question: Question, batch_size: int, inputs: Sequence[InputSpec]
) -> list[str]:
    trusted, is_random = calls.trust_argument(question), model.weights == "random"
    if trusted and is_random:
        raise NoRecipeError(
            "a model with code of its own and random weights has no recipe",
            "measure it with its trained weights, or as file.py:factory",
        )
    return [
        *calls.call_class("Forward", inputs, is_of_transformers=True),
        *calls.fill_template(
            "transformers_model.py.jinja",
            config=calls.config_line(model, trusted),
            checkpoint=calls.model_name(model.name),
            trusted=trusted,
            dtype=f"torch.{question.dtype}" if question.dtype != "own" else "",
            is_random=is_random,
            seed=calls.SEED,
            inputs=[calls.random_values(each, batch_size) for each in inputs],
            to_device=calls.to_device(question),
        ).splitlines(),
    ]
