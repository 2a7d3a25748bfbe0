"""Letters in place on lines and circles, for a block of elements on the CPU.

These are the formulas of :class:`~colangevin.constraints.forms.ElementwiseForm` in as few passes over memory
as torch allows. A radius of None means lines.
"""

import math
from collections.abc import Sequence

from torch import Tensor

from colangevin.dynamics.underdamped import Move
from colangevin.scratch import scratch
from colangevin.step.angles import largest_angle, write_cosine, write_sine

__all__ = ["lower", "underdamped"]


def underdamped(
    moves: Sequence[Move], r: float | None, q: Tensor, p: Tensor, grad: Tensor, noise: Sequence[Tensor]
) -> None:
    """The letters of a segment on q and p, for numbers on the host.

    Args:
        moves: the letters with their numbers.
        r: the radius.
        q: elements of lines, or angles.
        p: their momenta, or angular velocities.
        grad: the gradient with respect to the weights.
        noise: normals for each O; none at temperature 0.
    """
    draws, length = iter(noise), 1.0 if r is None else r
    for letter, number, scale in moves:
        if letter == "A":
            q.add_(p, alpha=float(number))
        elif letter == "B" and r is None:
            p.add_(grad, alpha=-float(number))
        elif letter == "B":
            xi = scratch("slack", q.shape, q.dtype, q.device)
            write_cosine(q, largest_angle(q), xi)
            p.addcmul_(xi, grad, value=-float(number) / length)
        else:
            p.mul_(float(number))
            normals = next(draws, None)
            if normals is not None:
                p.add_(normals, alpha=float(scale) / length)


def lower(r: float | None, q: Tensor, weight: Tensor) -> None:
    """Write the weights that elements or angles stand for; angles come back to [-pi, pi].

    Args:
        r: the radius.
        q: elements of lines, or angles.
        weight: of the same dtype; it may be q itself.
    """
    if r is not None:
        largest = largest_angle(q)
        if largest > math.pi:  # seldom, and to look costs less than to round
            q.sub_((q * (1 / math.tau)).round_(), alpha=math.tau)
        write_sine(q, largest, r, weight)
    elif weight is not q:
        weight.copy_(q)
