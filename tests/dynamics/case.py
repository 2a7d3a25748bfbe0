"""The paper's methods, one case a constraint, in the variables of the transcriptions.

A case holds the transcription's own variables as a tuple ``x``. It says how ``x`` maps to the library's
(q, p) and how the paper's noise maps to the library's.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from colangevin.constraints import Constraint

Variables = tuple[Tensor, ...]


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """A constraint, a weight, and the paper's method for it in the reference's variables x.

    ``position``, ``momentum`` and the noise maps return one copy, without the library's stack dimension.
    """

    constraint: Constraint
    weight: Tensor
    noise_shape: tuple[int, ...]
    start: Callable[[Tensor], Variables]  # a weight at rest, slack positive
    shove: Callable[[Variables, Tensor], Variables]  # a momentum from noise
    step_a: Callable[[Variables, float], Variables]
    step_b: Callable[[Variables, Tensor, float], Variables]
    step_o: Callable[[Variables, float, float, float, Tensor], Variables]
    overdamped: Callable[[Variables, Tensor, float, float, Tensor], Variables]
    position: Callable[[Variables], Tensor]
    momentum: Callable[[Variables], Tensor]
    kick_noise: Callable[[Variables, Tensor], Tensor]  # the paper's noise of O in the library's coordinates
    euler_noise: Callable[[Tensor], Tensor]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.weight.shape)

    @property
    def bound(self) -> Constraint:
        return self.constraint.on(self.shape)
