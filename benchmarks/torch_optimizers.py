"""The optimizers that torch brings along, none of which knows a constraint."""

import torch
from torch import Tensor

from benchmarks.contender import LR, MOMENTUM, Contender, Run, matrices, optimizer_run

__all__ = ["ADAMW_FOREACH", "ADAMW_FUSED", "MUON", "SGD_FOREACH", "SGD_FUSED"]


def _sgd(weights: list[Tensor], size: float, **implementation: bool) -> Run:
    return optimizer_run(torch.optim.SGD(weights, lr=LR, momentum=MOMENTUM, **implementation), weights, size)


def _sgd_fused(weights: list[Tensor], size: float) -> Run:
    return _sgd(weights, size, fused=True)


def _sgd_foreach(weights: list[Tensor], size: float) -> Run:
    return _sgd(weights, size, foreach=True)


def _adamw_fused(weights: list[Tensor], size: float) -> Run:
    # fused AdamW keeps its step counts on the device anyway, so that capturable costs nothing
    capturable = weights[0].is_cuda
    return optimizer_run(
        torch.optim.AdamW(weights, lr=1e-3, fused=True, capturable=capturable), weights, size
    )


def _adamw_foreach(weights: list[Tensor], size: float) -> Run:
    return optimizer_run(torch.optim.AdamW(weights, lr=1e-3, foreach=True), weights, size)


def _muon(weights: list[Tensor], size: float) -> Run:
    flat = [matrix.requires_grad_() for matrix in matrices(weights, tall=False)]  # it takes matrices only
    return optimizer_run(torch.optim.Muon(flat, lr=LR, momentum=MOMENTUM, weight_decay=0.0), flat, size)


SGD_FUSED = Contender("SGD-m, fused", "torch", _sgd_fused, 5, ("graph",))
SGD_FOREACH = Contender("SGD-m, foreach", "torch", _sgd_foreach, 5, ("graph",))
ADAMW_FUSED = Contender("AdamW, fused", "torch", _adamw_fused, 7, ("graph",))
ADAMW_FOREACH = Contender("AdamW, foreach", "torch", _adamw_foreach, 7)
MUON = Contender("Muon", "torch", _muon, 5, ("graph",))
