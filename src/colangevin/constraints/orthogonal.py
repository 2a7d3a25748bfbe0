r"""Orthogonality: $W^T W = I$ or $W W^T = I$, whichever the shape allows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any

import torch

from colangevin.constraints.blocks import Blocks
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.frames import Frames
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.orientation import check_transposed, check_turns, turned_shape
from colangevin.constraints.radius import Radius
from colangevin.errors import ConstraintError, label

__all__ = ["Orthogonal"]


@dataclass(frozen=True, repr=False)
class Orthogonal(Constraint):
    r"""Keep a weight orthogonal, so that signals and gradients keep their size through many layers.

    Choose it for the hidden layers of deep networks. The output layer is better left free: an orthogonal one
    caps the logits. A matrix with more rows than columns has orthonormal columns, $W^T W = I$, any other has
    orthonormal rows, $W W^T = I$.

    A weight of rank 2 or more is flattened to (n_out, rest), which is its configuration. In the formulas Q,
    $r \times s$ with $r \ge s$, is that matrix, or its transpose when it is wide (as almost every convolution
    kernel is). With $\Pi_Q P = P - \frac12 Q (P^T Q + Q^T P)$, letter A is RATTLE,

    $$
    \bar Q = Q + hP, \quad Q' = \mathrm{project}(\bar Q), \quad
    \bar P = P + \tfrac1h (Q' - \bar Q), \quad P' = \Pi_{Q'} \bar P.
    $$

    The projection is the paper's quasi-Newton iteration
    $Q^{(k+1)} = Q^{(k)} - \frac12 Q (Q^{(k)T} Q^{(k)} - I)$ wherever it converges, and the polar factor
    $\bar Q (\bar Q^T \bar Q)^{-1/2}$ wherever it does not, so that no step leaves the manifold (Eqs. 54 and
    41).

    With a scale c, the weight is c times such a matrix. With blocks it holds several, each orthonormal for
    itself: q, k and v or the heads in one matrix, experts in one tensor.

    Leimkuhler et al. 2021, Eq. 4, Algorithms 1 and 2 and appendix "Orthogonality constraint".

    Args:
        scale: c, a positive number: every singular value of the weight. $\sqrt{n_{out} / n_{in}}$ is common.
        blocks: how many matrices dimension 0 is cut into, one below the other. A weight of rank 3 or more
            that has as many slices along dimension 0 is a stack: of experts (experts, out, in),
            `blocks=experts` holds each matrix (out, in), and `blocks=2 * experts` each half of its outputs.
        transposed: 0 for a weight whose dimension 0 counts the outputs, as in most layers. Otherwise the
            weight has shape (in, out / transposed, ...) and is first brought to (out, in / transposed, ...).
            `constrain` sets it for `nn.ConvTranspose2d` and the like and for `Conv1D` of `transformers`,
            where it matters. A group that you write yourself has no module to tell it.

    Raises:
        ConstraintError: when `scale` is not positive and finite, or `blocks` is no whole number above 0.

    Examples:
        >>> model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> groups = cl.constrain(model, {"0.weight": cl.Orthogonal()})
        >>> weight = model[0].weight
        >>> torch.allclose(weight @ weight.T, torch.eye(4), atol=1e-5)
        True
        >>> attention = nn.MultiheadAttention(8, 2)
        >>> groups = cl.constrain(attention, {"in_proj_weight": cl.Orthogonal(blocks=3)})
        >>> q, k, v = attention.in_proj_weight.chunk(3)
        >>> torch.allclose(k @ k.T, torch.eye(8), atol=1e-5)
        True
    """

    manifold = Frames
    scale: float = 1.0
    blocks: int = 1
    transposed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _checked_scale(self.scale))
        object.__setattr__(self, "blocks", _checked_blocks(self.blocks))
        object.__setattr__(self, "transposed", check_transposed(self.transposed))

    def _chosen(self) -> dict[str, Any]:
        """What has another value than its default, as in checkpoints from before there was a choice."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {each.name: values[each.name] for each in fields(self) if values[each.name] != each.default}

    def __repr__(self) -> str:
        return f"Orthogonal({', '.join(f'{name}={value!r}' for name, value in self._chosen().items())})"

    def describe(self) -> dict[str, Any]:
        return {"name": type(self).__name__, **self._chosen()}

    def on(self, shape: Sequence[int]) -> Manifold:
        if not self._chosen():
            return self.manifold(self, tuple(shape))
        one = self.manifold(self, self._matrix(shape))
        scale, transposed = self.scale, self.transposed
        return Blocks(self, tuple(shape), matrices=self.blocks, scale=scale, transposed=transposed, one=one)

    def turned(self, groups: int, shape: Sequence[int]) -> "Orthogonal":
        # a matrix is orthonormal when its transpose is
        if self.transposed or (len(shape) == 2 and groups == 1 and self.blocks == 1):
            return self
        return replace(self, transposed=groups)

    def _matrix(self, shape: Sequence[int]) -> tuple[int, int]:
        """The shape of one block of a weight."""
        rows, *rest = turned_shape(shape, self.transposed)
        if self.blocks > 1 and len(rest) > 1 and self.blocks % rows == 0:  # a stack of matrices
            rows, *rest = rows * rest[0], *rest[1:]
        return rows // self.blocks, math.prod(rest)

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        check_turns(self.transposed, shape, name)
        if len(shape) < 2:
            raise ConstraintError(
                f"{label(name, shape)}: Orthogonal needs a weight with at least 2 dimensions, this one "
                f"has {len(shape)}. Leave it free, or use Circle or Sphere."
            )
        rows, columns = self._matrix(shape)
        if self.blocks * rows * columns != math.prod(shape):
            outputs = turned_shape(shape, self.transposed)[0]
            raise ConstraintError(
                f"{label(name, shape)}: blocks={self.blocks} does not divide its {outputs} rows. Choose a "
                f"divisor of {outputs}, or leave blocks out to hold the weight as one matrix."
            )

    def check_range(self, shape: Sequence[int], dtype: torch.dtype, name: str = "weight") -> None:
        Radius(self.scale).check_range(shape, dtype, name, argument="scale")


def _checked_scale(scale: object) -> float:
    if isinstance(scale, bool) or not isinstance(scale, Real) or not 0 < float(scale) < math.inf:
        raise ConstraintError(f"scale={scale!r}: must be a positive, finite number.")
    return float(scale)


def _checked_blocks(blocks: object) -> int:
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1:
        raise ConstraintError(f"blocks={blocks!r}: must be a whole number, at least 1.")
    return blocks
