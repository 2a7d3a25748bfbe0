"""What one block of a step reads and writes."""

from typing import NamedTuple

from torch import Tensor

from colangevin.step.block_noise import block_noise
from colangevin.step.pieces import Piece

__all__ = ["Operands", "operands_of"]


class Operands(NamedTuple):
    """A flat tensor a piece, and the noise of all."""

    theta: list[Tensor]
    position: list[Tensor]  # empty where q is the weight itself
    momentum: list[Tensor]
    grad: list[Tensor]
    noise: list[Tensor]


def operands_of(
    pieces: list[Piece], segment: int, widths: list[int], *, stored: bool, passing: bool
) -> Operands:
    """The operands of a block.

    Args:
        pieces: of parameters.
        segment: of the step.
        widths: how many normals an element needs, for each draw.
        stored: whether the configuration is kept in the state.
        passing: whether the block is used before the next one is made.

    Returns:
        Views of weights, state and gradients, and noise.
    """
    states = [(piece, piece.entry.state) for piece in pieces]
    return Operands(
        [_stretch(piece, piece.entry.parameter.detach()) for piece in pieces],
        [_stretch(piece, state["position"]) for piece, state in states] if stored else [],
        [_stretch(piece, state["momentum"]) for piece, state in states if "momentum" in state],
        [_stretch(piece, piece.entry.grad) for piece in pieces],
        [block_noise(pieces, (segment, draw), width, passing=passing) for draw, width in enumerate(widths)],
    )


def _stretch(piece: Piece, tensor: Tensor) -> Tensor:
    """The piece of a tensor that lies like the parameter."""
    flat = tensor.view(-1)
    return flat if piece.stop - piece.start == flat.numel() else flat[piece.start : piece.stop]
