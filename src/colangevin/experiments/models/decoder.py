"""A decoder of the kind that language models are: it predicts the next byte of a text."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

__all__ = ["BYTES", "Decoder"]

#: what there is to predict
BYTES = 256

# Wavelengths of the rotations go from 2π to 2π times this, in bytes.
_SLOWEST = 10_000.0


class _RotaryAttention(nn.Module):
    """Causal self-attention with rotary positions; queries, keys and values are matrices of their own."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        q, k, v = (self._headed(matrix(x)) for matrix in (self.q, self.k, self.v))
        q, k = (_turned(each, turns).to(v.dtype) for each in (q, k))
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return out

    def _headed(self, x: Tensor) -> Tensor:
        """From (batch, length, width) to (batch, heads, length, width / heads)."""
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class _HiddenLayer(nn.Module):
    """Attention and a perceptron, each behind a norm and with a shortcut around both."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = _RotaryAttention(width, heads)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), turns)
        out: Tensor = x + self.down(gelu(self.up(self.norm2(x))))
        return out


class Decoder(nn.Module):
    """Embeddings of bytes, layers of attention and perceptrons behind norms, a linear map to the bytes.

    Touvron et al. 2023 ("LLaMA"), with a plain perceptron of four times the width. All starts as torch
    starts it, but the output, which starts at 0.

    Args:
        width: of an embedding.
        layers: how many.
        heads: of the attention; the width is a multiple of twice as many.
        length: of the longest text.

    Raises:
        ValueError: when a head would have an odd number of entries, which cannot be turned in pairs.
    """

    turns: Tensor

    def __init__(self, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        if width % (2 * heads):
            raise ValueError(f"width={width}: must be a multiple of twice the heads, {2 * heads}")
        self.embedding = nn.Embedding(BYTES, width)
        self.layers = nn.ModuleList(_HiddenLayer(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.output = nn.Linear(width, BYTES, bias=False)
        nn.init.zeros_(self.output.weight)
        self.register_buffer("turns", _turns(length, width // heads), persistent=False)

    @property
    def matrices(self) -> list[str]:
        """Names of the weights between embedding and output that are matrices."""
        return [name for name, weight in self.layers.named_parameters("layers") if weight.dim() == 2]

    def forward(self, text: Tensor) -> Tensor:
        """Logits (batch, length, 256) of the byte after each of ``text`` (batch, length)."""
        x = self.embedding(text)
        turns = self.turns[:, : text.shape[1]]
        for layer in self.layers:
            x = layer(x, turns)
        logits: Tensor = self.output(self.norm(x))
        return logits


def _turns(length: int, size: int) -> Tensor:
    """Cosines and sines of every place's angles, (2, length, size / 2)."""
    frequencies = _SLOWEST ** (-torch.arange(0, size, 2) / size)
    angles = torch.arange(length).unsqueeze(1) * frequencies
    return torch.stack((angles.cos(), angles.sin()))


def _turned(x: Tensor, turns: Tensor) -> Tensor:
    """Entry i of the first half of each head and entry i of the second, turned as a pair."""
    one, other = x.chunk(2, dim=-1)
    cos, sin = turns
    return torch.cat((one * cos - other * sin, one * sin + other * cos), dim=-1)
