"""The inputs of a model of transformers, by the names that its `forward` gives them."""

from __future__ import annotations

import inspect
import json
import pathlib
from collections.abc import Callable
from typing import Any

import torch
from transformers.utils import cached_file

from probes.adapter import ModelError
from probes.subjects.loaded_model import Argument, NormalValues, RandomIntegers

#: Names of inputs, by the kind of value.
TOKENS = "input_ids"
IMAGE = "pixel_values"
SPECTROGRAM = "input_features"
WAVEFORM = "input_values"
DECODER_TOKENS = "decoder_input_ids"
#: File next to a configuration with the size to which images are brought.
PREPROCESSOR = "preprocessor_config.json"
#: Rows and columns of an image where neither file states them: the size of ImageNet's crops.
IMAGE_SIZE = 224
CHANNELS = 3
PAIR = 2
#: One second of sound at 16 kHz, the rate of the models that take a waveform.
SAMPLES = 16_000


def arguments_of(
    model: Any, config: Any, tokens: int, dtype: torch.dtype, source: str | None
) -> dict[str, Argument]:
    """Return the model's arguments by name.

    `source` is the directory or the name on the hub of the configuration, None for one without
    files. Raise `ModelError` if the model needs an input of an unknown kind.
    """
    parameters = inspect.signature(model.forward).parameters
    main = model.main_input_name
    makers: dict[str, Callable[[], Argument]] = {
        TOKENS: lambda: token_ids(config, tokens),
        IMAGE: lambda: image(config, dtype, source),
        SPECTROGRAM: lambda: spectrogram(config, dtype),
        WAVEFORM: lambda: sound(config, dtype),
        DECODER_TOKENS: lambda: token_ids(config, tokens, decoder=True),
    }
    names = [main]
    if main == TOKENS and IMAGE in parameters and compares_images_with_texts(model, config):
        names.append(IMAGE)
    if config.is_encoder_decoder and DECODER_TOKENS in parameters:
        names.append(DECODER_TOKENS)
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        and name not in names
    ]
    names += [name for name in missing if name in makers]
    unknown = [name for name in (*names, *missing) if name not in makers]
    if unknown:
        raise unknown_input(unknown[0])
    return {name: makers[name]() for name in names}


def unknown_input(name: str) -> ModelError:
    reason = f"the model takes {name!r}, an input of a kind that p3-advisor cannot generate"
    return ModelError(reason, "give the model as file.py:factory with example inputs")


def compares_images_with_texts(model: Any, config: Any) -> bool:
    """Return whether the model, such as CLIP, needs a text and an image.

    Models that generate text from both also take a text alone.
    """
    return hasattr(config, "vision_config") and not model.can_generate()


def token_ids(config: Any, tokens: int, *, decoder: bool = False) -> RandomIntegers:
    """Return random token ids without the first three, which most vocabularies reserve."""
    text = config.get_text_config(decoder=True) if decoder else config.get_text_config()
    vocabulary = text.vocab_size
    return RandomIntegers((tokens,), low=min(3, vocabulary - 1), high=vocabulary)


def image(config: Any, dtype: torch.dtype, source: str | None) -> NormalValues:
    """Return one image for each sample, or the frames of a video."""
    vision = getattr(config, "vision_config", None) or config
    channels = getattr(vision, "num_channels", CHANNELS)
    frames = [vision.num_frames] if hasattr(vision, "num_frames") else []
    return NormalValues((*frames, channels, *image_size(vision, source)), dtype)


def image_size(vision: Any, source: str | None) -> tuple[int, int]:
    """Return rows and columns: of the configuration, of the preprocessor's, or common ones."""
    for owner in (vision, getattr(vision, "backbone_config", None)):
        if size := rows_and_columns(getattr(owner, "image_size", None)):
            return size
    found = read_preprocessor(source) if source else {}
    names = ("crop_size", "size") if found.get("do_center_crop") else ("size",)
    sizes = [rows_and_columns(found.get(name)) for name in names]
    return next((size for size in sizes if size), (IMAGE_SIZE, IMAGE_SIZE))


def rows_and_columns(size: Any) -> tuple[int, int] | None:
    """Return the size in one of the forms that configurations have; None for another form."""
    if isinstance(size, dict):
        shortest = size.get("shortest_edge")
        size = (size.get("height", shortest), size.get("width", shortest))
    is_pair = isinstance(size, (tuple, list)) and len(size) == PAIR
    rows, columns = size if is_pair else (size, size)
    return (rows, columns) if isinstance(rows, int) and isinstance(columns, int) else None


def read_preprocessor(source: str) -> dict[str, Any]:
    """Return the fields of the preprocessor's configuration; none if there is no such file."""
    try:
        file = cached_file(source, PREPROCESSOR, _raise_exceptions_for_missing_entries=False)
        found = json.loads(pathlib.Path(file).read_text(encoding="utf-8")) if file else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def spectrogram(config: Any, dtype: torch.dtype) -> NormalValues:
    """Return the spectrogram of Whisper, whose encoder takes one length only."""
    if not hasattr(config, "num_mel_bins") or not hasattr(config, "max_source_positions"):
        raise unknown_input(SPECTROGRAM)
    return NormalValues((config.num_mel_bins, 2 * config.max_source_positions), dtype)


def sound(config: Any, dtype: torch.dtype) -> NormalValues:
    """Return a waveform for models that begin with convolutions, else their spectrogram."""
    if hasattr(config, "conv_stride"):
        return NormalValues((SAMPLES,), dtype)
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        return NormalValues((config.max_length, config.num_mel_bins), dtype)
    raise unknown_input(WAVEFORM)
