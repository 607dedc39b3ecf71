"""`--model DIRECTORY` and `--weights-from`: read a directory of transformers."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import msgspec

from advisor.domain.catalogue import Models
from advisor.domain.model import TransformersModel
from advisor.errors import ModelRefusedError, PickledWeightsError, UnknownModelError
from advisor.question import sizes
from advisor.question.answers import Answers

RANDOM_WEIGHTS, HUB_WEIGHTS = "random", "hub"


def parse_weights(text: str) -> str:
    """Return `random`, `hub`, or the absolute path of a directory with weights.

    Raise `ModelRefusedError` for anything else.
    """
    if text in {"", RANDOM_WEIGHTS, HUB_WEIGHTS}:
        return text or RANDOM_WEIGHTS
    # pathlib raises for a name that is too long.
    if not os.path.isdir(text):  # noqa: PTH112
        raise ModelRefusedError(
            f"--weights-from {text!r} is not a directory",
            "write random, hub, or the path of a directory with safetensors",
        )
    return str(pathlib.Path(text).resolve())


def parse_directory(text: str, answers: Answers, models: Models) -> TransformersModel:
    """Return the model in a directory; raise a `UserError` for one that cannot be used."""
    directory = pathlib.Path(text).resolve()
    config = _read_config(text, directory)
    parameters = sizes.count_in_files(directory) or sizes.count_in_config(
        config, models.gated_decoders
    )
    weights = (
        parse_weights(answers.weights_from)
        if answers.weights_from
        else _stored_weights(text, directory, allow_pickle=answers.allow_pickle)
    )
    return TransformersModel(name=str(directory), weights=weights, parameters=parameters)


def _read_config(text: str, directory: pathlib.Path) -> dict[str, Any]:
    try:
        config = msgspec.json.decode((directory / "config.json").read_bytes())
    except OSError as problem:
        raise UnknownModelError(
            f"directory {text!r} has no readable config.json",
            "use a transformers model directory",
        ) from problem
    except (msgspec.DecodeError, RecursionError) as problem:
        raise ModelRefusedError(
            f"{directory / 'config.json'} is not valid JSON: {problem}",
            "save the model again with save_pretrained",
        ) from problem
    if not isinstance(config, dict) or "model_type" not in config:
        raise ModelRefusedError(
            f"{directory / 'config.json'} has no model_type, so it is no model of transformers",
            "save the model again with save_pretrained, or give a model of another library as"
            " file.py:factory",
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


#: How every pointer begins; source: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.
POINTER_START = b"version https://git-lfs.github.com/spec/"


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
