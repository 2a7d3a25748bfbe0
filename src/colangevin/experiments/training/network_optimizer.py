"""The optimizer of one network: its parameter groups, with the weights where its method starts them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.param_groups import Rules, choose

__all__ = ["build_optimizer", "groups_at_the_start", "penalised_weights"]


def penalised_weights(model: nn.Module, method: Method, rules: Rules) -> list[nn.Parameter]:
    """The weights under a method's penalty: those that its rules call orthogonal. None without a penalty."""
    if not method.penalty:
        return []
    held = [group for group in choose(model, rules) if group["constraint"] == cl.Orthogonal()]
    return [weight for group in held for _, weight in group["params"]]


def groups_at_the_start(model: nn.Module, method: Method, rules: Rules) -> list[dict[str, Any]]:
    """Parameter groups of a method, after its weights have been moved to where it starts.

    Args:
        model: the network; orthogonal weights are drawn anew, from torch's generator.
        method: how to train.
        rules: constraints by parameter.

    Returns:
        The groups. All weights are free where the method only starts orthogonal or has a penalty.
    """
    free = [{"params": list(model.named_parameters()), "constraint": cl.Free()}]
    if not rules or method.penalty:
        return free
    with _gains_at_their_bound():
        orthogonal = cl.Orthogonal() in rules.values()
        groups = cl.constrain(model, rules, init="draw" if orthogonal else "auto")
    return groups if method.constrained else free


def build_optimizer(
    method: Method, groups: list[dict[str, Any]], lr: Tensor, seed: int
) -> ConstrainedOptimizer:
    """The optimizer of a method.

    Args:
        method: how to train.
        groups: of parameters.
        lr: the step size, a tensor that all groups read: a captured graph follows it.
        seed: of the noise.

    Returns:
        The optimizer.
    """
    temperature, weight_decay = method.temperature, method.weight_decay
    with _gains_at_their_bound():
        if method.optimizer == "CoLud":
            return cl.CoLud(
                groups,
                lr,
                friction=method.friction,
                temperature=temperature,
                splitting=method.splitting,
                weight_decay=weight_decay,
                seed=seed,
            )
        # CoLod is ConstrainedSGD without momentum
        return cl.ConstrainedSGD(
            groups,
            lr,
            momentum=method.momentum,
            temperature=temperature,
            weight_decay=weight_decay,
            seed=seed,
        )


@contextmanager
def _gains_at_their_bound() -> Iterator[None]:
    """Silence the warning about the paper's norm gains, which start at their bound and cannot leave it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*start exactly at the bound", category=UserWarning)
        yield
