"""What a manifold may offer beyond the core, each under its own name.

- a *metric*: coordinates q in which :math:`|p|^2` is not the sum of squares (:class:`Metric`);
- *slack*: a configuration that the weight does not determine (``hidden = True``), as under a bound
  (``bounded = True``);
- its *curvature*: positions then have a temperature (:class:`Curvature`, :class:`EmbeddedCurvature`);
- a *form* by which a fast path knows it (:mod:`colangevin.constraints.forms`);
- ``stacks = True``: methods that gain from many weights in one call;
- ``fallible = True``: a step that may find no point to go to.
"""

from abc import abstractmethod

import torch
from torch import Tensor

from colangevin.constraints.manifold import Manifold
from colangevin.constraints.stacks import per_copy

__all__ = ["Curvature", "EmbeddedCurvature", "Metric", "virial"]


class Metric(Manifold):
    """A manifold with coordinates of its own, whose metric is not the identity."""

    @abstractmethod
    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        """The loss's gradient with respect to the weights, as a momentum in the coordinates of p."""

    @abstractmethod
    def white(self, q: Tensor, noise: Tensor) -> Tensor:
        """Unit white noise in the coordinates of p."""

    @abstractmethod
    def lengths(self, q: Tensor, p: Tensor) -> Tensor:
        """A momentum in units of length, entry by entry: the inverse of `white`."""

    @abstractmethod
    def squared_norm(self, q: Tensor, p: Tensor) -> Tensor:
        """|p|^2 of each copy, shape (copies,)."""


class Curvature(Manifold):
    """A manifold on which the virial theorem can be written down."""

    @abstractmethod
    def virial(self, q: Tensor, force: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        r"""Two numbers a copy whose averages have the temperature as their ratio.

        For a vector field F along the manifold integration by parts gives :math:`\langle F \cdot \nabla V
        \rangle = \tau \langle \mathrm{div} F \rangle`. Here F is the gradient along the manifold of
        :math:`\frac12 |w - a|^2`.

        Args:
            q: where the weights are.
            force: the gradient there, as :meth:`covector` gives it.
            reference: the configuration of a, the same in all averages.

        Returns:
            :math:`F \cdot \nabla V` and :math:`\mathrm{div} F`, each of shape (copies,).
        """


class EmbeddedCurvature(Curvature):
    r"""The same for a manifold in the space of q, from its mean curvature vector.

    F is the projection of w - a, with 0 in the directions of slack. Its divergence is the trace of the
    projection over the weight's own directions plus :math:`(w - a) \cdot \Delta_\Sigma q`.
    """

    @abstractmethod
    def curvature(self, q: Tensor) -> Tensor:
        r"""The mean curvature vector, :math:`\Delta_\Sigma q`."""

    def without_slack(self, q: Tensor) -> Tensor:
        """A configuration with 0 for its slack."""
        return q

    def tangent_trace(self, q: Tensor) -> Tensor:
        """The trace of the projection over the weight's directions: without slack, the dimension."""
        return q.new_full((q.shape[0],), self.degrees_of_freedom)

    def virial(self, q: Tensor, force: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        away = self.without_slack(q - reference)
        work = self.tangent(q, force) * away
        bending = self.curvature(q) * away
        return per_copy(work), self.tangent_trace(q) + per_copy(bending)


def virial(manifold: Manifold, q: Tensor, force: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """The virial of a manifold; NaN for one that does not know its curvature."""
    if isinstance(manifold, Curvature):
        return manifold.virial(q, force, reference)
    unknown = q.new_full((q.shape[0],), torch.nan)
    return unknown, unknown
