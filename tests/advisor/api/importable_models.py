"""A model in a file, which another process can import from this folder."""

from __future__ import annotations

import torch


class ImportableModel(torch.nn.Module):  # type: ignore[misc] # torch is not followed
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))
