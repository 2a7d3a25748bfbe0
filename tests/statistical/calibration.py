r"""A Bayesian model on every manifold: a uniform prior, and counts that are Poisson with rate exp(b + a·w).

The posterior is skewed, so that a wrong sign cannot hide. Draw w from the prior and y from p(y | w). Given y,
w is then a draw of the posterior: simulation-based calibration rests on this. A sampler of w given y,
alternated with draws of y given w, keeps the prior of w: the test of Geweke rests on this.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy import stats
from torch import Tensor

import colangevin as cl
from tests.statistical.sampling import Run, optimizer

__all__ = ["CASES", "Case", "Model", "assert_uniform_ranks", "geweke", "ranks", "spread"]

Draw = Callable[[int], Tensor]


@dataclass(frozen=True)
class Case:
    """A constraint on one weight, draws of its uniform law, and draws of a law that only looks like it."""

    constraint: cl.Constraint
    shape: tuple[int, ...]
    draw: Draw
    wrong: Draw


def _uniform(constraint: cl.Constraint, *shape: int) -> Draw:
    def draw(count: int) -> Tensor:
        weight = torch.empty(count, *shape, dtype=torch.float64)
        return constraint.init_(weight, init="draw", replicas=True)

    return draw


def _in_disc(count: int) -> Tensor:
    """By area, not by the area of the hemisphere above."""
    radius, angle = torch.rand(2, count, dtype=torch.float64)
    radius, angle = radius.sqrt(), math.tau * angle
    return torch.stack((radius * angle.cos(), radius * angle.sin()), dim=-1).unsqueeze(1)


def _by_angles(count: int) -> Tensor:
    """Two uniform angles: too many points near the poles."""
    polar, around = math.pi * torch.rand(count, dtype=torch.float64), math.tau * torch.rand(count)
    z, flat = polar.cos(), polar.sin()
    return torch.stack((flat * around.cos(), flat * around.sin(), z), dim=-1).unsqueeze(1)


def _by_columns(count: int) -> Tensor:
    """Frames whose first column is drawn by two uniform angles."""
    first = _by_angles(count).squeeze(1)
    other = torch.linalg.cross(first, torch.randn_like(first))
    return torch.stack((first, other / other.norm(dim=1, keepdim=True)), dim=-1)


def on_the_sphere(w: Tensor) -> Tensor:
    return w.square().sum().reshape(1) - 1


_SPHERE = cl.Sphere(1.0, slack=False)
CASES = {
    "circle": Case(
        cl.Circle(1.0),
        (1,),
        _uniform(cl.Circle(1.0), 1),
        lambda count: 2 * torch.rand(count, 1, dtype=torch.float64) - 1,
    ),
    "sphere": Case(_SPHERE, (1, 3), _uniform(_SPHERE, 1, 3), _by_angles),
    "ball": Case(cl.Sphere(1.0), (1, 2), _uniform(cl.Sphere(1.0), 1, 2), _in_disc),
    "frames": Case(cl.Orthogonal(), (3, 2), _uniform(cl.Orthogonal(), 3, 2), _by_columns),
    "implicit": Case(cl.Implicit(on_the_sphere), (1, 3), _uniform(_SPHERE, 1, 3), _by_angles),
}


class Model:
    """The counts of many copies of a weight.

    Args:
        shape: of one weight.
    """

    OBSERVED = 3
    OFFSET = 1.0

    def __init__(self, shape: tuple[int, ...]) -> None:
        n = math.prod(shape)
        angles = 1.0 + torch.arange(self.OBSERVED * n, dtype=torch.float64)
        self.directions = 1.2 * torch.sin(1.7 * angles).reshape(self.OBSERVED, n)

    def rates(self, w: Tensor) -> Tensor:
        """Shape (copies, observed)."""
        return torch.exp(self.OFFSET + w.flatten(1) @ self.directions.mT)

    def observe(self, w: Tensor) -> Tensor:
        """Counts y for each weight."""
        return torch.poisson(self.rates(w))

    def potential(self, w: Tensor, y: Tensor) -> Tensor:
        """-log p(y | w) of each copy, up to a constant."""
        return (self.rates(w) - y * self.rates(w).log()).sum(1)

    def misfit(self, w: Tensor, y: Tensor) -> Tensor:
        """Pearson's statistic of the counts of each copy: its mean is the number of counts."""
        return ((y - self.rates(w)).square() / self.rates(w)).sum(1)

    def gradient(self, w: Tensor, y: Tensor) -> Tensor:
        """Of the potential."""
        return ((self.rates(w) - y) @ self.directions).reshape(w.shape)


def _sampler(case: Case, scheme: str, run: Run, w: Tensor) -> Callable[[Tensor, int], None]:
    """What moves ``w`` by a number of steps, given y."""
    model, opt = Model(case.shape), optimizer(scheme, [w], case.constraint, 1.0, run)

    def move(y: Tensor, steps: int) -> None:
        for _ in range(steps):
            w.grad = model.gradient(w, y)
            opt.step()

    return move


def spread(w: Tensor) -> Tensor:
    """A weighted sum of squares of each copy: sees how weights are spread over their manifold."""
    squares = w.flatten(1).square()
    return squares @ torch.arange(1, squares.shape[1] + 1, dtype=w.dtype)


def ranks(case: Case, scheme: str, run: Run, draws: int, draw: Draw | None = None) -> dict[str, Tensor]:
    """Of the w that made y among so many draws of the posterior, by -log p(y | w) and by :func:`spread`.

    Args:
        case: the manifold.
        scheme: of the sampler.
        run: its numbers; ``run.steps`` lie between two draws.
        draws: of the posterior.
        draw: of the prior; the case's own by default.

    Returns:
        For both, whole numbers from 0 to ``draws`` of shape (copies,), uniform if the sampler is right.
    """
    torch.manual_seed(run.seed)
    model, truth = Model(case.shape), (draw or case.draw)(run.replicas)
    y = model.observe(truth)
    w = case.draw(run.replicas).clone()
    move = _sampler(case, scheme, run, w)
    move(y, run.burn)
    below = {"potential": torch.zeros(run.replicas), "spread": torch.zeros(run.replicas)}
    for _ in range(draws):
        move(y, run.steps)
        below["potential"] += model.potential(w, y) < model.potential(truth, y)
        below["spread"] += spread(w) < spread(truth)
    return below


def assert_uniform_ranks(found: Tensor, draws: int, *, rate: float, least: int) -> None:
    """Assert that ranks are uniform, by Pearson's test.

    Args:
        found: whole numbers from 0 to ``draws``.
        draws: the largest rank.
        rate: of false alarms.
        least: ranks that make this a test.
    """
    counts = torch.bincount(found.long(), minlength=draws + 1).double()
    expected = len(found) / (draws + 1)
    statistic = float(((counts - expected).square() / expected).sum())
    limit = float(stats.chi2.isf(rate, draws))
    assert statistic <= limit, f"ranks are not uniform: {statistic:.1f} > {limit:.1f}, {counts.tolist()}"
    assert len(found) >= least, f"blind: {len(found)} ranks, the test promises {least}"


def geweke(case: Case, scheme: str, run: Run, rounds: int) -> tuple[Tensor, Tensor]:
    """Weights and counts after rounds of drawing y given w and of taking steps given y, from the prior on.

    Args:
        case: the manifold.
        scheme: of the sampler.
        run: its numbers; ``run.steps`` make a round.
        rounds: how many.

    Returns:
        w, and the y of its last steps. Together they have the joint law if the sampler is right.
    """
    torch.manual_seed(run.seed)
    w = case.draw(run.replicas).clone()
    model, move = Model(case.shape), _sampler(case, scheme, run, w)
    y = model.observe(w)
    for _ in range(rounds):
        y = model.observe(w)
        move(y, run.steps)
    return w, y
