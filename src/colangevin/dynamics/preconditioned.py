r"""Preconditioned steps: a direction made from the history of gradients, followed along the manifold.

From q with the loss's gradient G both methods take the tangent gradient, average it and move along a
direction d that the averages give:

.. math::
    g = \Pi_q\,\mathrm{cov}(G), \qquad m \leftarrow \Pi_q(\beta m + (1 - \beta) g), \qquad
    q \leftarrow A(q, -\Pi_q d, \mathrm{lr}).

A is the constraint's own drift. The average is made tangent where the step ends, so that the state is
feasible; it is the projection of the next step too, unless somebody edits the weight in between. There is no
temperature: what depends on past gradients leaves no known law invariant.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import torch
from torch import Tensor

from colangevin.constraints.dtypes import state_dtype
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.stacks import plus
from colangevin.dynamics.letters import drift
from colangevin.dynamics.newton_schulz import NewtonSchulz
from colangevin.dynamics.rates import Scalar, factor, host, largest, over_copies, product, sqrt, varies

__all__ = ["Adam", "Moments", "Muon", "Preconditioned"]

#: averages of gradients by their names in the state
Moments = dict[str, Tensor]


@dataclass(frozen=True)
class Preconditioned:
    """What preconditioned steps share: the move along a direction, and decoupled weight decay."""

    lr: Scalar
    weight_decay: Scalar

    #: how many gradients a step needs
    segments: ClassVar[int] = 1
    noisy: ClassVar[bool] = False
    noise_scale: ClassVar[float] = 0.0
    decoupled: ClassVar[bool] = True
    matrices: ClassVar[bool] = False
    #: the largest number that multiplies a gradient, or its square
    largest_kick: ClassVar[float] = 1.0

    @cached_property
    def varies(self) -> bool:
        """Whether a copy has numbers of its own."""
        return varies(self.lr) or varies(self.weight_decay)

    @cached_property
    def on_host(self) -> Self:
        """The same with floats for numbers that lie on a device."""
        return replace(self, lr=host(self.lr), weight_decay=host(self.weight_decay))

    def noise_shapes(self, manifold: Manifold, segment: int = 0) -> list[tuple[int, ...]]:
        """Shapes of the noise one weight needs: there is none."""
        return []

    def precision(self, manifold: Manifold, dtype: torch.dtype) -> torch.dtype:
        """The dtype of the state of a weight: that of torch's optimizers where it is free."""
        # float16 holds neither the square of a small gradient nor Adam's eps: torch's AdamW divides 0 by 0
        return dtype if manifold.free and dtype != torch.float16 else state_dtype(dtype)

    def move(self, manifold: Manifold, q: Tensor, d: Tensor, scale: Scalar) -> Tensor:
        """The configuration after decay and a move along -d.

        Args:
            manifold: of each copy.
            q: the configurations.
            d: the directions, tangent or not.
            scale: the move is lr times this, and the decay lr alone.

        Returns:
            The configurations.
        """
        if manifold.free:  # in torch's order, which rounds a 16-bit weight twice
            if largest(self.weight_decay):
                q = q * _each(1 - self.lr * self.weight_decay, q)
            return drift(manifold, q, d, -product(self.lr, scale))[0]
        if largest(self.weight_decay):
            decay, theta = factor(product(self.weight_decay, 1 / scale), manifold.lower(q))
            d = plus(d, manifold.covector(q, theta), decay)
        return drift(manifold, q, -manifold.tangent(q, d), product(self.lr, scale))[0]


@dataclass(frozen=True)
class Adam(Preconditioned):
    r"""Adam: :math:`d = \hat m / (\sqrt{\hat v} + \epsilon)`, with :math:`v` an average of squares.

    Squares and quotients are taken entry by entry in the coordinates of q, in units of length: on a circle
    they are those of the arc.
    """

    # One v a row or a matrix would not depend on the frame. On scikit-learn's digits (a perceptron with three
    # hidden layers of 64, 400 steps, the best of four rates, three seeds) the training loss ends at 0.0016 on
    # row spheres with one v an entry, at 0.0040 with one a row and at 0.0098 with one a matrix; on orthogonal
    # weights at 0.075, 0.081 and 0.089.

    betas: tuple[float, float]
    eps: float

    def kept(self, manifold: Manifold) -> tuple[str, ...]:
        """What a step keeps in the state beside the position."""
        return "momentum", "second_moment"

    def step(
        self, manifold: Manifold, q: Tensor, moments: Moments, grad: Tensor, count: Scalar
    ) -> tuple[Tensor, Moments]:
        """The next configuration and moments.

        Args:
            manifold: of each copy.
            q: the configurations.
            moments: what the last step left, zeros at the first.
            grad: the gradients.
            count: the number of this step, from 1; a tensor where copies have taken different numbers.

        Returns:
            The configurations and moments.
        """
        m, v = moments["momentum"], moments["second_moment"]
        beta_1, beta_2 = self.betas
        g = manifold.tangent(q, manifold.covector(q, grad))
        m = manifold.tangent(q, m.lerp(g, 1 - beta_1))
        s = manifold.lengths(q, g)
        v = (v * beta_2).addcmul_(s, s, value=1 - beta_2)
        root = v.sqrt() / _each(sqrt(1 - beta_2**count), v) + self.eps
        # quotients in float32 also of 16-bit moments: torch rounds only the weight
        d = manifold.white(q, manifold.lengths(q, m).to(state_dtype(m.dtype)) / root)
        q = self.move(manifold, q, d, 1 / (1 - beta_1**count))
        return q, {"momentum": _carried(manifold, q, m), "second_moment": v}


@dataclass(frozen=True)
class Muon(Preconditioned):
    r"""Muon: d has the singular vectors of the averaged gradient, and singular values near 1.

    Weights with fewer than two dimensions are no matrices, and take Adam's step.
    """

    momentum: float
    nesterov: bool
    orthogonalised: NewtonSchulz
    adjust: str | None
    adam: Adam

    matrices: ClassVar[bool] = True

    @cached_property
    def on_host(self) -> Self:
        """The same with floats for numbers that lie on a device."""
        return replace(super().on_host, adam=self.adam.on_host)

    def kept(self, manifold: Manifold) -> tuple[str, ...]:
        """What a step keeps in the state beside the position."""
        return ("momentum",) if len(manifold.shape) > 1 else self.adam.kept(manifold)

    def step(
        self, manifold: Manifold, q: Tensor, moments: Moments, grad: Tensor, count: Scalar
    ) -> tuple[Tensor, Moments]:
        """The next configuration and moments; the arguments are those of :meth:`Adam.step`."""
        if len(manifold.shape) < 2:
            return self.adam.step(manifold, q, moments, grad, count)
        g = manifold.tangent(q, manifold.covector(q, grad))
        m = manifold.tangent(q, moments["momentum"].lerp(g, 1 - self.momentum))
        ahead = g.lerp(m, self.momentum) if self.nesterov else m
        d = manifold.steepest(q, ahead, self.orthogonalised)
        q = self.move(manifold, q, d, self.scale(manifold))
        return q, {"momentum": _carried(manifold, q, m)}

    @property
    def kind(self) -> tuple[object, ...]:
        """What is no number of a step: matrices that one call moves share it."""
        return self.nesterov, self.orthogonalised, self.adjust

    def scale(self, manifold: Manifold) -> float:
        """What lr is multiplied by for a weight of this shape; 1 where lr is an angle."""
        if manifold.turns:
            return 1.0
        rows, columns = manifold.matrix_shape
        if self.adjust == "match_rms_adamw":
            return 0.2 * math.sqrt(max(rows, columns))
        return math.sqrt(max(1, rows / columns))


def _carried(manifold: Manifold, q: Tensor, m: Tensor) -> Tensor:
    """An average of gradients made tangent where a step has led."""
    # Twice: after a long step much of it is normal, and of that one projection leaves what q is off by.
    return manifold.tangent(q, manifold.tangent(q, m))


def _each(number: Scalar, stack: Tensor) -> Scalar:
    """One number for a stack, or one for each copy in a shape that broadcasts to it."""
    return over_copies(number, stack) if isinstance(number, Tensor) else number
