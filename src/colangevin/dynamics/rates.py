r"""The numbers of an underdamped step, in the paper's scale and in that of ``torch.optim.SGD``.

Both scales are one scheme in a rescaled momentum m,

.. math::
    A: \dot q = a\,m, \qquad B: m \leftarrow m - b\,G, \qquad O: m \leftarrow c\,m + \sqrt{v(1 - c^2)}\,R,

with :math:`a = b = h`, :math:`c = e^{-\gamma h}`, :math:`v = \tau`, m = p in the paper's scale, and
:math:`a = \mathrm{lr}`, :math:`b = 1`, :math:`c = \mu`, :math:`v = \tau / \mathrm{lr}`, m = -(momentum
buffer) in SGD's, where :math:`\mathrm{lr} = h^2` and :math:`\mu = e^{-\gamma h}`. The momentum itself is
:math:`p = \sqrt{a/b}\,m`.

Each number is a float or, so that a captured CUDA graph can follow a schedule, a tensor on the device. Where
the copies of a stack have numbers of their own it is a tensor with one for each, of shape (copies,).
"""

import math
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor

__all__ = [
    "Rates",
    "Scalar",
    "factor",
    "host",
    "langevin_rates",
    "largest",
    "over_copies",
    "product",
    "sgd_rates",
    "sqrt",
    "stamp",
    "varies",
]

Scalar = float | Tensor


def varies(value: Scalar) -> TypeGuard[Tensor]:
    """Whether there is a number for each copy."""
    return isinstance(value, Tensor) and value.dim() > 0


def host(value: Scalar) -> Scalar:
    """A number as a float; waits for the device when it lies there. One for each copy stays a tensor."""
    return value if varies(value) else float(value)


def largest(value: Scalar) -> float:
    """The number, or the largest of the copies' numbers."""
    return float(value.max() if isinstance(value, Tensor) else value)


def stamp(value: Scalar) -> tuple[object, ...]:
    """What changes when a number does, without reading it."""
    return (id(value), value._version) if isinstance(value, Tensor) else (value,)


def factor(rate: Scalar, stack: Tensor) -> tuple[float, Tensor]:
    """One number and the stack that it multiplies, for a rate on the host or one for each copy.

    Numbers for each copy are multiplied in at once.

    Returns:
        The number, which is 1 for a rate that was multiplied in, and the stack.
    """
    if isinstance(rate, Tensor):
        return 1.0, over_copies(rate, stack) * stack
    return rate, stack


def product(one: Scalar, other: Scalar) -> Scalar:
    """The product of two numbers; where both vary, one may have those of one of several parameters."""
    if varies(one) and varies(other):
        longest = max(len(one), len(other))
        one, other = (each.repeat(longest // len(each)) for each in (one, other))
    return one * other


def over_copies(rate: Tensor, stack: Tensor) -> Tensor:
    """Numbers for each copy in a shape that broadcasts to a stack of one parameter or of several in a row."""
    repeated = rate.to(dtype=stack.dtype, device=stack.device).repeat(stack.shape[0] // rate.shape[0])
    return repeated.view(-1, *[1] * (stack.dim() - 1))


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
        return decay, sqrt(self.variance * -_expm1(2 * share * self.log_decay))

    @property
    def noisy(self) -> bool:
        """Whether there is noise, or may be: a temperature on the device is not looked at."""
        return isinstance(self.variance, Tensor) or self.variance != 0

    @property
    def varies(self) -> bool:
        """Whether a copy has numbers of its own."""
        return any(map(varies, (self.drift, self.kick, self.log_decay, self.variance)))

    def on_host(self) -> "Rates":
        """The same with floats for numbers that lie on a device."""
        return Rates(
            host(self.drift), host(self.kick), host(self.decay), host(self.log_decay), host(self.variance)
        )

    def energy(self, square: Tensor) -> Tensor:
        """From m^2 of each copy to p^2 = (a/b) m^2, without waiting for the device."""
        # b = 0 only in the paper's scale, where a = b
        if isinstance(self.kick, Tensor):
            return torch.where(self.kick > 0, self.drift / self.kick, 1.0) * square
        return self.drift / self.kick * square if self.kick else square


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


def sqrt(value: Scalar) -> Scalar:
    """The square root."""
    return value.sqrt() if isinstance(value, Tensor) else math.sqrt(value)
