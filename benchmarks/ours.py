"""The methods of this library."""

from collections.abc import Callable

import torch
from torch import Tensor

import colangevin as cl
from benchmarks.contender import LR, MOMENTUM, Contender, Run, optimizer_run, orthogonality

__all__ = [
    "CIRCLE",
    "CIRCLE_NOISY",
    "ELEMENTWISE",
    "GENERAL_ENTRIES",
    "GENERAL_ROWS",
    "GENERAL_WEIGHT",
    "ORTHOGONAL",
    "PLANES_AND_SQUARES",
    "SPHERES",
]

RADIUS = 2.0  # above every starting weight and every starting row
TEMPERATURE = 1e-6


@torch.no_grad()
def _place(constraint: cl.Constraint, weight: Tensor) -> None:
    """Put a weight where the constraint holds it; radii are chosen such that bounds hold."""
    if isinstance(constraint, cl.NonNegative):
        weight.abs_()
    elif isinstance(constraint, cl.Simplex):
        weight.copy_(weight.softmax(1))
    elif isinstance(constraint, cl.Affine) or (isinstance(constraint, cl.Sphere) and not constraint.slack):
        constraint.init_(weight)
    elif isinstance(constraint, cl.Implicit):
        constraint.init_(weight, init="nearest")


def _build(
    constraint: cl.Constraint, least_dim: int, temperature: float
) -> Callable[[list[Tensor], float], Run]:
    """Constrain weights of at least so many dimensions, leave the others free."""

    def build(weights: list[Tensor], size: float) -> Run:
        bound = [weight for weight in weights if weight.dim() >= least_dim]
        free = [weight for weight in weights if weight.dim() < least_dim]
        for weight in bound:
            _place(constraint, weight)
        groups = [{"params": bound, "constraint": constraint}, {"params": free}]
        optimizer = cl.ConstrainedSGD(
            [group for group in groups if group["params"]],
            lr=LR,
            momentum=MOMENTUM,
            temperature=temperature,
            seed=0,
        )

        def error() -> float:
            if isinstance(constraint, cl.Orthogonal):
                return orthogonality(bound)
            return max(cl.diagnostics.violation(optimizer).values())

        return optimizer_run(
            optimizer, weights, size, error=None if isinstance(constraint, cl.Free) else error
        )

    return build


def _contender(
    method: str,
    constraint: cl.Constraint,
    words: int,
    *,
    least_dim: int = 0,
    temperature: float = 0.0,
) -> Contender:
    build = _build(constraint, least_dim, temperature)
    return Contender(method, "colangevin", build, words, ("graph",))


CIRCLE = _contender("circle", cl.Circle(RADIUS), 6)
CIRCLE_NOISY = _contender("circle, noise", cl.Circle(RADIUS), 6, temperature=TEMPERATURE)
ORTHOGONAL = _contender("orthogonal", cl.Orthogonal(), 5, least_dim=2)
#: a row of one entry has no direction, so spheres leave vectors free
SPHERES = (
    _contender("sphere, slack", cl.Sphere(RADIUS), 7, least_dim=2),
    _contender("sphere", cl.Sphere(RADIUS, slack=False), 5, least_dim=2),
)
PLANES_AND_SQUARES = (
    _contender("rows that sum to 1", cl.Affine.sum(1.0), 5),
    _contender("non-negative", cl.NonNegative(), 6),
    _contender("simplex rows", cl.Simplex(), 6),
)


def _sums_to_one(row: Tensor) -> Tensor:
    return row.sum() - 1


def _groups_of_rows(w: Tensor) -> Tensor:
    """Squared norms of 64 groups of rows, at half of what fresh weights have."""
    return w.reshape(64, -1).square().sum(1) - w.numel() / 64 * 0.02**2 / 2


def _general(method: str, constraint: cl.Implicit) -> Contender:
    # its solves look at their residuals on the host, so that no step can be captured
    return Contender(method, "colangevin", _build(constraint, 2, 0.0), None)


#: constraints written as a function g
GENERAL_ROWS = _general("g of a row: sums to 1", cl.Implicit(_sums_to_one, over="rows"))
GENERAL_ENTRIES = _general("g of an entry: >= 0", cl.Implicit(torch.neg, inequality=True, over="entries"))
GENERAL_WEIGHT = _general("g of the weight: 64 components", cl.Implicit(_groups_of_rows))
ELEMENTWISE = (_contender("free", cl.Free(), 5), CIRCLE, CIRCLE_NOISY, *SPHERES)
