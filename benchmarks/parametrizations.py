"""Orthogonality by parametrization: SGD on free parameters of which the weight is a function.

What it costs is the function and its derivative as well as the optimizer, so a step here computes the
weights, pulls their gradients back and takes SGD's step.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from benchmarks.contender import LR, MOMENTUM, Contender, Gradients, Run, matrices, orthogonality

__all__ = ["GEOTORCH", "TORCH"]


class _Layer(nn.Module):
    """A matrix as the weight of a module, as parametrizations want it."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(matrix)


def _run(layers: list[_Layer], size: float) -> Run:
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=LR, momentum=MOMENTUM, foreach=True)
    weights = [layer.weight.detach() for layer in layers]
    gradients = Gradients(weights, size)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward([layer.weight for layer in layers], gradients.views)
        optimizer.step()

    def state() -> Iterator[Tensor]:
        for layer in layers:
            yield from layer.buffers()
        for entry in optimizer.state.values():
            yield from (value for value in entry.values() if isinstance(value, Tensor))

    def error() -> float:
        with torch.no_grad():
            return orthogonality([layer.weight for layer in layers])

    return Run(weights, gradients.refill, step, state, error)


def _torch(kind: str) -> Callable[[list[Tensor], float], Run]:
    def build(weights: list[Tensor], size: float) -> Run:
        layers = [_Layer(matrix) for matrix in matrices(weights, tall=False)]
        for layer in layers:
            parametrizations.orthogonal(layer, orthogonal_map=kind)
        return _run(layers, size)

    return build


def _geotorch(kind: str) -> Callable[[list[Tensor], float], Run]:
    def build(weights: list[Tensor], size: float) -> Run:
        import geotorch

        layers = [_Layer(matrix) for matrix in matrices(weights, tall=False)]
        for layer in layers:
            geotorch.orthogonal(layer, triv=kind)
        return _run(layers, size)

    return build


TORCH = tuple(
    Contender(f"parametrizations.orthogonal, {kind}", "torch", _torch(kind), None)
    for kind in ("cayley", "householder", "matrix_exp")
)
GEOTORCH = tuple(
    Contender(f"orthogonal, {kind}", "geotorch", _geotorch(kind), None) for kind in ("cayley", "expm")
)
