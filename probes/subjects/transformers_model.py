"""Load models of transformers from a configuration, a local directory or the hub."""

from __future__ import annotations

import inspect
import json
import pathlib
from collections.abc import Callable
from typing import Any

import safetensors
import torch
import transformers
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.utils import cached_file

from probes.adapter import ModelError
from probes.protocol import FIRST_ORDINARY_TOKEN, IMAGE_SIZE, Request
from probes.subjects.loaded_model import Argument, LoadedModel

#: Outputs of a part of the model that are only passed on; the decoder reads them.
PASSED_ON = {"encoder_last_hidden_state"}
#: Package into which transformers imports a model's own code.
OWN_CODE = "transformers_modules."


class Forward(torch.nn.Module):
    """The model's forward pass with positional tensors in and tensors out, for exporters."""

    def __init__(self, model: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.config = model.config
        self.names = names
        # One forward pass does not need a key-value cache, which would be another output to export.
        parameters = inspect.signature(model.forward).parameters
        self.fixed = {"use_cache": False} if "use_cache" in parameters else {}

    def forward(self, *arguments: torch.Tensor) -> Any:
        output = self.model(
            **dict(zip(self.names, arguments, strict=True)), **self.fixed, return_dict=True
        )
        tensors = [
            value
            for name, value in output.items()
            if isinstance(value, torch.Tensor) and name not in PASSED_ON
        ]
        return tensors[0] if len(tensors) == 1 else tuple(tensors)


def create(request: Request) -> LoadedModel:
    subject = request.subject
    config = open_config(subject, request)
    model, missing = make_model(find_class(config, subject), config, request)
    source = None if subject.get("config") else subject["name"]
    arguments = arguments_of(model, config, request.input_tokens, model.dtype, source)
    text = set(arguments) <= {TOKENS, DECODER_TOKENS}
    return LoadedModel(
        module=Forward(model, tuple(arguments)),
        arguments=tuple(arguments.values()),
        shares_weights=subject["weights"] == "random" or bool(missing),
        names=tuple(arguments),
        unit="tokens" if text else "samples",
        units_per_sample=request.input_tokens if text else 1,
        adjusted=describe_missing(missing),
    )


def open_config(subject: dict[str, Any], request: Request) -> Any:
    if subject.get("config"):
        fields = dict(subject["config"])
        return transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    try:
        return transformers.AutoConfig.from_pretrained(
            subject["name"], trust_remote_code=request.trust_remote_code
        )
    except (OSError, ValueError, KeyError) as problem:
        if "trust_remote_code" in str(problem):
            reason = f"{subject['name']!r} has model code of its own, which is not executed"
            fix = "read its code, then use --trust-remote-code"
            raise ModelError(reason, fix) from problem
        first_line = str(problem).splitlines()[0]
        raise ModelError(
            f"the configuration of {subject['name']!r} cannot be read: {first_line}",
            "name a local directory with a config.json, or check the name and the network",
        ) from problem


def find_class(config: Any, subject: dict[str, Any]) -> Any:
    if own_class := find_own_class(config, subject):
        return own_class
    for name in config.architectures or ():
        if hasattr(transformers, name):
            return getattr(transformers, name)
    if type(config) in transformers.MODEL_MAPPING:
        return transformers.MODEL_MAPPING[type(config)]
    library = f"transformers {transformers.__version__}"
    reason = f"{subject['name']!r} names no architecture that {library} has"
    raise ModelError(reason, "give the model as file.py:factory instead")


def find_own_class(config: Any, subject: dict[str, Any]) -> Any:
    """Return None for a model without code of its own, or whose code is not trusted."""
    if not type(config).__module__.startswith(OWN_CODE):
        return None
    auto_map = getattr(config, "auto_map", None) or {}
    named = (
        automatic
        for automatic, reference in auto_map.items()
        if str(reference).rpartition(".")[2] in (config.architectures or ())
    )
    automatic = next(named, "AutoModel")
    if automatic not in auto_map:
        return None
    own_class = get_class_from_dynamic_module(auto_map[automatic], subject["name"])
    # `save_pretrained` then also writes the code.
    type(config).register_for_auto_class()
    own_class.register_for_auto_class(automatic)
    return own_class


def describe_missing(missing: tuple[str, ...]) -> dict[str, str]:
    """Return what was done about weights that the files lack, as `events.Opened` has it."""
    if not missing:
        return {}
    return {"the weights": f"lack {len(missing)}, such as {missing[0]}, made at random instead"}


def make_model(model_class: Any, config: Any, request: Request) -> tuple[Any, tuple[str, ...]]:
    """Return the model with random weights, or with the trained ones that the request names.

    Those are read from safetensors only, unless the request allows pickles. Also return the names
    of those that are missing, which transformers makes at random.
    """
    weights = request.subject["weights"]
    dtype = None if request.dtype == "own" else getattr(torch, request.dtype)
    if weights == "random":
        with torch.device(request.device):
            # No public function takes any class.
            return model_class._from_config(config, dtype=dtype), ()  # noqa: SLF001
    source = request.subject["name"] if weights == "hub" else weights
    try:
        model, loading = model_class.from_pretrained(
            source,
            output_loading_info=True,
            config=config,
            dtype=dtype or "auto",
            use_safetensors=None if request.allow_pickle else True,
            trust_remote_code=request.trust_remote_code,
        )
        return model, tuple(sorted(loading["missing_keys"]))
    except (OSError, ValueError, RuntimeError, safetensors.SafetensorError) as problem:
        raise ModelError(
            f"the weights of {source!r} cannot be read: {str(problem).splitlines()[0]}",
            "download the weights again or save them with save_pretrained, or use"
            " --weights-from random",
        ) from problem


#: Names of inputs, by the kind of value.
TOKENS = "input_ids"
IMAGE = "pixel_values"
SPECTROGRAM = "input_features"
WAVEFORM = "input_values"
DECODER_TOKENS = "decoder_input_ids"
#: File next to a configuration that states the size that images are scaled to.
PREPROCESSOR = "preprocessor_config.json"
CHANNELS = 3
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
    # Models such as CLIP need a text and an image; those that generate text also take a text alone.
    compares = hasattr(config, "vision_config") and not model.can_generate()
    if main == TOKENS and IMAGE in parameters and compares:
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


def token_ids(config: Any, tokens: int, *, decoder: bool = False) -> Argument:
    """Return random tokens before the one that ends a text, whose place CLIP's output is taken at.

    Without it all places are as good, and no order of equal values is the right one.
    """
    text = config.get_text_config(decoder=True) if decoder else config.get_text_config()
    vocabulary, end = (getattr(text, name, None) for name in ("vocab_size", "eos_token_id"))
    if not isinstance(vocabulary, int):  # such as of a model that reads characters
        raise unknown_input("input_ids")
    low = min(FIRST_ORDINARY_TOKEN, vocabulary - 1)
    is_known = isinstance(end, int) and 0 <= end < vocabulary
    return Argument((tokens,), torch.int64, low, vocabulary, last=end if is_known else None)


def image(config: Any, dtype: torch.dtype, source: str | None) -> Argument:
    vision = getattr(config, "vision_config", None) or config
    channels = getattr(vision, "num_channels", CHANNELS)
    frames = [vision.num_frames] if hasattr(vision, "num_frames") else []
    return Argument((*frames, channels, *image_size(vision, source)), dtype)


def image_size(vision: Any, source: str | None) -> tuple[int, int]:
    for owner in (vision, getattr(vision, "backbone_config", None)):
        if size := rows_and_columns(getattr(owner, "image_size", None)):
            return size
    preprocessor = read_preprocessor(source) if source else {}
    names = ("crop_size", "size") if preprocessor.get("do_center_crop") else ("size",)
    sizes = [rows_and_columns(preprocessor.get(name)) for name in names]
    return next((size for size in sizes if size), (IMAGE_SIZE, IMAGE_SIZE))


def rows_and_columns(size: Any) -> tuple[int, int] | None:
    """Return the size in one of the forms that configurations have; None for another form."""
    if isinstance(size, dict):
        shortest = size.get("shortest_edge")
        size = (size.get("height", shortest), size.get("width", shortest))
    is_pair = isinstance(size, (tuple, list)) and len(size) == 2
    rows, columns = size if is_pair else (size, size)
    return (rows, columns) if isinstance(rows, int) and isinstance(columns, int) else None


def read_preprocessor(source: str) -> dict[str, Any]:
    try:
        file = cached_file(source, PREPROCESSOR, _raise_exceptions_for_missing_entries=False)
        fields = json.loads(pathlib.Path(file).read_text(encoding="utf-8")) if file else {}
    except (OSError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}


def spectrogram(config: Any, dtype: torch.dtype) -> Argument:
    """Return the spectrogram of Whisper, whose encoder takes one length only."""
    if not hasattr(config, "num_mel_bins") or not hasattr(config, "max_source_positions"):
        raise unknown_input(SPECTROGRAM)
    return Argument((config.num_mel_bins, 2 * config.max_source_positions), dtype)


def sound(config: Any, dtype: torch.dtype) -> Argument:
    """Return a waveform for models that begin with convolutions, else their spectrogram."""
    if hasattr(config, "conv_stride"):
        return Argument((SAMPLES,), dtype)
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        return Argument((config.max_length, config.num_mel_bins), dtype)
    raise unknown_input(WAVEFORM)
