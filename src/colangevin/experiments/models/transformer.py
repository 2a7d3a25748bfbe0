"""A small transformer that predicts the next word: encoder layers behind a causal mask."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, relu, scaled_dot_product_attention

__all__ = ["Transformer"]

# The vocabulary is filled up to a multiple of this: products in bfloat16 are fast where rows are multiples of
# 16 bytes, and WikiText-2 has 33,278 words.
_ALIGNED = 8


class _Attention(nn.Module):
    """Self-attention to the words so far, initialised as ``nn.MultiheadAttention`` is."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.inputs.weight)
        nn.init.zeros_(self.inputs.bias)
        nn.init.zeros_(self.output.bias)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            self.inputs(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        )
        dropout = self.dropout if self.training else 0.0
        mixed = scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        out: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return out


class _Layer(nn.Module):
    """Attention and a feed-forward network, each with a shortcut around it and a layer norm behind it."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = _Attention(width, heads, dropout)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x)))
        inner = self.linear2(self.dropout(relu(self.linear1(x))))
        out: Tensor = self.norm2(x + self.dropout(inner))
        return out


class Transformer(nn.Module):
    """Word embeddings and sinusoidal positions, encoder layers, a linear map to the words.

    Vaswani et al. 2017. Embedding and output start uniformly in ±0.1, with a bias of 0 at the output.

    Args:
        words: of the vocabulary.
        width: of an embedding.
        layers: how many.
        heads: of the attention.
        hidden: units of the feed-forward networks.
        dropout: probability, after the positions and within the layers.
        scale: whether embeddings are multiplied by the root of the width before positions are added.
    """

    def __init__(
        self,
        words: int,
        *,
        width: int = 200,
        layers: int = 2,
        heads: int = 2,
        hidden: int = 200,
        dropout: float = 0.2,
        scale: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.Sequential(*(_Layer(width, heads, hidden, dropout) for _ in range(layers)))
        self.output = nn.Linear(width, words)
        self.dropout = nn.Dropout(dropout)
        self.scale = math.sqrt(width) if scale else 1.0
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.output.weight, -0.1, 0.1)
        nn.init.zeros_(self.output.bias)

    def forward(self, words: Tensor) -> Tensor:
        """Logits (batch, length, vocabulary) of the word after each of ``words`` (batch, length).

        Returns:
            A multiple of 8 of them for every word: the vocabulary is filled up with words that cannot come,
            whose logits are -∞.
        """
        x = self.scale * self.embedding(words)
        x = self.layers(self.dropout(x + _positions(x.shape[1], x.shape[2], x.device)))
        missing = -self.output.out_features % _ALIGNED
        weight = pad(self.output.weight, (0, 0, 0, missing))
        return linear(x, weight, pad(self.output.bias, (0, missing), value=-math.inf))


def _positions(length: int, width: int, device: torch.device) -> Tensor:
    """Sines in the even, cosines in the odd columns, of frequencies from 1 to 1/10000; (length, width)."""
    frequencies = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000.0) / width))
    angles = torch.arange(length, device=device).unsqueeze(1) * frequencies
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)
