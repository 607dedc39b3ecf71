"""`--model`, `--inputs` and `--weights-from`: parse a name, a path or a factory function."""

from __future__ import annotations

import difflib
import os
import pathlib
import re
import shlex
from typing import Any

import msgspec

from advisor.ask import model_files
from advisor.ask.option_values import parse_inputs
from advisor.ask.run_options import RunOptions
from advisor.domain.catalogue import Models
from advisor.domain.errors import (
    ModelRefusedError,
    OptionValueError,
    PickledWeightsError,
    UnknownModelError,
    choose_among,
    reported_as,
)
from advisor.domain.model import (
    ExportedModel,
    FactoryModel,
    Model,
    OnnxModel,
    SyntheticModel,
    TransformersModel,
)

SYNTHETIC = re.compile(r"synthetic/(?P<block>[a-z-]+)(?:@(?P<sizes>.+))?")
SIZES = re.compile(r"(\d{1,99})x(\d{1,99})(?:x(\d{1,99}))?")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
MODEL_FILES = (".onnx", ".pt2")
#: Beginnings of a path, which no other name of a model has.
PATH_STARTS = ("/", "./", "../", "~/")
FILE_FORMS = "file.py:function, a .pt2 or an .onnx file, or a directory of transformers"
#: Tells users of the names without an owner, such as bert-base-uncased, that the hub once had.
HUB_FORM = "a model of the hub is named OWNER/NAME, such as google-bert/bert-base-uncased"
DOTTED_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
PAPER_BLOCKS = ("matmul", "matmul-relu", "ffn", "ffn-multilayer")
DEFAULT_FAMILY = "tinyllama"
#: Names the small demo model on every device.
SMALL_DEMO = "demo/encoder"
MOST_OFFERED = 3
RANDOM_WEIGHTS, HUB_WEIGHTS = "random", "hub"
#: How every pointer begins; source: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.
POINTER_START = b"version https://git-lfs.github.com/spec/"


def parse_model(run_options: RunOptions, models: Models) -> Model:
    """Return the model; raise a `UserError` when the text names none."""
    model = _find_model(run_options, models)
    if run_options.weights_from and not isinstance(model, TransformersModel):
        raise ModelRefusedError(
            f"--weights-from does not apply to {run_options.model!r}",
            "leave it out: it is for models of transformers",
        )
    if not run_options.inputs:
        return model
    if isinstance(model, (SyntheticModel, TransformersModel)):
        raise ModelRefusedError(
            f"--inputs does not apply to {run_options.model!r}",
            "give the model as file.py:factory with example inputs",
        )
    return msgspec.structs.replace(model, inputs=parse_inputs(run_options.inputs))


def _find_model(run_options: RunOptions, models: Models) -> Model:
    text = run_options.model
    if text in {models.demo.name, SMALL_DEMO}:
        return models.demo
    if text == models.demo_gpu.name:
        return models.demo_gpu
    if text.startswith("synthetic/"):
        return _parse_synthetic(text, models)
    if text in models.configurations:
        config = models.configurations[text].config
        parameters = model_files.count_in_config(config, models.gated_decoders)
        return TransformersModel(
            name=text,
            weights=parse_weights(run_options.weights_from),
            config=config,
            parameters=parameters,
        )
    # pathlib raises for a name that is too long.
    if text.endswith(MODEL_FILES) or os.path.isfile(text):  # noqa: PTH113
        return _parse_file(text)
    if os.path.isdir(text):  # noqa: PTH112 - as above
        return parse_directory(text, run_options, models)
    if ":" in text:
        return _parse_factory(text, has_inputs=bool(run_options.inputs))
    is_on_hub = HUB_NAME.fullmatch(text) and not text.startswith("demo/")
    if is_on_hub and not run_options.offline:
        return TransformersModel(name=text, weights=parse_weights(run_options.weights_from))
    raise _unknown_model(text, models, offline=run_options.offline)


def family_name(model: SyntheticModel) -> str:
    """Return the family or the sizes in the name of a synthetic model."""
    match = SYNTHETIC.fullmatch(model.name)
    return (match["sizes"] if match else None) or DEFAULT_FAMILY


def _parse_synthetic(text: str, models: Models) -> SyntheticModel:
    match = SYNTHETIC.fullmatch(text)
    block, size = (match["block"], match["sizes"] or DEFAULT_FAMILY) if match else ("", "")
    if block not in PAPER_BLOCKS:
        raise UnknownModelError(
            f"{text!r} is not a synthetic model",
            choose_among(text, [f"synthetic/{name}" for name in PAPER_BLOCKS]),
        )
    if size in models.families:
        family = models.families[size]
        hidden, intermediate, layers = family.hidden, family.intermediate, family.layers
    else:
        match = SIZES.fullmatch(size)
        if match is None:
            known = ", ".join(f"@{name}" for name in models.families)
            raise UnknownModelError(
                f"{size!r} in {text!r} is not a valid size",
                f"use {known}, or @HxI or @HxIxL with whole numbers",
            )
        hidden, intermediate, layers = (int(number or 1) for number in match.groups())
    fields = {
        "kind": "synthetic",
        "name": text,
        "block": block,
        "hidden": hidden,
        "intermediate": intermediate,
        "layers": layers if block == "ffn-multilayer" else 1,
    }
    what = f"the sizes of {text!r} are out of range"
    with reported_as(OptionValueError, what, "use a size in this range", msgspec.ValidationError):
        return msgspec.convert(fields, SyntheticModel)


def _parse_file(text: str) -> OnnxModel | ExportedModel:
    """Return the model of a file; others, such as weights or scripted modules, need a function."""
    if not os.path.isfile(text):  # noqa: PTH113 - as above
        raise UnknownModelError(f"file {text!r} does not exist", "check the path")
    refuse_pointer(pathlib.Path(text))
    name = str(pathlib.Path(text).absolute())
    if text.endswith(".onnx"):
        return OnnxModel(name=name)
    if text.endswith(".pt2"):
        return ExportedModel(name=name)
    if text.endswith(".py"):
        raise UnknownModelError(
            f"{text!r} has no function name", f"write it after a colon: {_offer(text)}"
        )
    raise UnknownModelError(
        f"{text!r} is neither a .pt2 nor an .onnx file",
        "write a function that opens it and returns the module and example inputs, and name it as"
        " file.py:function",
    )


def _offer(file: str) -> str:
    """Return the functions of a Python file that may make the model."""
    names = model_files.functions_of(pathlib.Path(file)) or ["build"]
    return " or ".join(shlex.quote(f"{file}:{name}") for name in names[:MOST_OFFERED])


def _parse_factory(text: str, *, has_inputs: bool) -> FactoryModel:
    module, _, function = text.rpartition(":")
    if not function.isidentifier():
        raise UnknownModelError(
            f"{text!r} does not end with the name of a function of the module",
            "write package.module:factory or file.py:factory",
        )
    if module.endswith(".py"):
        if not os.path.isfile(module):  # noqa: PTH113 - as above
            raise UnknownModelError(
                f"file {module!r} does not exist", "check the path before the colon"
            )
        file = pathlib.Path(module).resolve()
        model_files.check_factory(file, function, has_inputs=has_inputs)
        return FactoryModel(name=f"{file}:{function}")
    if os.path.isfile(f"{module}.py"):  # noqa: PTH113 - as above
        raise UnknownModelError(
            f"{module!r} is no installed module, but {module}.py is in this directory",
            f"did you mean {module}.py:{function}?",
        )
    if not DOTTED_NAME.fullmatch(module):
        raise UnknownModelError(
            f"{module!r} is neither a module name nor a .py file",
            "write package.module:factory or file.py:factory",
        )
    return FactoryModel(name=text)


def _unknown_model(text: str, models: Models, *, offline: bool) -> UnknownModelError:
    if text.startswith(PATH_STARTS):
        return UnknownModelError(
            f"{text!r} is neither a file nor a directory",
            f"check the path: a model is {FILE_FORMS}",
        )
    # pathlib raises for a name that is too long.
    if os.path.isfile(f"{text}.py"):  # noqa: PTH113
        return UnknownModelError(f"unknown model {text!r}", f"did you mean {_offer(f'{text}.py')}?")
    known = [
        models.demo.name,
        models.demo_gpu.name,
        *models.configurations,
        *(f"synthetic/{block}" for block in PAPER_BLOCKS),
    ]
    files = [each.name for each in pathlib.Path().iterdir() if each.suffix in MODEL_FILES]
    close = difflib.get_close_matches(text, [*known, *files], n=1)
    if not close and offline and HUB_NAME.fullmatch(text):
        return UnknownModelError(
            f"{text!r} must be downloaded from the hub, which --offline forbids",
            "omit --offline, or use a local directory",
        )
    other = f"did you mean {close[0]}? Otherwise, " if close else f"use demo, {FILE_FORMS}; "
    return UnknownModelError(f"unknown model {text!r}", other + HUB_FORM)


def parse_weights(text: str) -> str:
    """Return `random`, `hub` or an absolute directory; raise `ModelRefusedError` for others."""
    if text in {"", RANDOM_WEIGHTS, HUB_WEIGHTS}:
        return text or RANDOM_WEIGHTS
    # pathlib raises for a name that is too long.
    if not os.path.isdir(text):  # noqa: PTH112
        raise ModelRefusedError(
            f"--weights-from {text!r} is not a directory",
            "write random, hub, or the path of a directory with safetensors",
        )
    return str(pathlib.Path(text).resolve())


def parse_directory(text: str, run_options: RunOptions, models: Models) -> TransformersModel:
    directory = pathlib.Path(text).resolve()
    config = _read_config(text, directory)
    parameters = model_files.count_in_files(directory) or model_files.count_in_config(
        config, models.gated_decoders
    )
    weights = (
        parse_weights(run_options.weights_from)
        if run_options.weights_from
        else _stored_weights(text, directory, allow_pickle=run_options.allow_pickle)
    )
    return TransformersModel(name=str(directory), weights=weights, parameters=parameters)


def _read_config(text: str, directory: pathlib.Path) -> dict[str, Any]:
    file, again = directory / "config.json", "save the model again with save_pretrained"
    what = f"directory {text!r} has no readable config.json"
    with reported_as(UnknownModelError, what, "use a transformers model directory"):
        content = file.read_bytes()
    what = f"{file} is not valid JSON"
    with reported_as(ModelRefusedError, what, again, (msgspec.DecodeError, RecursionError)):
        config = msgspec.json.decode(content)
    if not isinstance(config, dict) or "model_type" not in config:
        raise ModelRefusedError(
            f"{file} has no model_type, so it is no model of transformers",
            f"{again}, or give a model of another library as file.py:factory",
        )
    return config


def _stored_weights(text: str, directory: pathlib.Path, *, allow_pickle: bool) -> str:
    """Return the directory if it has weights that may be loaded, else `random`."""
    stored = sorted(directory.glob("*.safetensors"))
    for file in stored:
        refuse_pointer(file)
    if stored:
        return str(directory)
    pickles = sorted(
        file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in directory.glob(pattern)
    )
    if pickles and not allow_pickle:
        raise PickledWeightsError(
            f"the weights in {text!r} are a pickle ({pickles[0]}), which can execute code",
            "convert them to safetensors, or use --weights-from random or --allow-pickle",
        )
    return str(directory) if pickles else RANDOM_WEIGHTS


def refuse_pointer(file: pathlib.Path) -> None:
    """Raise `ModelRefusedError` if the file is a pointer of Git LFS."""
    try:
        with file.open("rb") as opened:
            start = opened.read(len(POINTER_START))
    except OSError:
        return  # the worker that opens the model reports it
    if start == POINTER_START:
        raise ModelRefusedError(
            f"{str(file)!r} is a pointer of Git LFS, not the file itself",
            "download the file: run git lfs pull in its repository",
        )
