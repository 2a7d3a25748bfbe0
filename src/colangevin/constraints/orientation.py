"""Orientation: weights of which dimension 1, and not 0, counts the outputs.

Those of ``nn.ConvTranspose2d`` have the shape (in, out / groups, ...), and those of ``Conv1D``, which is in
``transformers``, (in, out). Turned, both are kernels (out, in / groups, ...) as those of any other layer.
"""

from collections.abc import Sequence

from torch import Tensor

from colangevin.errors import ConstraintError, label

__all__ = ["check_transposed", "check_turns", "turned", "turned_shape"]


def turned(stack: Tensor, groups: int) -> Tensor:
    """Exchange outputs and inputs of each group; doing it twice gives the same stack.

    Args:
        stack: weights (copies, in, out / groups, ...), or (copies, out, in / groups, ...).
        groups: how many there are; 0 leaves the stack as it is.

    Returns:
        Weights of the other form.
    """
    if not groups:
        return stack
    copies, *shape = stack.shape
    apart = stack.reshape(copies, groups, shape[0] // groups, *shape[1:])
    return apart.transpose(2, 3).reshape(copies, *turned_shape(shape, groups))


def turned_shape(shape: Sequence[int], groups: int) -> tuple[int, ...]:
    """The shape of one weight after `turned`."""
    if not groups:
        return tuple(shape)
    first, second, *kernel = shape
    return groups * second, first // groups, *kernel


def check_transposed(transposed: int) -> int:
    """A user's ``transposed`` as a number; an error unless it is a whole one, at least 0."""
    if not isinstance(transposed, int) or transposed < 0:
        raise ConstraintError(
            f"transposed={transposed!r}: must be the number of groups of a transposed convolution, or 0 for "
            "a weight whose dimension 0 counts the outputs."
        )
    return int(transposed)


def check_turns(transposed: int, shape: Sequence[int], name: str) -> None:
    """Raise unless a weight of this shape has so many groups."""
    if transposed and (len(shape) < 2 or shape[0] % transposed):
        raise ConstraintError(
            f"{label(name, shape)}: transposed={transposed} means a weight of shape (in, out / {transposed}, "
            f"...), whose dimension 0 is a multiple of {transposed}. Give the layer's number of groups, or "
            "leave it to colangevin.constrain."
        )
