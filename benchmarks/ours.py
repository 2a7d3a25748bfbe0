"""The methods of this library."""

from collections.abc import Callable

from torch import Tensor

import colangevin as cl
from benchmarks.contender import LR, MOMENTUM, Contender, Run, optimizer_run, orthogonality

__all__ = [
    "CIRCLE",
    "CIRCLE_NOISY",
    "ELEMENTWISE",
    "ORTHOGONAL",
    "SPHERES",
    "build",
    "contender",
]

Place = Callable[[cl.Constraint, Tensor], None]

RADIUS = 2.0  # above every starting weight and every starting row
TEMPERATURE = 1e-6


def _place(constraint: cl.Constraint, weight: Tensor) -> None:
    """Put a weight where the constraint holds it; radii are chosen such that bounds hold."""
    if isinstance(constraint, cl.Sphere) and not constraint.slack:
        constraint.init_(weight)


def build(
    constraint: cl.Constraint, least_dim: int, temperature: float = 0.0, place: Place = _place
) -> Callable[[list[Tensor], float], Run]:
    """Constrain weights of at least so many dimensions, leave the others free.

    Args:
        constraint: what holds them.
        least_dim: how many dimensions.
        temperature: of the noise.
        place: puts a weight where the constraint holds it.

    Returns:
        What builds a run.
    """

    def built(weights: list[Tensor], size: float) -> Run:
        bound = [weight for weight in weights if weight.dim() >= least_dim]
        free = [weight for weight in weights if weight.dim() < least_dim]
        for weight in bound:
            place(constraint, weight)
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

    return built


def contender(
    method: str,
    constraint: cl.Constraint,
    words: int,
    *,
    least_dim: int = 0,
    temperature: float = 0.0,
    place: Place = _place,
) -> Contender:
    """A method of this library.

    Args:
        method: its name.
        constraint: what holds the weights.
        words: that a step reads and writes for each weight.
        least_dim: of the weights that are held.
        temperature: of the noise.
        place: puts a weight where the constraint holds it.

    Returns:
        The contender.
    """
    return Contender(
        method, "colangevin", build(constraint, least_dim, temperature, place), words, ("graph",)
    )


CIRCLE = contender("circle", cl.Circle(RADIUS), 6)
CIRCLE_NOISY = contender("circle, noise", cl.Circle(RADIUS), 6, temperature=TEMPERATURE)
ORTHOGONAL = contender("orthogonal", cl.Orthogonal(), 5, least_dim=2)
#: a row of one entry has no direction, so spheres leave vectors free
SPHERES = (
    contender("sphere, slack", cl.Sphere(RADIUS), 7, least_dim=2),
    contender("sphere", cl.Sphere(RADIUS, slack=False), 5, least_dim=2),
)
ELEMENTWISE = (contender("free", cl.Free(), 5), CIRCLE, CIRCLE_NOISY, *SPHERES)
