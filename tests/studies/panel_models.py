"""Small models of the panel: families that transformers does not have, and kinds of outputs.

Each is made by a factory that returns `(module, example_inputs)`, for batches of any size.
"""

from __future__ import annotations

import torch
from torch import nn

BATCH, WIDTH, TOKENS = 2, 32, 16
BOXES, KEPT = 64, 8
Example = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Detector(nn.Module):
    """The best boxes by score: sorted scores, their boxes and their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Linear(WIDTH, WIDTH)
        self.scores, self.boxes = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = torch.relu(self.backbone(x))
        best, chosen = self.scores(hidden)[..., 0].sigmoid().topk(KEPT, dim=1)
        boxes = self.boxes(hidden).gather(1, chosen[..., None].expand(-1, -1, 4))
        return best, boxes, chosen


class Tagger(nn.Module):
    """The most likely tag of each token, as integers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(200, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 9)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.words(tokens))).argmax(-1)


class Segmenter(nn.Module):
    """A dictionary with a mask of booleans and the logits behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 5, 3, padding=1)
        )

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.layers(image)
        return {"logits": logits, "mask": logits[:, 0] > 0}


class DeepResidual(nn.Module):
    """Forty residual layers, which add up rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(40))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.norm(x)


def detector() -> Example:
    return Detector(), (torch.randn(BATCH, BOXES, WIDTH),)


def tagger() -> Example:
    return Tagger(), (torch.randint(200, (BATCH, TOKENS)),)


def segmenter() -> Example:
    return Segmenter(), (torch.randn(BATCH, 3, 16, 16),)


def deep_residual() -> Example:
    return DeepResidual(), (torch.randn(BATCH, WIDTH),)
