"""The bias of a step size, from two chains on the same noise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.diagnostics.chains import standard_error
from colangevin.diagnostics.tied import TiedPlan
from colangevin.dynamics import Dynamics, Overdamped, Underdamped
from colangevin.dynamics.rates import Scalar
from colangevin.errors import label
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.colod import CoLod
from colangevin.optim.colud import CoLud
from colangevin.sharded import refuse_sharded

__all__ = ["Chain", "Coupled", "coupled"]

#: an optimizer, a closure for its steps, and what is observed: one number, or one for each chain
Chain = tuple[ConstrainedOptimizer, Callable[[], Any], Callable[[], Tensor | float]]

# Standard errors on either side of a difference; one difference in 370 lies outside.
_ERRORS = 3.0


@dataclass(frozen=True)
class Coupled:
    r"""What two chains on the same noise say about a step size; `coupled` runs them.

    Attributes:
        lr: the step size h of the fine chain.
        mean: of what was observed, in the fine chain.
        difference: mean of the coarse chain, whose step is 2h, minus mean of the fine one.
        error: standard error of the difference, autocorrelation included.
        correlation: between what was observed in both at the same times. The nearer to 1, the more the
            coupling helps. Far below 1 the chains have come apart: take a smaller step or more friction, or
            settle for the error.

    Examples:
        >>> found = cl.diagnostics.Coupled(lr=0.1, mean=1.0, difference=0.02, error=0.002, correlation=0.99)
        >>> round(found.bound, 3), round(found.bias(order=2), 4)
        (0.026, 0.0067)
    """

    lr: float
    mean: float
    difference: float
    error: float
    correlation: float

    @property
    def bound(self) -> float:
        r"""What the bias of the fine chain is at most, if half the step has at most half the bias.

        Then $|b_h| \le |b_{2h} - b_h|$: the difference, and three standard errors of it.
        """
        return abs(self.difference) + _ERRORS * self.error

    def bias(self, order: int) -> float:
        r"""The bias of the fine chain, if it is of this order in h: $(b_{2h} - b_h) / (2^k - 1)$.

        Args:
            order: k; 1 for `CoLod` and for `CoLud` with OBA or BOA, 2 with BAOAB.

        Returns:
            The mean of the fine chain minus that of the exact law, without the error of the difference.

        Raises:
            ValueError: for an order below 1.
        """
        if order < 1:
            raise ValueError(f"order={order}: must be at least 1, as of a step whose bias vanishes with h.")
        return self.difference / (2.0**order - 1)


def coupled(build: Callable[[float], Chain], lr: float, *, steps: int, burn_in: int = 0) -> Coupled:
    r"""Ask how biased a step size is, by a chain beside one of twice the step, on the same noise.

    Averages over two independent chains differ by their Monte Carlo errors, which hide the bias of a step.
    Here the noise of each coarse step is the sum of the noise of the two fine ones it spans. The chains stay
    together where the dynamics contracts, so that most of the error cancels in their difference. To see the
    bias of the steps alone, give both the gradient of all data, or of one batch throughout.

    Args:
        build: from a step size to a model's optimizer (`CoLod` or `CoLud`, which has taken no step), a
            closure for its steps and a function that observes one number, or one for each chain. It is called
            with `lr` and with twice that, and has to give the same weights both times.
        lr: the step size to ask about.
        steps: of the coarse chain, after the burn-in; the fine chain takes twice as many.
        burn_in: steps of the coarse chain before the first that counts.

    Returns:
        The difference of the averages and its error.

    Raises:
        ValueError: when the chains do not differ in their step size alone, or for a number out of range.

    Examples:
        >>> def build(lr):
        ...     w = nn.Parameter(torch.zeros(100, 1))  # a hundred chains of the potential w^2 / 2
        ...     groups = [{"params": [w], "replicas": 100}]
        ...     optimizer = cl.CoLod(groups, lr, temperature=1.0, seed=0)
        ...
        ...     def closure():
        ...         optimizer.zero_grad()
        ...         (w.square().sum() / 2).backward()
        ...
        ...     return optimizer, closure, lambda: w.detach().square().squeeze(1)
        >>> found = cl.diagnostics.coupled(build, 0.1, steps=500, burn_in=50)
        >>> exact = 1 / (1 - 0.05) - 1  # the bias of E w^2
        >>> found.correlation > 0.98, exact < found.bound < 0.1
        (True, True)
    """
    if steps < 4 or burn_in < 0:
        raise ValueError(f"steps={steps}, burn_in={burn_in}: must be at least 4 and 0; take more steps.")
    (fine, closure, observe), (coarse, coarse_closure, coarse_observe) = build(lr), build(2 * lr)
    _tie(fine, coarse)
    seen: list[tuple[Tensor, Tensor]] = []
    for step in range(burn_in + steps):
        for _ in range(2):
            fine.step(closure)
        coarse.step(coarse_closure)
        if step >= burn_in:
            seen.append((_numbers(observe()), _numbers(coarse_observe())))
    short, long = (torch.stack(each, dim=1) for each in zip(*seen, strict=True))
    difference = long - short
    together = torch.stack((short.flatten(), long.flatten()))
    return Coupled(
        lr=lr,
        mean=float(short.mean()),
        difference=float(difference.mean()),
        error=standard_error(difference),
        correlation=float(torch.corrcoef(together)[0, 1]),
    )


def _numbers(seen: Tensor | float) -> Tensor:
    """What was observed, one number for each chain."""
    return torch.as_tensor(seen).detach().double().cpu().reshape(-1)


def _tie(fine: ConstrainedOptimizer, coarse: ConstrainedOptimizer) -> None:
    """Give the coarse chain the noise of the fine one; raises unless they differ in the step size alone."""
    for optimizer in (fine, coarse):
        if not isinstance(optimizer, CoLod | CoLud):
            raise ValueError(
                f"build(lr) gave {type(optimizer).__name__}: must give CoLod or CoLud, whose lr is the time "
                "of a step. ConstrainedSGD is CoLud in other words: lr h², momentum e^(-γh)."
            )
        if optimizer.state:
            raise ValueError("build(lr) gave an optimizer that has taken steps: must give a new one.")
    names = [
        [optimizer._names(i) for i in range(len(optimizer.param_groups))] for optimizer in (fine, coarse)
    ]
    if names[0] != names[1]:
        raise ValueError(f"build(lr) gave parameters {names[0]} and {names[1]}: must give the same ones.")
    pairs = zip(fine._all_dynamics(), coarse._all_dynamics(), strict=True)
    for number, (short, long) in enumerate(pairs):
        decays = [optimizer.param_groups[number]["weight_decay"] for optimizer in (fine, coarse)]
        if not (_doubled(short, long) and _alike(*decays)):
            raise ValueError(
                f"build(lr) gave param_groups[{number}] whose lr is not lr, or whose other options depend on "
                "it: must give every group lr=lr, and the same friction, temperature, splitting and decay."
            )
    for number, (mine, other) in enumerate(zip(fine.param_groups, coarse.param_groups, strict=True)):
        for name, one, two in zip(names[0][number], mine["params"], other["params"], strict=True):
            refuse_sharded(one, name)
            if not torch.equal(one, two):
                raise ValueError(
                    f"{label(name, one.shape)}: build(lr) gave other weights at twice the step; set torch's "
                    "seed in build, or copy weights."
                )
    fine._draw_seed()
    for mine, other in zip(fine.param_groups, coarse.param_groups, strict=True):
        other["seed"] = mine["seed"]
    coarse._planned = TiedPlan


def _doubled(short: Dynamics, long: Dynamics) -> bool:
    """Whether two dynamics differ in that one takes twice the other's step, and in nothing else."""
    if isinstance(short, Overdamped) and isinstance(long, Overdamped):
        return _alike(2 * short.h, long.h) and _alike(short.tau, long.tau)
    if not (isinstance(short, Underdamped) and isinstance(long, Underdamped)):
        return False
    one, two = short.rates, long.rates
    return (
        short.splitting == long.splitting
        and _alike(2 * one.drift, two.drift)
        and _alike(2 * one.log_decay, two.log_decay)
        and _alike(one.variance, two.variance)
    )


def _alike(one: Scalar, other: Scalar) -> bool:
    one, other = (torch.as_tensor(each, dtype=torch.float64, device="cpu") for each in (one, other))
    return bool(torch.isclose(one, other, rtol=1e-6, atol=0.0).all())
