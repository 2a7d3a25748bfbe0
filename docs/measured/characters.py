"""A small transformer that predicts the next character."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

__all__ = ["CONTEXT", "Transformer", "loss", "windows"]

CONTEXT = 64


class Attention(nn.Module):
    """Causal self-attention with a matrix each for queries, keys and values, so that each can be held."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The attended values, of the shape of x: (batch, time, width)."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed: Tensor = scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(-2))
        return result


class Block(nn.Module):
    """Attention and a perceptron, each behind a LayerNorm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before_attention, self.before_perceptron = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """The output, of the shape of x: (batch, time, width)."""
        x = x + self.attention(self.before_attention(x))
        result: Tensor = x + self.perceptron(self.before_perceptron(x))
        return result


class Transformer(nn.Module):
    """Two blocks between an embedding and an output layer.

    Args:
        characters: how many there are.
        width: of the residual stream.
        heads: of the attention.
        blocks: how many there are.
    """

    def __init__(self, characters: int, width: int = 64, heads: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.position = nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits, (batch, time, characters), of tokens, (batch, time)."""
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1]))
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


def windows(text: Tensor) -> Tensor:
    """A text cut into pieces of one context and one character more, shape (pieces, context + 1)."""
    return text[: len(text) // (CONTEXT + 1) * (CONTEXT + 1)].view(-1, CONTEXT + 1)


def loss(model: nn.Module, pieces: Tensor) -> Tensor:
    """The mean loss a character, in nats."""
    return cross_entropy(model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten())
