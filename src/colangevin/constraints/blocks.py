"""Blocks: weights that hold several matrices, or scaled ones, each on a manifold of its own."""

from collections.abc import Callable

from torch import Tensor

from colangevin.constraints.capabilities import Curvature, virial
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.forms import BlocksForm, Form, OrthogonalForm
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.orientation import turned, turned_shape
from colangevin.constraints.stacks import per_copy

__all__ = ["Blocks"]


class Blocks(Curvature):
    r"""Weights W cut along their outputs into matrices c Q, where every Q lies on one manifold.

    The configuration holds the matrices Q, and p is the momentum of W. As $\dot Q = P / c$, a drift of W for
    some time is one of Q for 1/c of it with the same momentum, and an overdamped step moves Q by 1/c as much.

    Args:
        constraint: what holds the weights.
        shape: of one weight.
        matrices: how many it is cut into.
        scale: c.
        transposed: groups of a weight that is turned before it is cut.
        one: the manifold of a matrix Q.
    """

    stacks = True

    def __init__(
        self,
        constraint: Constraint,
        shape: tuple[int, ...],
        *,
        matrices: int,
        scale: float,
        transposed: int,
        one: Manifold,
    ) -> None:
        super().__init__(constraint, shape)
        self.matrices = matrices
        self.scale = scale
        self.transposed = transposed
        self.one = one
        self.turns = one.turns

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return self.matrices, *self.one.configuration_shape

    @property
    def degrees_of_freedom(self) -> int:
        return self.matrices * self.one.degrees_of_freedom

    @property
    def smallest_length(self) -> float:
        return self.scale

    @property
    def form(self) -> Form | None:
        # those of a weight that is turned do not lie in its memory one after the other
        in_order = isinstance(self.one.form, OrthogonalForm) and not self.transposed
        return BlocksForm(self.matrices, self.scale) if in_order else None

    # ---- the weight and its matrices -------------------------------------------------------------

    def _cut(self, weight: Tensor) -> Tensor:
        """A stack of weights as a stack of the matrices of all of them."""
        return turned(weight, self.transposed).reshape(-1, *self.one.shape)

    def _joined(self, matrices: Tensor) -> Tensor:
        """The stack of weights that has these matrices."""
        kernel = matrices.reshape(-1, *turned_shape(self.shape, self.transposed))
        return turned(kernel, self.transposed)

    def _of_copies(self, x: Tensor) -> Tensor:
        """What there is for each matrix, with the dimension that counts copies in front."""
        return x.view(-1, self.matrices, *x.shape[1:])

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        return self._of_copies(self.one.lift(self._cut(weight) / self.scale))

    def read(self, weight: Tensor) -> Tensor:
        return self._of_copies(self.one.read(self._cut(weight) / self.scale))

    def lower(self, q: Tensor) -> Tensor:
        return self._joined(self.scale * self.one.lower(q.flatten(0, 1)))

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return self._of_copies(self.one.covector(q.flatten(0, 1), self._cut(grad)))

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return self._of_copies(self.one.tangent(q.flatten(0, 1), p.flatten(0, 1)))

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        q, p = self.one.drift(q.flatten(0, 1), p.flatten(0, 1), a / self.scale)
        return self._of_copies(q), self._of_copies(p)

    def kick_drift(self, q: Tensor, p: Tensor, grad: Tensor, b: float, a: float) -> tuple[Tensor, Tensor]:
        force = self._cut(grad)
        q, p = self.one.kick_drift(q.flatten(0, 1), p.flatten(0, 1), force, b, a / self.scale)
        return self._of_copies(q), self._of_copies(p)

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return self._of_copies(self.one.project(q.flatten(0, 1), q_bar.flatten(0, 1)))

    def euler(self, q: Tensor, grad: Tensor, h: float, sigma: float, noise: Tensor | None) -> Tensor:
        noise = None if noise is None else noise.flatten(0, 1)
        force, c = self._cut(grad), self.scale
        return self._of_copies(self.one.euler(q.flatten(0, 1), force, h / c, sigma / c, noise))

    @property
    def matrix_shape(self) -> tuple[int, int]:
        return self.one.matrix_shape

    def steepest(self, q: Tensor, p: Tensor, orthogonalised: Callable[[Tensor], Tensor]) -> Tensor:
        # a drift of W along c d is one of Q along d: both turn alike
        d = self.one.steepest(q.flatten(0, 1), p.flatten(0, 1), orthogonalised)
        return self._of_copies(self.scale * d)

    def virial(self, q: Tensor, force: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        stacks = (each.flatten(0, 1) for each in (q, force, reference))
        work, divergence = virial(self.one, *stacks)
        # the way of W from its reference is c times that of Q; the divergence does not depend on c
        return self.scale * per_copy(self._of_copies(work)), per_copy(self._of_copies(divergence))

    # ---- feasibility -----------------------------------------------------------------------------

    def infeasibility(self, weight: Tensor) -> Tensor:
        return self._of_copies(self.one.infeasibility(self._cut(weight) / self.scale)).amax(1)

    def explain(self, weight: Tensor) -> str:
        wrong = self.one.explain(self._cut(weight) / self.scale)
        return f"as {self.matrices} x {self.one.shape}, divided by scale={self.scale:g}, {wrong}"

    def nearest(self, weight: Tensor, name: str) -> Tensor:
        return self._joined(self.scale * self.one.nearest(self._cut(weight) / self.scale, name))

    def draw(self, weight: Tensor, name: str) -> Tensor:
        return self._joined(self.scale * self.one.draw(self._cut(weight), name))

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        return self._of_copies(self.one.cotangency(q.flatten(0, 1), p.flatten(0, 1))).amax(1)
