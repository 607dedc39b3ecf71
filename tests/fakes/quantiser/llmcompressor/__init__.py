"""The part of llm-compressor 0.14 that the probe of vLLM uses; it copies the fakes' checkpoint."""

import json
import os
import pathlib
import shutil

STORED = {"W8A8": "int8", "W4A16": "int32", "FP8_DYNAMIC": "float8_e4m3fn"}


def oneshot(model, recipe, output_dir, trust_remote_code_model):
    assert trust_remote_code_model is False
    assert (recipe.targets, recipe.ignore) == ("Linear", ["lm_head"])
    # The weights are rounded on the CPU, without the network.
    assert (os.environ["CUDA_VISIBLE_DEVICES"], os.environ["HF_HUB_OFFLINE"]) == ("", "1")
    print("a line of the library on standard output")
    shutil.copytree(model, output_dir)
    file = pathlib.Path(output_dir) / "engine.json"
    settings = json.loads(file.read_text())
    if settings["fault"] == "no scheme":
        raise ValueError("the scheme is unknown:\nW0A0")
    if settings["fault"] == "ends":
        os._exit(7)
    other = {"not quantised": "bfloat16", "another format": "int8"}
    stored = other.get(settings["fault"], STORED[recipe.scheme])
    file.write_text(json.dumps({**settings, "stored": stored}))
