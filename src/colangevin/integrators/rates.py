r"""The numbers of an underdamped step, in the paper's scale and in that of ``torch.optim.SGD``.

Both scales are one scheme in a rescaled momentum m,

.. math::
    A: \dot q = a\,m, \qquad B: m \leftarrow m - b\,G, \qquad O: m \leftarrow c\,m + \sqrt{v(1 - c^2)}\,R,

with :math:`a = b = h`, :math:`c = e^{-\gamma h}`, :math:`v = \tau`, m = p in the paper's scale, and
:math:`a = \mathrm{lr}`, :math:`b = 1`, :math:`c = \mu`, :math:`v = \tau / \mathrm{lr}`, m = -(momentum
buffer) in SGD's, where :math:`\mathrm{lr} = h^2` and :math:`\mu = e^{-\gamma h}`. The momentum itself is
:math:`p = \sqrt{a/b}\,m`.

Each number is a float or, so that a captured CUDA graph can follow a schedule, a tensor on the device.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Rates", "Scalar", "host", "langevin_rates", "sgd_rates"]

Scalar = float | Tensor


def host(value: Scalar) -> float:
    """A number on the host; waits for the device when it lies there."""
    return float(value)


@dataclass(frozen=True)
class Rates:
    """Drift a, kick b, decay c (with its logarithm) and equilibrium variance v of the momentum m."""

    drift: Scalar
    kick: Scalar
    decay: Scalar
    log_decay: Scalar
    variance: Scalar

    def ornstein_uhlenbeck(self, share: float) -> tuple[Scalar, Scalar]:
        """Decay and noise scale of an O that takes ``share`` of the step."""
        decay = self.decay if share == 1 else _exp(share * self.log_decay)
        # 1 - c^2 by expm1: at small friction the difference would lose most of its digits
        return decay, _sqrt(self.variance * -_expm1(2 * share * self.log_decay))

    @property
    def noisy(self) -> bool:
        """Whether there is noise, or may be: a temperature on the device is not looked at."""
        return isinstance(self.variance, Tensor) or self.variance != 0

    def on_host(self) -> "Rates":
        """The same as floats."""
        return Rates(
            host(self.drift), host(self.kick), host(self.decay), host(self.log_decay), host(self.variance)
        )

    def temperature(self, mean_square: float) -> float:
        """Kinetic temperature for a mean of m^2 over degrees of freedom."""
        return mean_square * host(self.drift) / host(self.kick) if host(self.kick) else math.nan


def langevin_rates(h: Scalar, gamma: Scalar, tau: Scalar) -> Rates:
    """Rates for step size h, friction gamma and temperature tau."""
    return Rates(h, h, _exp(-gamma * h), -gamma * h, tau)


def sgd_rates(lr: Scalar, momentum: float, tau: Scalar) -> Rates:
    """Rates for SGD's learning rate and a momentum above 0; a step of length 0 gets no noise."""
    if isinstance(lr, Tensor):
        variance: Scalar = torch.where(lr > 0, tau / lr, 0.0) if isinstance(tau, Tensor) or tau else 0.0
    else:
        variance = tau / lr if lr > 0 else 0.0
    return Rates(lr, 1.0, momentum, math.log(momentum), variance)


def _exp(value: Scalar) -> Scalar:
    return value.exp() if isinstance(value, Tensor) else math.exp(value)


def _expm1(value: Scalar) -> Scalar:
    return value.expm1() if isinstance(value, Tensor) else math.expm1(value)


def _sqrt(value: Scalar) -> Scalar:
    return value.sqrt() if isinstance(value, Tensor) else math.sqrt(value)
