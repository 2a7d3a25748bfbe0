r"""Simplex: entries $\ge 0$ that sum to 1, the squares of a point of the unit sphere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from colangevin.constraints.columns import Columns, Over, checked_over, lines
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.dtypes import START_TOLERANCE
from colangevin.constraints.forms import SimplexForm
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.radius import Radius
from colangevin.constraints.rows import precise, rows_of
from colangevin.constraints.slices import Slices
from colangevin.constraints.spherical import Spheres
from colangevin.constraints.stacks import per_copy
from colangevin.errors import ConstraintError, label

__all__ = ["Simplex"]


class Simplices(Spheres):
    """A unit sphere for every row; the configuration has the roots of the weights, of either sign."""

    constraint: "Simplex"  # type: ignore[assignment]
    hidden = True
    bounded = True
    independent = "rows"
    turns = False  # a root turns, but the weight is its square
    steepest = Manifold.steepest

    @property
    def form(self) -> SimplexForm:  # type: ignore[override]
        return SimplexForm()

    # ---- the weight and its roots ----------------------------------------------------------------

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        x = rows_of(weight).clamp_min(0).sqrt()
        x = x if near is None else torch.copysign(x, near)
        return self.project(x, x)

    def read(self, weight: Tensor) -> Tensor:
        return self.lift(weight)

    def lower(self, q: Tensor) -> Tensor:
        return super().lower(q.square())

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return 2 * q * rows_of(grad)

    def virial(self, q: Tensor, force: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        # a function of w: a field along x - a would average to 0, since x has either sign
        w, a = q.square(), reference.square()
        along, second = 2 * (w - a), 6 * w - 2 * a  # the gradient over x, and the second derivatives
        divergence = second * (1 - w) - (q.shape[-1] - 1) * w * along
        return per_copy(self.tangent(q, force) * q * along), per_copy(divergence)

    # ---- feasibility -----------------------------------------------------------------------------

    def infeasibility(self, weight: Tensor) -> Tensor:
        rows = precise(rows_of(weight))
        off, below = (rows.sum(-1) - 1).abs(), -rows.clamp_max(0).sum(-1)
        return torch.maximum(off, below).amax(1)

    def start_tolerance(self, dtype: torch.dtype) -> float:
        return START_TOLERANCE[dtype]  # that of an equality, since a sum is rounded

    def explain(self, weight: Tensor) -> str:
        rows, over = rows_of(weight), self.constraint.over
        sums = rows.sum(-1)
        return (
            f"sums of its {over} lie between {float(sums.min()):.4g} and {float(sums.max()):.4g}, and "
            f"{int((~(rows >= 0)).sum())} entries are not at least 0; they must sum to 1. Take a softmax of "
            f"them first, pass init='draw' to colangevin.constrain, which draws all {over} anew, or "
            "init='nearest', which sets many entries to 0, where only noise moves them."
        )

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        """Subtract from a row the number after which its positive entries sum to 1, and clamp the others."""
        rows = rows_of(weight)
        largest = rows.sort(-1, descending=True).values
        count = torch.arange(1, rows.shape[-1] + 1, dtype=rows.dtype, device=rows.device)
        excess = (largest.cumsum(-1) - 1) / count  # if so many entries stay positive
        positive = (largest > excess).sum(-1, keepdim=True)
        return (rows - excess.gather(-1, positive - 1)).clamp_min(0).reshape(weight.shape)

    def at_rest(self, weight: Tensor) -> int:
        return int((weight <= 0).sum())


@dataclass(frozen=True)
class Simplex(Constraint):
    r"""Keep every row (or column) a probability vector: entries at 0 or above that sum to 1.

    Choose it for mixing weights, attention over fixed slots, transition matrices (`over="columns"` makes the
    columns probabilities) and archetypes. `constrain` refuses other weights: a softmax of them, or
    `init="draw"`, is a start.

    A row is the squares of a point of the unit sphere, $\theta_i = x_i^2$. The point x is the configuration
    and moves as under `Sphere(1, slack=False)`, on great circles; the force on it is $2 x_i G_i$. A weight
    that starts exactly at 0 moves only with noise, of which a warning tells.

    At temperature $\tau$ the law on a row is $e^{-L/\tau} \prod_i \theta_i^{-1/2}$ on the simplex. At $L = 0$
    this is Dirichlet(1/2, …, 1/2), which prefers sparse rows; `init="draw"` draws from it. For another
    Dirichlet$(\alpha)$ add $\tau (\frac12 - \alpha) \sum_i \log \theta_i$ to the loss.

    Args:
        over: `"rows"`, the slices along dimension 0, or `"columns"`, those along dimension 1 (an input, or
            an input channel), both flattened. A vector has one column: itself.

    Raises:
        ConstraintError: for another `over`.

    Examples:
        >>> model = nn.Linear(3, 2)
        >>> groups = cl.constrain(model, {"weight": cl.Simplex()}, init="draw")
        >>> torch.allclose(model.weight.sum(1), torch.ones(2))
        True
        >>> cl.Simplex(over="columns").violation(torch.full((4, 5), 0.25))
        0.0
    """

    over: Over = "rows"

    #: of the sphere that the roots lie on
    known_radii: ClassVar[Radius] = Radius(1.0)

    def __post_init__(self) -> None:
        checked_over(self.over)

    def on(self, shape: Sequence[int]) -> Manifold:
        if self.over == "rows":
            return Simplices(self, tuple(shape))
        return Columns(self, tuple(shape), Simplices)

    def slices(self, shape: Sequence[int]) -> Slices:
        """How a weight of this shape is cut into what has a sphere of its own."""
        return Slices(tuple(shape), "rows")

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        entries = lines(shape, self.over)[1]
        if entries == 1:
            raise ConstraintError(
                f"{label(name, shape)}: its {self.over} have one entry each, which {self!r} would hold at 1. "
                "Leave the weight free, or choose over='rows' or 'columns' such that there are more entries."
            )
