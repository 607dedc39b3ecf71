"""The lines that load the measured model and make inputs of the measured shapes.

A workflow's integration takes `model` and `inputs`, or for text `model` or `CHECKPOINT`, and
`prompts`. Names of files are those of the user's files without their directories.
"""

from __future__ import annotations

import pathlib
import pprint

from advisor.domain.question import (
    ExportedModel,
    FactoryModel,
    OnnxModel,
    Question,
    SyntheticModel,
    TransformersModel,
)
from advisor.errors import NoRecipeError

WIDTH = 100
#: The token numbers of random prompts.
INPUT_IDS = "torch.randint(0, model.config.vocab_size, ({batch_size}, {tokens}){device})"


def loading_lines(question: Question, batch_size: int) -> list[str]:
    """Return the lines for a batch size; raise `NoRecipeError` for models without short ones."""
    match question.model:
        case SyntheticModel() as model:
            lines = [*_synthetic_lines(model), *_cast_lines(question)]
            shape = (batch_size, question.input_tokens, model.hidden)
            return [*lines, f"inputs = (torch.randn{_in_dtype(shape, question)},)"]
        case ExportedModel(name=name):
            return [
                f'program = torch.export.load("{_file_name(name)}")  # path of your file',
                f"model = program.module(){_to_device(question)}",
                *_example_lines("program.example_inputs[0]", question, batch_size),
            ]
        case FactoryModel(name=name):
            return _factory_lines(name, question, batch_size)
        case TransformersModel() as model if question.task == "generate":
            return [*_language_model_lines(model, question), *_prompt_lines(question, batch_size)]
        case OnnxModel():
            raise _no_snippet("an ONNX file")
        case TransformersModel():
            raise _no_snippet("a forward pass of a transformers model")


def _no_snippet(what: str) -> NoRecipeError:
    return NoRecipeError(
        f"there is no short recipe for {what}", "use --style check, which has all of it"
    )


def _synthetic_lines(model: SyntheticModel) -> list[str]:
    up = f"torch.nn.Linear({model.hidden}, {model.intermediate})"
    down = f"torch.nn.Linear({model.intermediate}, {model.hidden})"
    lines = ["torch.manual_seed(0)"]
    match model.block:
        case "matmul":
            return [*lines, f"model = {up}"]
        case "matmul-relu":
            return [*lines, f"model = torch.nn.Sequential({up}, torch.nn.ReLU())"]
        case "ffn":
            return [*lines, f"model = torch.nn.Sequential({up}, torch.nn.ReLU(), {down})"]
        case "ffn-multilayer":
            layer = f"torch.nn.Sequential({up}, torch.nn.ReLU(), {down})"
            return [
                *lines,
                "model = torch.nn.Sequential(",
                f"    *({layer} for _ in range({model.layers}))",
                ")",
            ]
        case "encoder":
            no_nesting = "enable_nested_tensor=False"
            return [
                *lines,
                "# The measured attention is the plain one, without the fast path of the layer.",
                "torch.backends.mha.set_fastpath_enabled(False)",
                "layer = torch.nn.TransformerEncoderLayer(",
                f"    {model.hidden}, {model.heads}, {model.intermediate}, dropout=0.0,",
                '    activation="gelu", batch_first=True, norm_first=True,',
                ")",
                f"model = torch.nn.TransformerEncoder(layer, {model.layers}, {no_nesting})",
            ]


def _factory_lines(name: str, question: Question, batch_size: int) -> list[str]:
    place, _, function = name.rpartition(":")
    module = pathlib.PurePath(place).stem if place.endswith(".py") else place
    imported = [f"from {module} import {function}  # your code"]
    if not module.replace(".", "_").isidentifier():
        imported = [
            "import runpy",
            f'{function} = runpy.run_path("{_file_name(place)}")["{function}"]  # your code',
        ]
    return [
        *imported,
        f"model, examples = {function}()",
        *_cast_lines(question),
        *_example_lines("examples", question, batch_size),
    ]


def _example_lines(examples: str, question: Question, batch_size: int) -> list[str]:
    """Return the lines that repeat or cut example inputs to the batch size."""
    dtype = f".to(torch.{question.dtype})" if question.dtype != "native" else ""
    cast = f"x{dtype} if x.is_floating_point() else x" if dtype else "x"
    repeated = f"({cast}).repeat({batch_size}, *[1] * (x.dim() - 1))[:{batch_size}]"
    return [
        "inputs = tuple(",
        f"    {repeated}{_to_device(question)}",
        f"    for x in {examples}",
        ")",
    ]


def _language_model_lines(model: TransformersModel, question: Question) -> list[str]:
    """Return the lines that open the checkpoint, or a model with random weights."""
    name = model_name(model.name)
    dtype = f"dtype=torch.{question.dtype}"
    if model.weights != "random":
        source = f'transformers.AutoModelForCausalLM.from_pretrained("{name}", {dtype})'
        return [f'CHECKPOINT = "{name}"', f"model = {source}{_to_device(question)}.eval()"]
    config = f'transformers.AutoConfig.from_pretrained("{name}")'
    if model.config is not None:
        fields = pprint.pformat(model.config, width=WIDTH, sort_dicts=False, compact=True)
        config = f"transformers.AutoConfig.for_model(**{fields})"
    source = f"transformers.AutoModelForCausalLM.from_config(config, {dtype})"
    return [f"config = {config}", f"model = {source}{_to_device(question)}.eval()"]


def checkpoint_lines(question: Question) -> list[str]:
    """Return the lines of a function `load`, which opens the model of a checkpoint.

    Raise `NoRecipeError` for what is no language model. `CHECKPOINT` is empty for random weights.
    """
    model = question.model
    if not isinstance(model, TransformersModel):
        raise _no_snippet("text of another model than transformers'")
    opened = [
        "def load(checkpoint):",
        '    """Return the model in a directory or on the hub; without one, random weights."""',
    ]
    dtype = f"dtype=torch.{question.dtype}"
    source = f"transformers.AutoModelForCausalLM.from_pretrained(checkpoint, {dtype})"
    found = f"return {source}{_to_device(question)}.eval()"
    if model.weights != "random":
        return [f'CHECKPOINT = "{model_name(model.name)}"', "", "", *opened, f"    {found}"]
    *made, last = _language_model_lines(model, question)
    made.append("return " + last.removeprefix("model = "))
    indented = [f"    {line}" for each in made for line in each.splitlines()]
    return ['CHECKPOINT = ""', "", "", *opened, "    if checkpoint:", f"        {found}", *indented]


def _prompt_lines(question: Question, batch_size: int) -> list[str]:
    device = ', device="cuda"' if question.device == "cuda" else ""
    ids = INPUT_IDS.format(batch_size=batch_size, tokens=question.input_tokens, device=device)
    return [f"prompts = {ids}"]


def _cast_lines(question: Question) -> list[str]:
    dtype = f"torch.{question.dtype}" if question.dtype != "native" else ""
    device = '"cuda"' if question.device == "cuda" else ""
    arguments = ", ".join(part for part in (device, dtype) if part)
    return [f"model = model.to({arguments}).eval()" if arguments else "model = model.eval()"]


def _in_dtype(shape: tuple[int, ...], question: Question) -> str:
    device = ', device="cuda"' if question.device == "cuda" else ""
    sizes = ", ".join(map(str, shape))
    return f"({sizes}, dtype=torch.{question.dtype}{device})"


def _to_device(question: Question) -> str:
    return '.to("cuda")' if question.device == "cuda" else ""


def _file_name(path: str) -> str:
    return pathlib.PurePath(path).name


def model_name(name: str) -> str:
    """Return a name on the hub, or the name of a local file or directory without its directory."""
    return _file_name(name) if pathlib.PurePath(name).is_absolute() else name
