"""Small models of the panel: families that transformers does not have, and kinds of outputs.

Each is made by a factory that returns `(module, example_inputs)`, for batches of any size.
"""

from __future__ import annotations

import torch
from torch import nn

BATCH, WIDTH, TOKENS = 2, 32, 16
NODES, EDGES = 48, 400
BOXES, KEPT = 64, 8
EXPERTS = 4
ROWS, SLOTS, DENSE = 64, 4, 8
Example = tuple[nn.Module, tuple[torch.Tensor, ...]]


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


class Block(nn.Module):
    """A pre-norm transformer block with an optional mask, `(batch, tokens)` of booleans."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        batch, tokens, width = x.shape
        projected = self.query_key_value(self.attention_norm(x))
        query, key, value = projected.view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        allowed = mask[:, None, None, :] if mask is not None else None
        attended = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        x = x + self.out_proj(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.mlp_norm(x))


class Experts(nn.Module):
    """A mixture of experts of which two are used for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * WIDTH) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, 2 * WIDTH, WIDTH) / (2 * WIDTH) ** 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.router(x).softmax(-1)
        best, chosen = scores.topk(2, dim=-1)
        weights = torch.zeros_like(scores).scatter(-1, chosen, best)
        inner = nn.functional.silu(torch.einsum("btd,edh->beth", x, self.up))
        return torch.einsum("beth,ehd,bte->btd", inner, self.down, weights)


class Graph(nn.Module):
    """Two rounds of messages along fixed edges, summed with `index_add`."""

    def __init__(self) -> None:
        super().__init__()
        self.messages = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.register_buffer("edges", torch.randint(NODES, (2, EDGES)))

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        source, target = self.edges
        for message in self.messages:
            sent = torch.relu(message(nodes))[:, source]
            nodes = nodes + torch.zeros_like(nodes).index_add(1, target, sent) / 8
        return nodes


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
        self.words, self.block = nn.Embedding(200, WIDTH), Block(WIDTH)
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


class Nested(nn.Module):
    """Outputs in tuples within a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = Block(WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        hidden = self.encoder(x)
        return {"states": (hidden, (hidden.mean(1), hidden.amax(1))), "classes": self.head(hidden)}


class Quantised(nn.Module):
    """A perceptron whose weights are 8-bit integers with a scale for each row."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.randn(2 * WIDTH, WIDTH)
        scale = weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("integers", (weight / scale).round().to(torch.int8))
        self.scale = nn.Parameter(scale)
        self.head = nn.Linear(2 * WIDTH, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.integers.to(x.dtype) * self.scale
        return self.head(torch.relu(nn.functional.linear(x, weight)))


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


def _tokens() -> torch.Tensor:
    return torch.randint(200, (BATCH, TOKENS))


def _sequence() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, WIDTH)


def recommender() -> Example:
    return Recommender(16), (torch.randn(BATCH, DENSE), torch.randint(ROWS, (BATCH, SLOTS)))


def experts() -> Example:
    return Experts(), (_sequence(),)


def graph() -> Example:
    return Graph(), (torch.randn(BATCH, NODES, WIDTH),)


def detector() -> Example:
    return Detector(), (torch.randn(BATCH, BOXES, WIDTH),)


def tagger() -> Example:
    return Tagger(), (_tokens(),)


def segmenter() -> Example:
    return Segmenter(), (torch.randn(BATCH, 3, 16, 16),)


def nested() -> Example:
    return Nested(), (_sequence(),)


def quantised() -> Example:
    return Quantised(), (torch.randn(BATCH, WIDTH),)


def deep_residual() -> Example:
    return DeepResidual(), (torch.randn(BATCH, WIDTH),)


def regression() -> Example:
    module = nn.Sequential(nn.Linear(12, 64), nn.Softplus(), nn.Linear(64, 1), nn.Softplus())
    return module, (torch.randn(BATCH, 12),)
