"""Many o-CoLod runs on the 4-turn spiral as one stacked model, on any device.

Perceptrons of several depths share their layers' batched products: replicas are sorted by depth, deepest
first, so that the ones still going at layer l are the first of the stack. A step is one CUDA graph for
forward and backward and one call of the optimizer.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

import colangevin as cl
from colangevin.experiments.data.spirals import four_turn_spiral

WIDTH, TRAIN, TEST, BATCH = 100, 500, 1000, 25


@dataclass
class Stack:
    """Runs at one temperature: their depths and the stacked parameters of every layer."""

    depths: list[int]
    hidden: list[Tensor]  # hidden-to-hidden weights, (replicas that have the layer, WIDTH, WIDTH)
    free: list[Tensor]  # first weight, biases of the hidden layers, last weight and bias

    def forward(self, x: Tensor) -> Tensor:
        """Logits (replicas, batch) for points (replicas, batch, 2)."""
        first, *biases, last, last_bias = self.free
        x = torch.baddbmm(biases[0], x, first).relu()
        ended = []
        for weight, bias in zip(self.hidden, biases[1:], strict=True):
            going = weight.shape[0]
            ended.append(x[going:])
            x = torch.baddbmm(bias, x[:going], weight.mT).relu()
        x = torch.cat([x, *reversed(ended)])
        return torch.baddbmm(last_bias, x, last).squeeze(-1)


def build(depths: list[int], device: str) -> Stack:
    """A stack with torch's default initialisation for free and Haar matrices for hidden weights."""
    depths = sorted(depths, reverse=True)
    n = len(depths)

    def uniform(*shape: int, fan_in: int) -> Tensor:
        bound = 1 / math.sqrt(fan_in)
        return torch.empty(shape, device=device).uniform_(-bound, bound).requires_grad_()

    hidden, biases = [], [uniform(n, 1, WIDTH, fan_in=2)]
    for layer in range(1, max(depths)):
        going = sum(depth > layer for depth in depths)
        weight = torch.empty(going, WIDTH, WIDTH, device=device)
        hidden.append(cl.Orthogonal().init_(weight, init="draw", replicas=True).requires_grad_())
        biases.append(uniform(going, 1, WIDTH, fan_in=WIDTH))
    first = uniform(n, 2, WIDTH, fan_in=2)
    last, last_bias = uniform(n, WIDTH, 1, fan_in=WIDTH), uniform(n, 1, 1, fan_in=WIDTH)
    return Stack(depths, hidden, [first, *biases, last, last_bias])


def data(runs: int, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Fresh training and test spirals for every run."""
    sets = [(*four_turn_spiral(TRAIN), *four_turn_spiral(TEST)) for _ in range(runs)]
    x, y, x_test, y_test = (torch.stack(part).to(device) for part in zip(*sets, strict=True))
    return x, y, x_test, y_test


class Gradients:
    """Forward and backward of some stacks into their ``.grad``, as a CUDA graph where there is CUDA."""

    def __init__(self, stacks: list[Stack], sets: list[tuple[Tensor, ...]]) -> None:
        self.stacks, self.sets = stacks, sets
        device = sets[0][0].device
        self.rows = [torch.zeros(len(s.depths), BATCH, dtype=torch.long, device=device) for s in stacks]
        for stack in stacks:
            for parameter in (*stack.hidden, *stack.free):
                parameter.grad = torch.zeros_like(parameter)
        self.graph = None
        if device.type == "cuda":
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self._backward()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._backward()

    def _backward(self) -> None:
        for stack, (x, y, *_), rows in zip(self.stacks, self.sets, self.rows, strict=True):
            batch = x.gather(1, rows.unsqueeze(-1).expand(-1, -1, 2))
            logits = stack.forward(batch)
            losses = torch.nn.functional.binary_cross_entropy_with_logits(
                logits, y.gather(1, rows), reduction="none"
            )
            parameters = (*stack.hidden, *stack.free)
            grads = torch.autograd.grad(losses.mean(1).sum(), parameters)
            for parameter, grad in zip(parameters, grads, strict=True):
                parameter.grad.copy_(grad)

    def __call__(self, rows: list[Tensor]) -> None:
        """Fill every ``.grad`` for the given rows (replicas, BATCH) of the training sets."""
        for kept, new in zip(self.rows, rows, strict=True):
            kept.copy_(new)
        if self.graph is None:
            self._backward()
        else:
            self.graph.replay()


def epoch_rows(stacks: list[Stack], device: torch.device) -> list[list[Tensor]]:
    """The batches of an epoch, drawn without replacement, for each step a tensor for each stack."""
    orders = [torch.rand(len(s.depths), TRAIN, device=device).argsort(1) for s in stacks]
    return [[order[:, i : i + BATCH] for order in orders] for i in range(0, TRAIN, BATCH)]


def finite_replicas(stack: Stack) -> Tensor:
    """Whether each replica's weights are all finite, shape (replicas,)."""
    finite = torch.ones(len(stack.depths), dtype=torch.bool, device=stack.free[0].device)
    for parameter in (*stack.hidden, *stack.free):
        finite[: parameter.shape[0]] &= parameter.isfinite().flatten(1).all(1)
    return finite


@torch.no_grad()
def accuracy(stack: Stack, sets: tuple[Tensor, ...]) -> Tensor:
    """Share of test points on the right side, shape (replicas,)."""
    return ((stack.forward(sets[2]) > 0) == (sets[3] > 0.5)).float().mean(1)
