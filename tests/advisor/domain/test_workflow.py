from __future__ import annotations

import builders
import pytest


@pytest.mark.parametrize(
    ("workflow", "arm", "title"),
    [
        ("pytorch-eager", "pytorch-eager", "PyTorch eager"),
        ("pytorch-eager", "pytorch-eager/cuda-graph", "PyTorch eager (CUDA graph)"),
        ("onnxruntime-cpu", "onnxruntime-cpu/io-binding", "ONNX Runtime, CPU (I/O binding)"),
        ("vllm", "vllm/fp8-dynamic", "vLLM (FP8 dynamic)"),
        ("llama-cpp", "llama-cpp/q4_0", "llama.cpp (Q4_0)"),
        (
            "torch-compile-inductor",
            "torch-compile-inductor/max-autotune",
            "torch.compile, Inductor (max autotune)",
        ),
    ],
)
def test_titles_spell_options_as_texts_do(workflow: str, arm: str, title: str) -> None:
    known = {each.id: each for each in builders.shipped_catalogue().workflows}
    assert known[workflow].title_of(arm) == title
