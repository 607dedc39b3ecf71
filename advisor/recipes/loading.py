"""The lines that load the measured model and make inputs of the measured shapes.

A workflow's integration takes `model` and `inputs`, or for text `model` or `CHECKPOINT`, and
`prompts`, a tensor of token numbers. Names of files are those of the user's files without their
directories.
"""

from __future__ import annotations

import pathlib
import pprint
from collections.abc import Sequence

from advisor.domain.model import (
    ExportedModel,
    FactoryModel,
    OnnxModel,
    SyntheticModel,
    TransformersModel,
)
from advisor.domain.question import Question
from advisor.domain.recipe_facts import InputFacts
from advisor.errors import NoRecipeError
from advisor.recipes.calls import NESTED_CALL, TENSORS_OF_OUTPUT, call_class, random_values

WIDTH = 100
#: The token numbers of random prompts.
INPUT_IDS = (
    "torch.randint(0, {config}.get_text_config().vocab_size, ({batch_size}, {tokens}){device})"
)
#: Directory of a checkpoint that the lines write.
WRITTEN_CHECKPOINT = "checkpoint"


def loading_lines(
    question: Question, batch_size: int, inputs: Sequence[InputFacts] | None = None
) -> list[str]:
    """Return the lines for a batch size; raise `NoRecipeError` for models without short ones.

    `inputs` are those that the worker reported.
    """
    match question.model:
        case SyntheticModel() as model:
            lines = [*_synthetic_lines(model), *_cast_lines(question)]
            shape = (batch_size, question.input_tokens, model.hidden)
            return [*lines, f"inputs = (torch.randn{_in_dtype(shape, question)},)"]
        case ExportedModel(name=name):
            return _exported_lines(name, question, batch_size, inputs)
        case FactoryModel(name=name):
            return _factory_lines(name, question, batch_size, inputs)
        case TransformersModel() as model if question.task == "generate":
            prompts = _prompt_lines(question, batch_size, "model.config", on_device=True)
            return [*_language_model_lines(model, question), *prompts]
        case OnnxModel(name=name):
            return _onnx_lines(name, question, batch_size)
        case TransformersModel() as model:
            if not inputs:
                raise NoRecipeError(
                    "the run does not have the inputs of the model",
                    "use --style check, or measure again",
                )
            if question.trust_remote_code:
                raise NoRecipeError("the model may have code of its own", "use --style check")
            return _forward_model_lines(model, question, batch_size, inputs)


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


def _exported_lines(
    name: str, question: Question, batch_size: int, inputs: Sequence[InputFacts] | None
) -> list[str]:
    """Return the lines that load a file; the tensors of nested inputs become positional ones."""
    load = f'program = torch.export.load("{_file_name(name)}")  # path of your file'
    if not any(each.nested or each.name for each in inputs or ()):
        return [
            load,
            f"model = program.module(){_to_device(question)}",
            *_example_lines("program.example_inputs[0]", question, batch_size, inputs),
        ]
    return [
        *NESTED_CALL,
        load,
        "examples = []",
        "replace_tensors(program.example_inputs, examples.append)",
        f"model = Call(program.module(), program.example_inputs){_to_device(question)}",
        *_example_lines("examples", question, batch_size, inputs),
    ]


def _factory_lines(
    name: str, question: Question, batch_size: int, inputs: Sequence[InputFacts] | None
) -> list[str]:
    """Return the lines that call the factory; all tensors become positional ones.

    Exporters take positional tensors only.
    """
    if inputs is not None and not inputs:
        raise NoRecipeError("the inputs are nested", "use --style check, or measure again")
    place, _, function = name.rpartition(":")
    module = pathlib.PurePath(place).stem if place.endswith(".py") else place
    imported = [f"from {module} import {function}  # your code"]
    if not module.replace(".", "_").isidentifier():
        imported = [
            "import runpy",
            f'{function} = runpy.run_path("{_file_name(place)}")["{function}"]  # your code',
        ]
    if inputs and any(each.nested for each in inputs):
        return [
            *NESTED_CALL,
            *imported,
            f"model, arguments, *more = {function}()",
            "keywords = dict(*more)",
            "if isinstance(arguments, dict):",
            "    arguments, keywords = (), arguments",
            "elif isinstance(arguments, torch.Tensor):",
            "    arguments = (arguments,)",
            "examples = []",
            "replace_tensors((tuple(arguments), keywords), examples.append)",
            "model = Call(model, (tuple(arguments), keywords))",
            *_cast_lines(question),
            *_example_lines("examples", question, batch_size, inputs),
        ]
    if inputs and all(each.name for each in inputs):
        return [
            *call_class("Call", inputs, ("return output",)),
            *imported,
            f"model, *examples = {function}()",
            "model = Call(model)",
            *_cast_lines(question),
            f"examples = [examples[-1][name] for name in {[each.name for each in inputs]}]",
            *_example_lines("examples", question, batch_size, inputs),
        ]
    return [
        *imported,
        f"model, examples, *_ = {function}()",
        *_cast_lines(question),
        "examples = (examples,) if isinstance(examples, torch.Tensor) else examples",
        *_example_lines("examples", question, batch_size, inputs),
    ]


def _example_lines(
    examples: str, question: Question, batch_size: int, inputs: Sequence[InputFacts] | None
) -> list[str]:
    """Return the lines that repeat or cut example inputs to the batch size, if they have one."""
    dtype = f".to(torch.{question.dtype})" if question.dtype != "native" else ""
    cast = f"(x{dtype} if x.is_floating_point() else x)" if dtype else "x"
    value = f"{cast}.repeat({batch_size}, *[1] * (x.dim() - 1))[:{batch_size}]"
    if inputs and not any(each.batched for each in inputs):
        value = cast
    elif inputs and not all(each.batched for each in inputs):
        value = f"({value} if x.dim() else x)"
    return [
        "inputs = tuple(",
        f"    {value}{_to_device(question)}",
        f"    for x in {examples}",
        ")",
    ]


def _language_model_lines(model: TransformersModel, question: Question) -> list[str]:
    """Return the lines that open the checkpoint, or a model with random weights."""
    name = model_name(model.name)
    dtype = f"dtype=torch.{question.dtype}{_trusted(question)}"
    if model.weights != "random":
        source = f'transformers.AutoModelForCausalLM.from_pretrained("{name}", {dtype})'
        return [f'CHECKPOINT = "{name}"', f"model = {source}{_to_device(question)}.eval()"]
    source = f"transformers.AutoModelForCausalLM.from_config(config, {dtype})"
    return [
        f"config = {_config(model, _trusted(question))}",
        f"model = {source}{_to_device(question)}.eval()",
    ]


def checkpoint_prompt_lines(
    question: Question, batch_size: int, *, prompts_on_device: bool
) -> list[str]:
    """Return the lines that name a checkpoint and make prompts; a model is not loaded.

    A checkpoint with random weights is written first. Raise `NoRecipeError` for what is no language
    model.
    """
    model, trusted = _require_language_model(question), _trusted(question)
    prompts = _prompt_lines(question, batch_size, "config", on_device=prompts_on_device)
    if model.weights != "random":
        return [
            f'CHECKPOINT = "{model_name(model.name)}"',
            f"config = transformers.AutoConfig.from_pretrained(CHECKPOINT{trusted})",
            *prompts,
        ]
    dtype = f"dtype=torch.{question.dtype}{trusted}"
    return [
        f'CHECKPOINT = "{WRITTEN_CHECKPOINT}"',
        f"config = {_config(model, trusted)}",
        f"model = transformers.AutoModelForCausalLM.from_config(config, {dtype})",
        "model.save_pretrained(CHECKPOINT)  # random weights, without a tokenizer",
        "del model",
        *prompts,
    ]


def _require_language_model(question: Question) -> TransformersModel:
    if not isinstance(question.model, TransformersModel):
        raise NoRecipeError(
            "only models of transformers generate text", "measure a name or a directory of one"
        )
    return question.model


def _onnx_lines(name: str, question: Question, batch_size: int) -> list[str]:
    """Return the lines that name an ONNX file and make inputs as it declares them.

    A free first dimension is the batch; other free dimensions have the measured tokens.
    """
    return [
        f'model = os.path.abspath("{_file_name(name)}")  # path of your file',
        'types = {"tensor(float)": torch.float32, "tensor(float16)": torch.float16,',
        '         "tensor(double)": torch.float64, "tensor(int64)": torch.int64,',
        '         "tensor(int32)": torch.int32, "tensor(bool)": torch.bool}',
        "inputs = []",
        "for value in onnxruntime.InferenceSession(model).get_inputs():",
        f"    sizes = [{batch_size}] + [{question.input_tokens}] * len(value.shape)",
        "    shape = [",
        "        size if isinstance(size, int) else free for size, free in zip(value.shape, sizes)",
        "    ]",
        f"    inputs.append(torch.randint(2, shape).to(types[value.type]){_to_device(question)})",
        "inputs = tuple(inputs)",
    ]


def _forward_model_lines(
    model: TransformersModel, question: Question, batch_size: int, inputs: Sequence[InputFacts]
) -> list[str]:
    """Return the lines that wrap the model of a configuration or checkpoint for a forward pass."""
    name = model_name(model.name)
    dtype = f"torch.{question.dtype}" if question.dtype != "native" else '"auto"'
    opened = f'from_pretrained("{name}", config=config, dtype={dtype})'
    if model.weights == "random":
        opened = (
            f"_from_config(config, dtype={dtype})" if dtype != '"auto"' else "_from_config(config)"
        )
    return [
        *call_class("Forward", inputs, TENSORS_OF_OUTPUT, ", return_dict=True"),
        f"config = {_config(model)}",
        "config.get_text_config().use_cache = False",
        "if config.architectures:",
        "    model_class = getattr(transformers, config.architectures[0])",
        "else:",
        "    model_class = transformers.MODEL_MAPPING[type(config)]",
        f"model = Forward(model_class.{opened}{_to_device(question)}).eval()",
        "inputs = (",
        *(f"    {random_values(each, batch_size)}{_to_device(question)}," for each in inputs),
        ")",
    ]


def _trusted(question: Question) -> str:
    """Return the argument that lets a model's own code run, if the question allowed it."""
    return ", trust_remote_code=True" if question.trust_remote_code else ""


def _config(model: TransformersModel, trusted: str = "") -> str:
    """Return the expression that opens the configuration."""
    if model.config is None:
        return f'transformers.AutoConfig.from_pretrained("{model_name(model.name)}"{trusted})'
    fields = pprint.pformat(model.config, width=WIDTH, sort_dicts=False, compact=True)
    return f"transformers.AutoConfig.for_model(**{fields})"


def checkpoint_lines(question: Question) -> list[str]:
    """Return the lines of a function `load`, which opens the model of a checkpoint.

    Raise `NoRecipeError` for what is no language model. `CHECKPOINT` is empty for random weights.
    """
    model = _require_language_model(question)
    opened = [
        "def load(checkpoint):",
        '    """Return the model in a directory or on the hub; without one, random weights."""',
    ]
    dtype = f"dtype=torch.{question.dtype}{_trusted(question)}"
    source = f"transformers.AutoModelForCausalLM.from_pretrained(checkpoint, {dtype})"
    found = f"return {source}{_to_device(question)}.eval()"
    if model.weights != "random":
        return [f'CHECKPOINT = "{model_name(model.name)}"', "", "", *opened, f"    {found}"]
    *made, last = _language_model_lines(model, question)
    made.append("return " + last.removeprefix("model = "))
    indented = [f"    {line}" for each in made for line in each.splitlines()]
    return ['CHECKPOINT = ""', "", "", *opened, "    if checkpoint:", f"        {found}", *indented]


def _prompt_lines(
    question: Question, batch_size: int, config: str, *, on_device: bool
) -> list[str]:
    """Return the line for random prompts; `config` is the expression of the configuration."""
    device = ', device="cuda"' if on_device and question.device == "cuda" else ""
    tokens = question.input_tokens
    ids = INPUT_IDS.format(config=config, batch_size=batch_size, tokens=tokens, device=device)
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
