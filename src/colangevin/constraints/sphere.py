r"""Sphere: $\|\mathrm{row}\| \le r$ with slack, $= r$ without; of rows, columns or the whole weight."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.constraint import Constraint
from colangevin.constraints.description import same_description
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.orientation import check_transposed, check_turns
from colangevin.constraints.radius import Radius
from colangevin.constraints.rows import polar_form
from colangevin.constraints.slices import NOUNS, Over, Slices
from colangevin.constraints.spherical import Balls, Spheres
from colangevin.errors import ConstraintError, InfeasibleError, label

__all__ = ["Sphere"]


class Sphere(Constraint):
    r"""Bound or fix norms in a weight: of every output unit or filter, of every input, or of all of it.

    Choose it with slack to limit what each unit can amplify while its weights share the bound as they like,
    and without slack to fix the norm, as weight normalisation does. `Sphere()` fixes every row's norm to what
    it is at the start, and `Sphere(over="matrix")` the Frobenius norm of the weight: neither needs weight
    decay, nor a radius to be found. The configuration of a row is the row, with its slack $\xi$ as a last
    entry when there is one, on the sphere of radius r. Everything is closed form:

    $$
    \Pi_q p = p - \frac{q \cdot p}{r^2} q, \qquad
    q \leftarrow \cos\varphi\, q + \frac{r \sin\varphi}{s} p, \quad
    p \leftarrow \cos\varphi\, p - \frac{s \sin\varphi}{r} q, \quad
    s = \|p\|, \; \varphi = \frac{s h}{r}.
    $$

    Leimkuhler et al. 2021, Eq. 3.

    Args:
        radius: r, a positive number or a tensor with one entry a row; for replicas, one that broadcasts to
            (replicas, rows). None takes the norms that the weight has when `constrain` or an optimizer first
            sees it, and these norms go into checkpoints: a resumed run keeps the first run's. A row of norm 0
            has none to keep and is an error. A group of an optimizer has one constraint, so that `constrain`
            makes a group for each such parameter.
        slack: whether r is a bound (True) or the norm itself (False). Left out, a radius is a bound, and a
            norm from the start is kept.
        over: what has a norm. `"rows"`: each slice along dimension 0, flattened, which is what one output
            unit or filter sees. `"columns"`: each slice along dimension 1, flattened, which is what one input
            feature or channel feeds; of a convolution's kernel (out, in, height, width) a column has
            out x height x width entries, as all of them multiply that channel. (In a convolution with groups
            it is the same channel of each group.) `"matrix"`: the whole weight.
        transposed: 0 for a weight whose dimension 0 counts the outputs, as in most layers. Otherwise the
            weight has shape (in, out / transposed, ...), and rows and columns are those of the kernel
            (out, in / transposed, ...). `constrain` sets it for `nn.ConvTranspose2d` and the like, to their
            number of groups, and for `Conv1D` of `transformers`, to 1. A group that you write yourself has no
            module to tell it.

    Raises:
        ConstraintError: when a radius is not positive and finite, or `over` is none of the three.

    Examples:
        >>> cl.Sphere(2.0, slack=False)
        Sphere(radius=2, slack=False)
        >>> conv = nn.Conv2d(3, 8, kernel_size=3)
        >>> groups = cl.constrain(conv, {nn.Conv2d: cl.Sphere(1.0, slack=False)})
        >>> norms = conv.weight.flatten(1).norm(dim=1)
        >>> torch.allclose(norms, torch.ones(8))
        True
        >>> model = nn.Linear(64, 32)
        >>> groups = cl.constrain(model, {nn.Linear: cl.Sphere(over="matrix")})
        >>> torch.isclose(model.weight.norm(), torch.tensor(groups[0]["constraint"].radius))
        tensor(True)
    """

    # of a pickle from before they could be chosen
    _over: Over = "rows"
    _transposed = 0
    _kept = False

    def __init__(
        self,
        radius: float | Tensor | None = None,
        slack: bool | None = None,
        *,
        over: Over = "rows",
        transposed: int = 0,
    ) -> None:
        if over not in NOUNS:
            raise ConstraintError(f"over={over!r}: must be one of {', '.join(map(repr, NOUNS))}.")
        #: None until the norms of a weight have been taken for them
        self.radii = None if radius is None else Radius(radius)
        self._slack = radius is not None if slack is None else bool(slack)
        self._over = over
        self._transposed = check_transposed(transposed)

    @property
    def radius(self) -> float | Tensor | None:
        """The bound or the norm r; None while there is no weight to take it from."""
        return None if self.radii is None else self.radii.copy()

    @property
    def slack(self) -> bool:
        """Whether r is a bound rather than the norm."""
        return self._slack

    @property
    def over(self) -> Over:
        """What has a norm: rows, columns, or the whole weight."""
        return self._over

    @property
    def transposed(self) -> int:
        """The groups of a weight whose dimension 1 counts the outputs; 0 where dimension 0 does."""
        return self._transposed

    @property
    def known_radii(self) -> Radius:
        """The radii.

        Raises:
            ConstraintError: while no weight has been seen.
        """
        if self.radii is None:
            raise ConstraintError(
                f"{self!r}: radius=None stands for the norms of a weight that is still to be seen. Use the "
                "constraint of a group of colangevin.constrain or of an optimizer, or give a radius."
            )
        return self.radii

    def __repr__(self) -> str:
        radius = None if self._kept else self.radii
        over = "" if self._over == "rows" else f", over={self._over!r}"
        transposed = f", transposed={self._transposed}" if self._transposed else ""
        return f"Sphere(radius={radius}, slack={self._slack}{over}{transposed})"

    def on(self, shape: Sequence[int]) -> Manifold:
        return (Balls if self._slack else Spheres)(self, tuple(shape))

    def slices(self, shape: Sequence[int]) -> Slices:
        """How a weight of this shape is cut into what has a norm."""
        return Slices(tuple(shape), self._over, self._transposed)

    def describe(self) -> dict[str, Any]:
        # what has its default is left out, as in checkpoints from before it could be chosen
        chosen = {"over": self._over} if self._over != "rows" else {}
        turned = {"transposed": self._transposed} if self._transposed else {}
        kept = {"kept": True} if self._kept else {}
        return {"name": "Sphere", "radius": self.radius, "slack": self._slack, **chosen, **turned, **kept}

    def turned(self, groups: int, shape: Sequence[int]) -> "Sphere":
        if self._transposed:
            return self
        made = copy(self)
        made._transposed = groups
        return made

    def fitted(self, weight: Tensor, *, replicas: bool = False, name: str = "weight") -> "Sphere":
        if self.radii is not None:
            return self
        if not weight.numel():
            return self._keeping(1.0)  # of nothing any norm will do
        stack = self.stacked(weight, replicas, name)
        wide = stack if stack.device.type == "mps" else stack.double()  # which MPS does not have
        # relative to the largest entry no square overflows or underflows
        norms = polar_form(self.slices(stack.shape[1:]).of(wide))[0].squeeze(-1)
        if not bool(((norms > 0) & norms.isfinite()).all()):
            bad, nouns = int((~((norms > 0) & norms.isfinite())).sum()), NOUNS[self._over][1]
            raise InfeasibleError(
                f"{label(name, weight.shape)}: {bad} {nouns} have norm 0, NaN or Inf, which {self!r} cannot "
                f"keep. Initialise these {nouns} at random first, or give a radius."
            )
        # rounded as the steps will read them: processors that sum in another order agree on them
        return self._keeping((norms if replicas else norms[0]).to(stack.dtype))

    def resumed(self, description: Mapping[str, Any]) -> Constraint | None:
        if not (self._kept and description.get("kept")):
            return super().resumed(description)
        made = self._keeping(description["radius"])
        alike = made.known_radii.shape == self.known_radii.shape
        return made if alike and same_description(made.describe(), dict(description)) else None

    def _keeping(self, radius: float | Tensor) -> "Sphere":
        """The same with norms that were measured."""
        made = copy(self)
        # one norm is a number, which prints and compares more simply than a tensor
        single = isinstance(radius, Tensor) and radius.numel() == 1
        made.radii = Radius(float(radius) if single else radius)
        made._kept = True
        return made

    def part(self, shape: Sequence[int], slices: Sequence[slice]) -> "Sphere":
        if self.known_radii.uniform:
            return self
        made = copy(self)
        made.radii = Radius(self.known_radii.part(shape[:1] or (1,), slices[:1]))
        return made

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        check_turns(self._transposed, shape, name)
        if self._over == "columns" and len(shape) < 2:
            raise ConstraintError(
                f"{label(name, shape)}: over='columns' needs a weight with at least 2 dimensions, this one "
                f"has {len(shape)}. Leave it free, or use over='rows' or over='matrix'."
            )
        count, nouns = self.slices(shape).count, NOUNS[self._over][1]
        if self.radii is not None and not self.radii.broadcasts_to((copies, count)):
            replicas = f", or one of shape ({copies}, 1) for one a replica" if copies > 1 else ""
            raise ConstraintError(
                f"{label(name, shape)}: radius of shape {self.radii.shape} does not fit "
                f"{count} {nouns}; give a number, or a tensor of shape ({count},){replicas}."
            )

    def check_range(self, shape: Sequence[int], dtype: torch.dtype, name: str = "weight") -> None:
        if self.radii is not None:
            self.radii.check_range(shape, dtype, name)
