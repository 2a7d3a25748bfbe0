"""Runs × methods copies of one perceptron, as one batched model with the optimizers of its methods.

Copy ``method * runs + run`` belongs to that method and run. Forward and backward treat all copies alike, in
batched products; the optimizers own slices of every parameter, in the same memory.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import Problem
from colangevin.experiments.models.mlp import FIRST, LAST, MLP
from colangevin.experiments.training.stack_optimizers import build_optimizers, slices
from colangevin.experiments.training.stack_start import copies_at_the_start

__all__ = ["Stack"]

# Activations of one layer held at a time while measuring.
_ACTIVATIONS = 1 << 26


class Stack:
    """The copies, their losses and their optimizers.

    Args:
        problem: gives the shape of the model and the loss.
        methods: how to train.
        runs: copies for each method; those of one run start from the same weights.
        inputs: features of a point.
        classes: to tell apart; two have one logit.
        seed: of the experiment.
        device: where everything is.
    """

    def __init__(
        self,
        problem: Problem,
        methods: Sequence[Method],
        runs: int,
        *,
        inputs: int,
        classes: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.problem = problem
        self.methods = methods
        self.runs = runs
        self.copies = len(methods) * runs
        build = functools.partial(MLP, problem.depth, problem.width, inputs, 1 if classes == 2 else classes)
        self.model = copies_at_the_start(build, methods, runs, seed).to(device)
        self.weights: dict[str, Tensor] = dict(self.model.named_parameters())
        self.grads = {name: torch.zeros_like(weight) for name, weight in self.weights.items()}
        # 0 for copies whose loss has left the finite numbers; they stay where they were
        self._alive = torch.ones(self.copies, device=device)
        self._mlp = build()  # for its forward alone, which is called with the weights of all copies
        self._square = self._mlp.square_weights
        self._penalties = torch.tensor([method.penalty for method in methods], device=device)
        self._penalties = self._penalties.repeat_interleave(runs)
        penalised = [i for i, method in enumerate(methods) if method.penalty]
        self._penalised = slice(0, 0)
        if penalised:
            self._penalised = slice(penalised[0] * runs, (penalised[-1] + 1) * runs)
        self._slices = slices(self.weights, self.grads, methods, runs, self._square)
        self.optimizers = build_optimizers(self._slices, seed)

    # ---- forward and backward --------------------------------------------------------------------

    def __call__(self, x: Tensor) -> Tensor:
        """Logits of every copy.

        Args:
            x: points of shape (batch, features), or (copies, batch, features).

        Returns:
            Shape (copies, batch) for two classes, (copies, batch, classes) for more.
        """
        # MLP takes the weights of many copies as one batch, which costs less than vmap
        logits: Tensor = functional_call(self._mlp, self.weights, (x,))
        return logits.squeeze(-1) if logits.shape[-1] == 1 else logits

    def differentiate(self, x: Tensor, y: Tensor) -> None:
        """Fill every ``.grad`` with the gradient of a batch's loss, without waiting for the device.

        Args:
            x: points of shape (runs, batch, features); every method sees the same.
            y: their labels, of shape (runs, batch).
        """
        losses = _losses(self(self._each_method(x)), self._each_method(y))
        loss = losses.sum(1) if self.problem.reduction == "sum" else losses.mean(1)
        # 0 times a finite number is 0; times Inf or NaN it is NaN
        self._alive.mul_(loss.detach().mul(0.0).eq(0.0))
        pull = self._pull() if self._penalised.stop else None
        grads = torch.autograd.grad(loss, list(self.weights.values()), grad_outputs=self._alive)
        for grad, buffer in zip(grads, self.grads.values(), strict=True):
            # of a lost copy: its 0 times an infinite activation is NaN
            torch.nan_to_num(grad, nan=0.0, posinf=0.0, neginf=0.0, out=buffer)
        if pull is not None:
            for name, part in zip(self._square, pull, strict=True):
                self.grads[name][self._penalised].add_(part)

    @property
    def lost(self) -> Tensor:
        """Which copies have left the finite numbers, shape (methods, runs)."""
        return (self._alive == 0).view(len(self.methods), self.runs)

    def step(self) -> None:
        """One step of every method."""
        for optimizer in self.optimizers:
            optimizer.step()

    def _each_method(self, tensor: Tensor) -> Tensor:
        """From (runs, ...) to (copies, ...)."""
        return tensor.expand(len(self.methods), *tensor.shape).flatten(0, 1)

    @torch.no_grad()
    def _pull(self) -> Tensor:
        """Gradient 4λ W (WᵀW − I) of the penalty λ Σ ‖WᵀW − I‖², for the copies that have one.

        The weights are those between hidden layers, in their order. A copy whose penalty is not finite is
        lost, and its gradient is 0.

        Returns:
            The gradient, of shape (weights, copies, width, width).
        """
        W = torch.stack([self.weights[name][self._penalised] for name in self._square])
        excess = W.mT @ W
        excess.diagonal(dim1=-2, dim2=-1).sub_(1.0)
        penalty = excess.square().sum((0, -2, -1))
        alive = self._alive[self._penalised].mul_(penalty.mul(0.0).eq(0.0))
        gradient = (W @ excess).mul_((4 * alive * self._penalties[self._penalised]).view(-1, 1, 1))
        return gradient.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)

    # ---- measuring -------------------------------------------------------------------------------

    @torch.no_grad()
    def evaluate(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy of every copy.

        Args:
            x: points of shape (sets, points, features), a set for each run or one for all.
            y: labels of shape (sets, points).

        Returns:
            Two tensors of shape (methods, runs), in float64.
        """
        totals: Tensor | int = 0
        size = max(1, _ACTIVATIONS // (self.copies * self.problem.width))
        for points, labels in zip(x.split(size, dim=1), y.split(size, dim=1), strict=True):
            logits = self(points[0] if len(points) == 1 else self._each_method(points))
            expected = self._each_method(labels.expand(self.runs, -1))
            right = (logits > 0) == (expected > 0.5) if logits.dim() == 2 else logits.argmax(-1) == expected
            losses = _losses(logits, expected)
            totals = totals + torch.stack([losses.double().sum(1), right.double().sum(1)])
        assert isinstance(totals, Tensor)
        loss, accuracy = (totals / x.shape[1]).view(2, len(self.methods), self.runs)
        return loss, accuracy

    @torch.no_grad()
    def largest_weights(self) -> Tensor:
        """Largest entries of first and last weight, shape (2, methods, runs)."""
        largest = [self.weights[name].abs().flatten(1).amax(1) for name in (FIRST, LAST)]
        return torch.stack(largest).view(2, len(self.methods), self.runs)

    def violation(self) -> list[float]:
        """Each method's largest violation of its constraints; 0 without any."""
        worst = [0.0] * len(self.methods)
        held = {each.label: each.methods for each in self._slices}
        for optimizer in self.optimizers:
            for label, value in cl.diagnostics.violation(optimizer).items():
                for number in held[label]:
                    worst[number] = max(worst[number], value)
        return worst

    # ---- checkpoints -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed training needs."""
        return {
            "weights": {name: weight.detach().cpu() for name, weight in self.weights.items()},
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "alive": self._alive.cpu(),
        }

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to where :meth:`state_dict` was called."""
        for name, weight in self.weights.items():
            weight.copy_(state["weights"][name])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self._alive.copy_(state["alive"])


def _losses(logits: Tensor, y: Tensor) -> Tensor:
    """The loss of every point of every copy."""
    if logits.dim() == 2:
        return binary_cross_entropy_with_logits(logits, y, reduction="none")
    return cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view_as(y)
