"""Models of every kind get the inputs that they take, and return all their outputs."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
import workers
from lazy import by_request, onnxruntime_cpu, torch
from workers import LLAMA, PATCHES, TEXT, TINY

from probes import protocol
from probes.adapter import ModelError

pytestmark = [pytest.mark.stack, pytest.mark.filterwarnings("ignore")]

BATCH, LENGTH = 2, 7
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
LAYERS = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "d_model": 16,
}
SPEECH = {
    **TINY,
    "vocab_size": 20,
    "conv_dim": [8] * 7,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}
WHISPER = {
    **LAYERS,
    "vocab_size": 50,
    "num_mel_bins": 8,
    "max_source_positions": 10,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
#: By architecture, its configuration and the shapes of a sample's inputs and outputs.
MODELS: dict[str, tuple[dict[str, Any], list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "BertForQuestionAnswering": (
        {"model_type": "bert", **TEXT},
        [(LENGTH,)],
        [(LENGTH,), (LENGTH,)],
    ),
    "ResNetForImageClassification": (
        {"model_type": "resnet", **RESNET, "num_labels": 5},
        [(3, 224, 224)],
        [(5,)],
    ),
    "ViTForImageClassification": (
        {"model_type": "vit", **PATCHES, "image_size": [32, 48], "num_labels": 5},
        [(3, 32, 48)],
        [(5,)],
    ),
    "VideoMAEForVideoClassification": (
        {"model_type": "videomae", **PATCHES, "num_frames": 4},
        [(4, 3, 32, 32)],
        [(2,)],
    ),
    "CLIPModel": (
        {"model_type": "clip", "projection_dim": 8, "text_config": TEXT, "vision_config": PATCHES},
        [(LENGTH,), (3, 32, 32)],
        [(BATCH,), (BATCH,), (8,), (8,)],
    ),
    "DetrForObjectDetection": (
        {
            "model_type": "detr",
            **LAYERS,
            "num_queries": 3,
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone": None,
            "backbone_config": {"model_type": "resnet", **RESNET, "out_features": ["stage2"]},
        },
        [(3, 224, 224)],
        [(3, 3), (3, 4), (3, 16)],
    ),
    "Wav2Vec2ForCTC": ({"model_type": "wav2vec2", **SPEECH}, [(16_000,)], [(49, 20)]),
    "WhisperForConditionalGeneration": (
        {"model_type": "whisper", **WHISPER},
        [(8, 20), (LENGTH,)],
        [(LENGTH, 50)],
    ),
}


def request_for(config: dict[str, Any], directory: pathlib.Path, **fields: Any) -> protocol.Request:
    """Return a request for random weights of the configuration that it writes."""
    subject = workers.random_weights(config, directory)
    return workers.subject_request(subject, directory, input_tokens=LENGTH, **fields)


def open_config(config: dict[str, Any], directory: pathlib.Path) -> Any:
    return by_request.open_torch_subject(request_for(config, directory))


@pytest.mark.parametrize("architecture", MODELS)
def test_a_model_gets_its_inputs_and_returns_all_outputs(
    architecture: str, tmp_path: pathlib.Path
) -> None:
    config, inputs, outputs = MODELS[architecture]
    subject = open_config({**config, "architectures": [architecture]}, tmp_path)
    drawn = subject.inputs(BATCH, 0)
    assert [each.shape for each in drawn] == [(BATCH, *shape) for shape in inputs]
    with torch.no_grad():
        found = subject.run(drawn)
    assert [each.shape for each in found] == [(BATCH, *shape) for shape in outputs]


@pytest.mark.parametrize(("end", "is_there"), [(1, True), (40, True), (99, False)])
def test_a_text_ends_with_the_token_that_ends_texts(
    end: int, is_there: bool, tmp_path: pathlib.Path
) -> None:
    """CLIP takes its output at that token."""
    config = {**MODELS["CLIPModel"][0], "architectures": ["CLIPModel"]}
    config["text_config"] = {**TEXT, "eos_token_id": end}
    subject = open_config(config, tmp_path)
    drawn, _ = subject.inputs(BATCH, 0)
    assert (drawn[:, -1] == end).all() == is_there
    inputs = subject.inputs(BATCH, 0)
    with torch.no_grad():
        subject.examine_calls([inputs])
        _, exact = subject.reference([inputs])
        ties = subject.find_ties(inputs, next(exact))
    assert any(np.any(each) for each in ties) == (not is_there)


def test_a_language_model_is_exported_for_onnx_runtime(tmp_path: pathlib.Path) -> None:
    request = request_for(LLAMA, tmp_path, options={"feeding": "host"})
    subject = by_request.open_torch_subject(request)
    inputs = subject.inputs(BATCH, 0)
    with torch.inference_mode():
        program = onnxruntime_cpu.build(subject, inputs, request)
        (logits, *_) = program.collect(program(program.feed(inputs)))
        assert np.allclose(logits, subject.run(inputs)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"size": {"height": 40, "width": 56}}, (40, 56)),
        ({"size": {"shortest_edge": 64}, "crop_size": 48, "do_center_crop": True}, (48, 48)),
        ({"size": {"longest_edge": 64}}, (224, 224)),
    ],
)
def test_an_image_has_the_size_of_the_preprocessor(
    fields: dict[str, Any], size: tuple[int, int], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(fields))
    config, _, _ = MODELS["ResNetForImageClassification"]
    subject = open_config({**config, "architectures": ["ResNetModel"]}, tmp_path)
    assert subject.inputs(1, 0)[0].shape == (1, 3, *size)


def test_an_input_of_an_unknown_kind_is_refused(tmp_path: pathlib.Path) -> None:
    config = {"model_type": "patchtst", "architectures": ["PatchTSTForPrediction"]}
    with pytest.raises(ModelError, match="past_values"):
        open_config(config, tmp_path)
