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


class SentenceEncoder(nn.Module):
    """Token ids and a mask to one normalised vector, the mean over the tokens of the mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.position_embeddings = nn.Embedding(200, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(2))

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        mask = mask | (torch.arange(TOKENS, device=tokens.device) == 0)
        x = self.words(tokens) + self.position_embeddings.weight
        for block in self.blocks:
            x = block(x, mask)
        kept = mask[..., None].to(x.dtype)
        return nn.functional.normalize((x * kept).sum(1) / kept.sum(1), dim=-1)


class Translator(nn.Module):
    """An encoder-decoder with cross attention."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Transformer(
            WIDTH, 4, 2, 2, 4 * WIDTH, activation="gelu", batch_first=True, norm_first=True
        )
        self.head = nn.Linear(WIDTH, 50)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.head(self.model(source, target))


class UNet(nn.Module):
    """A denoiser: convolutions down and up with shortcuts, and an embedding of the time step."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.enter = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.down = nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.middle = nn.Sequential(nn.GroupNorm(4, WIDTH), nn.SiLU(), nn.Conv2d(WIDTH, WIDTH, 1))
        self.up = nn.ConvTranspose2d(WIDTH, WIDTH, 4, stride=2, padding=1)
        self.leave = nn.Conv2d(2 * WIDTH, 3, 3, padding=1)

    def forward(self, image: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        high = torch.nn.functional.silu(self.enter(image) + self.time(step)[..., None, None])
        low = self.down(high)
        low = low + self.middle(low)
        return self.leave(torch.cat([self.up(low), high], dim=1))


class Gated(nn.Module):
    """Two layers of a GRU in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(WIDTH, WIDTH, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * WIDTH, 6)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(sequence)[0])


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


class StateSpace(nn.Module):
    """A diagonal linear recurrence, written as a loop over the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.decay = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inputs, states = self.enter(x), []
        state = torch.zeros_like(inputs[:, 0])
        for position in range(inputs.shape[1]):
            state = state * self.decay.sigmoid() + inputs[:, position]
            states.append(state)
        return self.leave(torch.stack(states, dim=1))


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


class MobileBlock(nn.Module):
    """An inverted residual with a depthwise convolution and batch normalisation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = 3 * channels
        self.layers = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.Hardswish(),
            nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.Hardswish(),
            nn.Conv2d(inner, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


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


class Mixer(nn.Module):
    """A perceptron over tokens and one over channels, with dropout that inference leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.token_norm, self.channel_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.tokens = nn.Sequential(nn.Linear(TOKENS, TOKENS), nn.GELU(), nn.Dropout(0.1))
        self.channels = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.token_norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.channel_norm(x))


def _tokens() -> torch.Tensor:
    return torch.randint(200, (BATCH, TOKENS))


def _sequence() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, WIDTH)


def residual_network() -> Example:
    stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 8)
    return nn.Sequential(stem, nn.MaxPool2d(2), Residual(16), Residual(16), *head), (
        torch.randn(BATCH, 3, 32, 32),
    )


def recommender() -> Example:
    return Recommender(16), (torch.randn(BATCH, DENSE), torch.randint(ROWS, (BATCH, SLOTS)))


def recurrent() -> Example:
    return Recurrent(32), (torch.randn(BATCH, 16, 32),)


def sentence_encoder() -> Example:
    return SentenceEncoder(), (_tokens(), torch.rand(BATCH, TOKENS) < 0.7)


def translator() -> Example:
    return Translator(), (_sequence(), _sequence())


def unet() -> Example:
    return UNet(), (torch.randn(BATCH, 3, 16, 16), torch.rand(BATCH, 1))


def gated() -> Example:
    return Gated(), (_sequence(),)


def experts() -> Example:
    return Experts(), (_sequence(),)


def state_space() -> Example:
    return StateSpace(), (_sequence(),)


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


def mobile_network() -> Example:
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
    return nn.Sequential(stem, MobileBlock(16), MobileBlock(16), *head), (
        torch.randn(BATCH, 3, 16, 16),
    )


def deep_residual() -> Example:
    return DeepResidual(), (torch.randn(BATCH, WIDTH),)


def mixer() -> Example:
    return Mixer(), (_sequence(),)


def one_linear() -> Example:
    return nn.Linear(64, 16), (torch.randn(BATCH, 64),)


def autoencoder() -> Example:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ELU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ELU(),
        nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1),
        nn.ELU(),
        nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1),
        nn.Sigmoid(),
    )
    return module, (torch.randn(BATCH, 3, 16, 16),)


def regression() -> Example:
    module = nn.Sequential(nn.Linear(12, 64), nn.Softplus(), nn.Linear(64, 1), nn.Softplus())
    return module, (torch.randn(BATCH, 12),)
