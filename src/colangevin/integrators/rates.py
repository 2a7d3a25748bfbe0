r"""The numbers of an underdamped step, in the paper's scale and in that of ``torch.optim.SGD``.

Both scales are one scheme in a rescaled momentum m,

.. math::
    A: \dot q = a\,m, \qquad B: m \leftarrow m - b\,G, \qquad O: m \leftarrow c\,m + \sqrt{v(1 - c^2)}\,R,

with :math:`a = b = h`, :math:`c = e^{-\gamma h}`, :math:`v = \tau`, m = p in the paper's scale, and
:math:`a = \mathrm{lr}`, :math:`b = 1`, :math:`c = \mu`, :math:`v = \tau / \mathrm{lr}`, m = -(momentum
buffer) in SGD's, where :math:`\mathrm{lr} = h^2` and :math:`\mu = e^{-\gamma h}`. The momentum itself is
:math:`p = \sqrt{a/b}\,m`.
"""

import math
from dataclasses import dataclass

__all__ = ["Rates", "langevin_rates", "sgd_rates"]


@dataclass(frozen=True)
class Rates:
    """Drift a, kick b, decay c (with its logarithm) and equilibrium variance v of the momentum m."""

    drift: float
    kick: float
    decay: float
    log_decay: float
    variance: float

    def ornstein_uhlenbeck(self, share: float) -> tuple[float, float]:
        """Decay and noise scale of an O that takes ``share`` of the step."""
        decay = self.decay if share == 1 else math.exp(share * self.log_decay)
        # 1 - c^2 by expm1: at small friction the difference would lose most of its digits
        return decay, math.sqrt(self.variance * -math.expm1(2 * share * self.log_decay))

    def temperature(self, mean_square: float) -> float:
        """Kinetic temperature for a mean of m^2 over degrees of freedom."""
        return mean_square * self.drift / self.kick if self.kick else math.nan


def langevin_rates(h: float, gamma: float, tau: float) -> Rates:
    """Rates for step size h, friction gamma and temperature tau."""
    return Rates(h, h, math.exp(-gamma * h), -gamma * h, tau)


def sgd_rates(lr: float, momentum: float, tau: float) -> Rates:
    """Rates for SGD's learning rate and a momentum above 0; a step of length 0 gets no noise."""
    return Rates(lr, 1.0, momentum, math.log(momentum), tau / lr if lr > 0 else 0.0)
