"""Small models for the survey, of families that transformers does not have.

Each is made by a factory that returns `(module, example_inputs)`.
"""

from __future__ import annotations

import torch
from torch import nn

BATCH = 2
ROWS, SLOTS, DENSE = 64, 4, 8


class Residual(nn.Module):
    """Two convolutions with batch normalisation and a shortcut, as in ResNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one, self.two = (
            nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2)
        )
        self.norm_one, self.norm_two = (nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map `(batch, channels, height, width)` to the same shape."""
        inner = torch.relu(self.norm_one(self.one(images)))
        return torch.relu(images + self.norm_two(self.two(inner)))


class Recommender(nn.Module):
    """A recommender after DLRM: embeddings, their pairwise products, and two perceptrons."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, width) for _ in range(SLOTS))
        self.bottom = nn.Sequential(nn.Linear(DENSE, width), nn.ReLU())
        self.top = nn.Sequential(
            nn.Linear(width + (SLOTS + 1) ** 2, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid()
        )

    def forward(self, dense: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        """Map `(batch, DENSE)` floats and `(batch, SLOTS)` integers to `(batch, 1)`."""
        numbers = self.bottom(dense)
        features = torch.stack(
            [numbers, *(table(categories[:, slot]) for slot, table in enumerate(self.tables))],
            dim=1,
        )
        products = torch.bmm(features, features.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([numbers, products], dim=1))


class Recurrent(nn.Module):
    """An LSTM over a sequence, and a linear layer over its last state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, 8)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        """Map `(batch, length, width)` to `(batch, 8)`."""
        states, _ = self.layer(sequence)
        return self.head(states[:, -1])


def residual_network() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 8)
    return nn.Sequential(stem, nn.MaxPool2d(2), Residual(16), Residual(16), *head), (
        torch.randn(BATCH, 3, 32, 32),
    )


def recommender() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Recommender(16), (torch.randn(BATCH, DENSE), torch.randint(ROWS, (BATCH, SLOTS)))


def recurrent() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Recurrent(32), (torch.randn(BATCH, 16, 32),)
