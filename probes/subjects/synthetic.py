"""The paper's four synthetic models, and a small transformer encoder for the demonstration.

In the paper (Characterization of machine learning compilers for LLM inference on NVIDIA GPUs,
section "Method") SyntheticMatmulBlock is a linear layer, Matmul+ReLU adds the activation, FFN_Layer
is linear, ReLU, linear, and FFN_multilayer is a stack of FFN_Layers. Weights are scaled so that the
variance of the values stays constant through the stack. With PyTorch's default it vanishes, and all
inputs give nearly the same output.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from probes.protocol import Request
from probes.subjects.loaded_model import Argument, LoadedModel

#: ReLU halves the mean square of a normal variable, so the layer before it doubles the variance.
RELU_GAIN = 2.0


class FeedForward(nn.Module):
    """The paper's FFN_Layer."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.up = linear(hidden, intermediate, RELU_GAIN)
        self.down = linear(intermediate, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(batch, tokens, hidden)` to the same shape."""
        return self.down(torch.relu(self.up(x)))


class EncoderBlock(nn.Module):
    """A pre-norm transformer encoder block."""

    def __init__(self, hidden: int, intermediate: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(hidden)
        self.query_key_value = linear(hidden, 3 * hidden)
        self.attention_out = linear(hidden, hidden)
        self.feed_forward_norm = nn.LayerNorm(hidden)
        self.up = linear(hidden, intermediate)
        self.down = linear(intermediate, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(batch, tokens, hidden)` to the same shape."""
        batch, tokens, hidden = x.shape
        projected = self.query_key_value(self.attention_norm(x)).view(
            batch, tokens, 3, self.heads, hidden // self.heads
        )
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.attention_out(attended.transpose(1, 2).reshape(batch, tokens, hidden))
        return x + self.down(nn.functional.gelu(self.up(self.feed_forward_norm(x))))


def linear(inputs: int, outputs: int, gain: float = 1.0) -> nn.Linear:
    """Return a linear layer whose outputs have `gain` times the variance of its inputs."""
    layer = nn.Linear(inputs, outputs)
    # Normal values of a layer without data import the compiler, which takes seconds.
    bound = math.sqrt(3 * gain / inputs)
    nn.init.uniform_(layer.weight, -bound, bound)
    return layer


def create(request: Request) -> LoadedModel:
    subject = request.subject
    dtype = getattr(torch, request.dtype)
    return LoadedModel(
        module=block(subject).to(dtype),
        arguments=(Argument((request.input_tokens, subject["hidden"]), dtype),),
        shares_weights=True,
    )


def block(subject: dict[str, Any]) -> nn.Module:
    hidden, intermediate, kind = subject["hidden"], subject["intermediate"], subject["block"]
    if kind == "matmul":
        return linear(hidden, intermediate)
    if kind == "matmul-relu":
        return nn.Sequential(linear(hidden, intermediate), nn.ReLU())
    if kind == "ffn":
        return FeedForward(hidden, intermediate)
    layers = range(subject["layers"])
    if kind == "ffn-multilayer":
        return nn.Sequential(*(FeedForward(hidden, intermediate) for _ in layers))
    return nn.Sequential(*(EncoderBlock(hidden, intermediate, subject["heads"]) for _ in layers))
