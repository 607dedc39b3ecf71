"""Models for `against_script.py`: factories of a module and example inputs of one sample."""

from __future__ import annotations

import torch
from torch import nn

Example = tuple[nn.Module, tuple[torch.Tensor, ...]]


def _image() -> torch.Tensor:
    return torch.randn(1, 3, 224, 224)


def swin_t() -> Example:
    from torchvision.models import swin_t as create  # noqa: PLC0415 - not every model needs it

    return create(weights=None).eval(), (_image(),)


class Logits(nn.Module):
    """Returns one tensor of a model of transformers."""

    def __init__(self, network: nn.Module, field: str) -> None:
        super().__init__()
        self.network = network
        self.field = field

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(self.network(input_ids=tokens), self.field)
        return result


def gpt2() -> Example:
    """GPT-2 with a prompt of 256 tokens and without a cache."""
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415 - as above

    network = GPT2LMHeadModel(GPT2Config(use_cache=False)).eval()
    return Logits(network, "logits"), (torch.randint(0, 50257, (1, 256)),)


def minilm() -> Example:
    """The architecture of all-MiniLM-L6-v2 with 128 tokens."""
    from transformers import BertConfig, BertModel  # noqa: PLC0415 - as above

    config = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    network = BertModel(config).eval()
    return Logits(network, "last_hidden_state"), (torch.randint(0, 30522, (1, 128)),)


class ConvMixer(nn.Module):
    """ConvMixer-512/12 with patches of 14 pixels."""

    def __init__(self, width: int = 512, depth: int = 12, kernel: int = 8, patch: int = 14) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, patch, patch), nn.GELU())
        self.depthwise = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, kernel, groups=width, padding="same"), nn.GELU())
            for _ in range(depth)
        )
        self.pointwise = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 1), nn.GELU()) for _ in range(depth)
        )
        self.head = nn.Linear(width, 1000)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image)
        for depthwise, pointwise in zip(self.depthwise, self.pointwise, strict=True):
            x = pointwise(x + depthwise(x))
        result: torch.Tensor = self.head(x.mean((2, 3)))
        return result


def convmixer() -> Example:
    return ConvMixer().eval(), (_image(),)


class Ranking(nn.Module):
    """A model like DLRM: 26 embeddings, two MLPs, all products of pairs."""

    def __init__(self, tables: int = 26, rows: int = 10_000, width: int = 64) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            nn.Linear(pairs + width, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU()
        )
        self.last = nn.Linear(256, 1)
        self.register_buffer("pairs", torch.triu_indices(tables + 1, tables + 1, 1))

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        bottom = self.bottom(dense)
        columns = [each(ids[:, i]) for i, each in enumerate(self.embeddings)]
        vectors = torch.stack([bottom, *columns], 1)
        products = vectors @ vectors.transpose(1, 2)
        first, second = self.pairs
        result: torch.Tensor = self.last(
            self.top(torch.cat([bottom, products[:, first, second]], 1))
        )
        return result


def ranking() -> Example:
    return Ranking().eval(), (torch.randn(1, 13), torch.randint(0, 10_000, (1, 26)))


class Recurrent(nn.Module):
    """A tagger: two bidirectional layers over 64 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(128, 256, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(512, 16)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.cells(steps)[0])
        return result


def lstm() -> Example:
    return Recurrent().eval(), (torch.randn(1, 64, 128),)
