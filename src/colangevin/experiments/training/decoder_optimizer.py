"""The optimizer of a decoder: its hidden matrices as a method says, all other weights under Adam."""

from collections.abc import Collection
from typing import Any

import torch
from torch.optim import Optimizer

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.training.optimizer_pair import OptimizerPair

__all__ = ["decoder_optimizer"]

# Of Adam everywhere: what decoders are trained with. Embedding, output and gains have no weight decay.
_BETAS = (0.9, 0.95)


def decoder_optimizer(
    method: Method, groups: list[dict[str, Any]], hidden: Collection[str], *, rest_rate: float, seed: int
) -> Optimizer | OptimizerPair:
    """The optimizer of a method, whose groups have their learning rates as ``initial_lr`` too.

    Args:
        method: how to train the hidden matrices. ``AdamW`` and ``Muon`` are those of torch.
        groups: of parameters with their names and constraints.
        hidden: names of the hidden matrices.
        rest_rate: the learning rate of all other weights.
        seed: of ConstrainedSGD, which asks for one.

    Returns:
        One optimizer where the method's can hold all weights, otherwise two.
    """
    held = [{**group, "params": _named(group, hidden, inside=True)} for group in groups]
    held = [group for group in held if group["params"]]
    rest = [pair for group in groups for pair in _named(group, hidden, inside=False)]
    lr, decay, momentum = method.lr, method.weight_decay, method.momentum
    made: Optimizer | OptimizerPair
    if method.optimizer == "ConstrainedMuon":
        others = {"params": rest, "method": "adam", "lr": rest_rate, "weight_decay": 0.0}
        made = cl.ConstrainedMuon([*held, others], lr, momentum, weight_decay=decay, adam_betas=_BETAS)
    elif method.optimizer == "ConstrainedAdam":
        others = {"params": rest, "lr": rest_rate, "weight_decay": 0.0}
        made = cl.ConstrainedAdam([*held, others], lr, _BETAS, weight_decay=decay)
    else:
        first: Optimizer
        if method.optimizer == "ConstrainedSGD":
            first = cl.ConstrainedSGD(held, lr, momentum=momentum, weight_decay=decay, seed=seed)
        else:
            free = [pair for group in held for pair in group["params"]]
            if method.optimizer == "AdamW":
                first = torch.optim.AdamW(free, lr, _BETAS, weight_decay=decay, fused=True)
            else:
                first = torch.optim.Muon(free, lr, decay, momentum)
        made = OptimizerPair(first, torch.optim.AdamW(rest, rest_rate, _BETAS, weight_decay=0.0, fused=True))
    for group in made.param_groups:
        group["initial_lr"] = group["lr"]
    return made


def _named(group: dict[str, Any], names: Collection[str], *, inside: bool) -> list[Any]:
    """The parameters of a group whose names are among some, or are not."""
    return [(name, weight) for name, weight in group["params"] if (name in names) == inside]
