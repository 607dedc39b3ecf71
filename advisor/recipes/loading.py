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

#: The comment at a file that the user has not written.
COPY = "a copy: put your own module and its inputs here"


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
            device = ', device="cuda"' if question.device == "cuda" else ""
            sizes = f"{batch_size}, {question.input_tokens}, {model.hidden}"
            values = f"torch.randn({sizes}, dtype=torch.{question.dtype}{device})"
            return [calls.SEED, *_synthetic_lines(model), *cast, f"inputs = ({values},)"]
        case ExportedModel() as model:
            return _exported_lines(model, question, batch_size, inputs)
        case FactoryModel() as model:
            return _factory_lines(model, question, batch_size, inputs, cast)
        case TransformersModel() as model if question.task == "generate":
            prompts = calls.prompt_line(question, batch_size, "model.config", on_device=True)
            return [*calls.language_model_lines(model, question), calls.AS_MEASURED, prompts]
        case OnnxModel(inputs="") if inputs is None:
            raise NoRecipeError("the run does not say what inputs the file had", "measure again")
        case OnnxModel() as model:
            return calls.fill_template(
                "onnx_file.py.jinja",
                path=calls.quoted(calls.file_name(model.name)),
                given="\n".join(_given_lines(model.inputs)),
                size=batch_size,
                values=[calls.random_values(each, batch_size) for each in inputs or ()],
                to_device=calls.to_device(question),
            ).splitlines()
        case TransformersModel() as model:
            return _forward_model_lines(model, question, batch_size, inputs or ())


def _synthetic_lines(model: SyntheticModel) -> list[str]:
    up = f"torch.nn.Linear({model.hidden}, {model.intermediate})"
    down = f"torch.nn.Linear({model.intermediate}, {model.hidden})"
    block = f"torch.nn.Sequential({up}, torch.nn.ReLU(), {down})"
    match model.block:
        case "matmul":
            return [f"model = {up}"]
        case "matmul-relu":
            return [f"model = torch.nn.Sequential({up}, torch.nn.ReLU())"]
        case "ffn":
            return [f"model = {block}"]
        case "ffn-multilayer":
            layers = f"    *({block} for _ in range({model.layers}))"
            return ["model = torch.nn.Sequential(", layers, ")"]
        case "encoder":
            no_nesting = "enable_nested_tensor=False"
            return [
                "# The measured attention is the plain one, without the fast path of the layer.",
                "torch.backends.mha.set_fastpath_enabled(False)",
                "layer = torch.nn.TransformerEncoderLayer(",
                f"    {model.hidden}, {model.heads}, {model.intermediate}, dropout=0.0,",
                '    activation="gelu", batch_first=True, norm_first=True,',
                ")",
                f"model = torch.nn.TransformerEncoder(layer, {model.layers}, {no_nesting})",
            ]


def _given_lines(given: str) -> list[str]:
    """Return the lines that assign `given`, the inputs that `--inputs` names, if it does."""
    if not given:
        return []
    place, _, function = given.rpartition(":")
    if not given.endswith(".npz"):
        run = f"runpy.run_path({calls.quoted(calls.file_name(place))})[{calls.quoted(function)}]()"
        return [f"given = {run}  # path of your file"]
    return [
        f"given = dict(numpy.load({calls.quoted(calls.file_name(given))}))  # path of your file",
        "given = {name: torch.from_numpy(array) for name, array in given.items()}",
        'given = tuple(given.values()) if "arr_0" in given else given',
    ]


def _exported_lines(
    model: ExportedModel, question: Question, batch_size: int, inputs: Sequence[InputSpec] | None
) -> list[str]:
    """Return the lines that load a file; the tensors of nested inputs become positional ones."""
    is_nested = any(each.nested or each.name for each in inputs or ())
    comment = COPY if model.is_copy else "path of your file"
    made, examples = "program.module()", "program.example_inputs[0]"
    if is_nested:
        is_named = "isinstance(given, collections.abc.Mapping)"
        nested = f"(((), given) if {is_named} else (given, {{}}))"
        nested = nested if model.inputs else "program.example_inputs"
        made, examples = f"Call(program.module(), {nested})", "model.tensors"
    elif model.inputs:
        examples = "((given,) if isinstance(given, torch.Tensor) else given)"
    return [
        *(calls.nested_call(len(inputs or ())) if is_nested else ()),
        *_given_lines(model.inputs),
        f"program = torch.export.load({calls.quoted(calls.file_name(model.name))})  # {comment}",
        f"model = {made}{calls.to_device(question)}",
        *_example_lines(examples, question, batch_size, inputs),
    ]


def _factory_lines(
    model: FactoryModel,
    question: Question,
    batch_size: int,
    inputs: Sequence[InputSpec] | None,
    cast: Sequence[str],
) -> list[str]:
    """Return the lines that load the model; tensors are positional: exporters take no others."""
    place, _, function = model.name.rpartition(":")
    if not function.isidentifier():
        raise NoRecipeError("the name of the factory is not a name of Python", "measure again")
    module = pathlib.PurePath(place).stem if place.endswith(".py") else place
    comment = COPY if model.is_copy else "your code"
    if place.endswith(".py") and not model.is_copy:
        comment += (
            f": save and run this in the folder of {calls.in_comment(calls.file_name(place))}"
        )
    imported = [f"from {module} import {function}  # {comment}"]
    names = module.split(".")
    if not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
        read = f"runpy.run_path({calls.quoted(calls.file_name(place))})"
        imported = [f'{function} = {read}["{function}"]  # {comment}']
    made = f"{function}()"
    if model.inputs:
        imported += [*_given_lines(model.inputs), f"made = {made}"]
        made = "made[0] if isinstance(made, tuple) else made, given"
    classes, wrapped = list[str](), list[str]()
    opened = f"model, examples, *_ = {made}"
    given = ["examples = (examples,) if isinstance(examples, torch.Tensor) else examples"]
    examples = "examples"
    if inputs and any(each.nested for each in inputs):
        classes, opened = calls.nested_call(len(inputs)), f"model, arguments, *more = {made}"
        wrapped = [
            "keywords = dict(*more)",
            "if isinstance(arguments, collections.abc.Mapping):",
            "    arguments, keywords = (), arguments",
            "elif isinstance(arguments, torch.Tensor):",
            "    arguments = (arguments,)",
            "model = Call(model, (tuple(arguments), keywords))",
        ]
        given, examples = [], "model.tensors"
    elif inputs and all(each.name for each in inputs):
        classes, opened = calls.call_class("Call", inputs), f"model, *examples = {made}"
        wrapped = ["model = Call(model)"]
        names = [each.name for each in inputs]
        given = [f"examples = [examples[-1][name] for name in {names}]"]
    # Before the import: the file may make the model.
    lines = [*classes, calls.SEED, *imported, opened, *wrapped, *cast, *given]
    return [*lines, *_example_lines(examples, question, batch_size, inputs)]


def _example_lines(
    examples: str, question: Question, batch_size: int, inputs: Sequence[InputSpec] | None
) -> list[str]:
    """Return the lines that repeat or cut example inputs to the batch size, if they have one."""
    dtype = f".to(torch.{question.dtype})" if question.dtype != "own" else ""
    cast = f"(x{dtype} if x.is_floating_point() else x)" if dtype else "x"
    # More copies than that would take their memory; concatenation keeps the layout.
    value = f"torch.cat([{cast}] * -(-{batch_size} // len(x)))[:{batch_size}]"
    if inputs and all(not each.batched or each.rows == batch_size for each in inputs):
        value = cast
    elif inputs and not all(each.batched for each in inputs):
        value = f"({value} if x.dim() else x)"
    return [
        "inputs = tuple(",
        f"    {value}{calls.to_device(question)}",
        f"    for x in {examples}",
        ")",
    ]


def _forward_model_lines(
    model: TransformersModel, question: Question, batch_size: int, inputs: Sequence[InputSpec]
) -> list[str]:
    trusted = calls.trust_argument(question)
    dtype = f"torch.{question.dtype}" if question.dtype != "own" else '"auto"'
    checkpoint = calls.quoted(calls.model_name(model.name))
    opened = f"from_pretrained({checkpoint}, config=config, dtype={dtype}{trusted})"
    if model.weights == "random":
        if trusted:
            raise NoRecipeError(
                "a model with code of its own and random weights has no recipe",
                "measure it with its trained weights, or as file.py:factory",
            )
        opened = (
            f"_from_config(config, dtype={dtype})" if dtype != '"auto"' else "_from_config(config)"
        )
    return [
        *calls.call_class("Forward", inputs, is_of_transformers=True),
        *calls.fill_template(
            "transformers_model.py.jinja",
            config=calls.config_line(model, trusted),
            has_own_class=bool(trusted),
            is_random=model.weights == "random",
            seed=calls.SEED,
            opened=opened,
            inputs=[calls.random_values(each, batch_size) for each in inputs],
            to_device=calls.to_device(question),
        ).splitlines(),
    ]
