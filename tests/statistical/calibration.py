r"""A Bayesian model on every manifold: a prior, and counts that are Poisson with rate exp(b + a·w).

The prior is the uniform law where that is a probability; else it has a factor that makes it one. The
posterior is skewed, so that a wrong sign cannot hide. Draw w from the prior and y from p(y | w). Given y, w
is then a draw of the posterior: simulation-based calibration rests on this. A sampler of w given y,
alternated with draws of y given w, keeps the prior of w: the test of Geweke rests on this.
"""

import math
from collections.abc import Callable

import torch
from scipy import stats
from torch import Tensor

from colangevin.native.library import library
from tests.statistical.priors import Case, Draw
from tests.statistical.sampling import Run, optimizer

__all__ = ["Model", "assert_uniform_ranks", "geweke", "ranks", "sampler", "spread"]


class Model:
    """The counts of many copies of a weight.

    Args:
        case: the constraint and the prior of the weight.
    """

    OBSERVED = 3
    OFFSET = 1.0

    def __init__(self, case: Case) -> None:
        n = math.prod(case.shape)
        angles = 1.0 + torch.arange(self.OBSERVED * n, dtype=torch.float64)
        directions = case.strength * torch.sin(1.7 * angles).reshape(self.OBSERVED, n)
        self.directions = -directions.abs() if case.falling else directions
        self.prior = case.prior

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
        """Of the potential and of the prior's."""
        return ((self.rates(w) - y) @ self.directions).reshape(w.shape) + self.prior(w)


def sampler(case: Case, scheme: str, run: Run, w: Tensor) -> Callable[[Tensor, int], None]:
    """What moves ``w`` by a number of steps, given y. It refuses any path but the one that users get."""
    model, opt = Model(case), optimizer(scheme, [w], case.constraint, 1.0, run)
    path = "Native" if case.native and library() is not None else "Plain"

    def move(y: Tensor, steps: int) -> None:
        for _ in range(steps):
            w.grad = model.gradient(w, y)
            opt.step()
            taken = {type(mover).__name__ for mover in opt._plan.movers}
            assert taken == {path}, f"steps took {taken}, not {path}"

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
    model, truth = Model(case), (draw or case.draw)(run.replicas)
    y = model.observe(truth)
    w = case.draw(run.replicas).clone()
    move = sampler(case, scheme, run, w)
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
    model, move = Model(case), sampler(case, scheme, run, w)
    y = model.observe(w)
    for _ in range(rounds):
        y = model.observe(w)
        move(y, run.steps)
    return w, y
