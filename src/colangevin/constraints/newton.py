r"""Multipliers of a general constraint: Newton, the orthogonal form, then a shorter step.

All for a stack of parts, q of shape (parts, d), each with residual components of its own. A part that has
landed is left alone, so that its result does not depend on the others.
"""

from typing import Protocol

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.constraints.factor import Diagonal, Factor, rounding
from colangevin.constraints.linear import Dense, Linear
from colangevin.constraints.residual import Residual
from colangevin.errors import ConvergenceError

__all__ = ["Equations", "cotangent", "land", "linear"]

_NEWTON_ITERATIONS = 20
_ORTHOGONAL_ITERATIONS = 60
_HALVINGS = 40
# a step shorter than this many roundings of q is none
_SHORTEST = 1024.0
# g is met when it is no larger than what this many roundings of q can make of it
_ROUNDINGS = 32.0
# The Newton matrix is made anew for parts whose residual is not reduced to this by an iteration: each of the
# others gains more than a decimal.
_PROGRESS = 0.1
# Once g is met, iterations go on while each gains this: what is left then is rounding.
_POLISH = 0.5
# How far conjugate gradients go where a further iteration of Newton follows.
_INEXACT = 1e-3


class Equations(Protocol):
    """A residual, and its words in an error."""

    system: Residual

    @property
    def components(self) -> int:
        """How many components a part has."""

    def __str__(self) -> str: ...

    def component(self, part: int, values: Tensor) -> str:
        """The worst component of a part, given the values of all: ``g(w)[2] = 0.17``."""


def linear(g: Equations, q: Tensor) -> Linear:
    """The derivative at q.

    Args:
        g: the equations.
        q: where, shape (parts, d).

    Returns:
        The derivative.

    Raises:
        ConvergenceError: when J does not have full row rank, as far as it is formed.
    """
    return _regular(g, g.system.linear(q, g.components))


def cotangent(g: Equations, at: Linear, q: Tensor, p: Tensor) -> Tensor:
    r"""Orthogonal projection onto the kernel of J, :math:`p - J^T (J J^T)^{-1} J p`.

    Args:
        g: the equations.
        at: the derivative at q.
        q: where, shape (parts, d).
        p: momenta of the same shape.

    Returns:
        The projection.

    Raises:
        ConvergenceError: when J does not have full row rank.
    """
    # The first projection leaves rounding of p, and more where J J^T, whose condition number is the square of
    # J's, is far from regular. Of a p that is normal this is all that is left. The second one removes it.
    accuracy = torch.finfo(p.dtype).eps ** 0.5
    projected = p
    for _ in range(2):
        projected = projected + at.pull(-at.solve(at.push(projected), accuracy))
    if isinstance(at, Dense) or bool(projected.isfinite().all()) or not bool(p.isfinite().all()):
        return projected
    sharper = g.system.sharper(at, q)
    if sharper is None:
        raise ConvergenceError(
            f"{g}: conjugate gradients found no multipliers for its {g.components} components, and they are "
            "too many for a matrix. Scale them to similar sizes, and drop redundant ones."
        )
    return cotangent(g, _regular(g, sharper), q, p)


def land(g: Equations, at: Linear, q: Tensor, q_bar: Tensor) -> tuple[Tensor, Tensor]:
    r"""The points of the manifold for steps from ``q`` that aim at ``q_bar``.

    First :math:`q' = \bar q - J(q)^T \lambda` (Eq. 40), by Newton on :math:`\lambda`. Its matrix is
    :math:`J(q) J(q)^T` as long as that converges fast, then :math:`J(q') J(q)^T`. Then :math:`q' = \bar q -
    J(q')^T \lambda` (Eq. 41); then both again for half the step, and so on.

    Args:
        g: the equations.
        at: the derivative at q.
        q: where the steps start, on the manifold.
        q_bar: where they would end without the constraint.

    Returns:
        q', with g(q') = 0 up to rounding, and the pull q' - q_bar of the constraint. The pull comes from the
        multipliers, so that its rounding lies along the rows of J and a projection of momenta removes it.

    Raises:
        ConvergenceError: when J loses rank, or no shorter step lands on the manifold either.
    """
    landed, q_new, pull, slowest = _iterate(g, _Oblique(at), q_bar)
    fallbacks = 0
    if not bool(landed.all()):
        sharper = None if at.separate else g.system.sharper(at, q)
        at = at if sharper is None else _regular(g, sharper)
        fallbacks = int((~landed).sum())
        q_new, pull, slowest = _shortened(g, at, q, q_bar, (landed, q_new, pull))
    if solves.current.get():
        solves.note("Implicit", q.device, len(q), slowest, fallbacks)
    return q_new, pull


def _shortened(
    g: Equations, at: Linear, q: Tensor, q_bar: Tensor, found: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, int]:
    """Where parts land that Newton did not find at once: by either way, for shorter and shorter steps.

    Args:
        g: the equations.
        at: the derivative at q.
        q: where the steps start.
        q_bar: where they would end without the constraint.
        found: which parts have landed, where, and the pull that led there.

    Returns:
        Where all parts land, the pull, and the iterations of the slowest.

    Raises:
        ConvergenceError: when no shorter step lands either.
    """
    landed, q_new, pull = (each.clone() for each in found)
    slowest, step = 0, q_bar - q
    length = torch.linalg.vector_norm(step, dim=1)
    for halving in range(_HALVINGS):
        short = ~landed & (length * 0.5**halving <= _shortest(q))
        if halving and bool(short.any()):
            break  # a step of length 0 always lands, and would hide the failure
        for way in (_Oblique, _Orthogonal):
            rows = (~landed).nonzero().squeeze(1)
            aim = q[rows] + step[rows] * 0.5**halving
            there, q_there, pull_there, rounds = _iterate(g, way(at[rows]), aim)
            rows = rows[there]
            landed[rows], q_new[rows] = True, q_there[there]
            pull[rows] = pull_there[there] if not halving else q_there[there] - q_bar[rows]
            slowest = max(slowest, rounds)
            if bool(landed.all()):
                return q_new, pull, slowest
    worst = int((short if bool(short.any()) else ~landed).nonzero()[0])
    values = g.system.values(q_bar[worst : worst + 1])[0]
    raise ConvergenceError(
        f"{g}: no point with g = 0 was found from a step of size {float(length[worst]):.3g} "
        f"({g.component(worst, values)} there, {q.dtype}, {halving} halvings). Check that g is smooth near "
        "the weights and that they satisfy it, or reduce lr."
    )


def _shortest(q: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(q, dim=1)
    return _SHORTEST * torch.finfo(q.dtype).eps * length


class _Way(Protocol):
    """An iteration for multipliers."""

    iterations: int

    def look(self, g: Equations, q: Tensor, value: Tensor, going: Tensor) -> Tensor:
        """How far each part is from g = 0, in units of what rounding of q accounts for."""

    def multipliers(self, value: Tensor, lam: Tensor, q: Tensor, q_bar: Tensor) -> Tensor:
        """The next multipliers."""

    def pull(self, lam: Tensor) -> Tensor:
        """By how much multipliers move q_bar."""

    def result(self, lam: Tensor, pull: Tensor) -> Tensor:
        """What tells where the multipliers led: as little as is needed."""

    def pulls(self, results: Tensor) -> Tensor:
        """The pull of every part there was, from the results."""

    def keep(self, rows: Tensor) -> None:
        """Go on with some of the parts."""


class _Oblique:
    """Newton along the rows of the Jacobian at the start.

    Its matrix is that of the start. A part for which this once gains too little gets a new one from then on,
    in every iteration.
    """

    iterations = _NEWTON_ITERATIONS

    def __init__(self, start: Linear) -> None:
        self.start = self.whole = start
        self.tolerance = _tolerance(start)
        self.before: Tensor | None = None
        self.slow: Tensor | None = None  # parts that stay behind, and their matrices
        self.factor: Factor | Diagonal | None = None

    def look(self, g: Equations, q: Tensor, value: Tensor, going: Tensor) -> Tensor:
        excess = _excess(value, self.tolerance)
        start = self.start
        if self.before is not None and (isinstance(start, Dense) or start.separate):
            slow = going & (excess > 1) & ~(excess <= _PROGRESS * self.before)
            slow = slow if self.slow is None else slow | self.slow
            if bool(slow.any()):
                now, factor = _renewed(g, start[slow], q[slow])
                if factor is None:
                    start.separate = False
                else:
                    self.slow, self.factor = slow, factor
                    self.tolerance = self.tolerance.clone()
                    self.tolerance[slow] = _tolerance(now)
                    excess = _excess(value, self.tolerance)
        self.before = excess
        return excess

    def multipliers(self, value: Tensor, lam: Tensor, q: Tensor, q_bar: Tensor) -> Tensor:
        change = self.start.solve(value, _INEXACT)
        if self.slow is not None and self.factor is not None:
            change[self.slow] = self.factor.solve(value[self.slow])
        return lam + change

    def pull(self, lam: Tensor) -> Tensor:
        return self.start.pull(-lam)

    def result(self, lam: Tensor, pull: Tensor) -> Tensor:
        return lam

    def pulls(self, results: Tensor) -> Tensor:
        return self.whole.pull(-results)

    def keep(self, rows: Tensor) -> None:
        if self.slow is not None and self.factor is not None:
            self.factor = self.factor[(self.slow.cumsum(0) - 1)[rows][self.slow[rows]]]
            self.slow = self.slow[rows]
        self.start, self.tolerance = self.start[rows], self.tolerance[rows]
        self.before = None if self.before is None else self.before[rows]


def _renewed(g: Equations, start: Linear, q: Tensor) -> tuple[Linear, Factor | Diagonal | None]:
    """The derivative at q, and the Newton matrix there; None where it would have to be formed."""
    if isinstance(start, Dense):
        now = g.system.formed(q)
        return now, now.against(start)
    here = g.system.applied(q)
    return here, here.against(start)


class _Orthogonal:
    """Gauss-Newton for the nearest point, along the rows of the Jacobian at the end."""

    iterations = _ORTHOGONAL_ITERATIONS

    def __init__(self, start: Linear) -> None:
        self.now = start
        self.formed = isinstance(start, Dense)

    def look(self, g: Equations, q: Tensor, value: Tensor, going: Tensor) -> Tensor:
        self.now = g.system.formed(q) if self.formed else g.system.linear(q, g.components)
        return _excess(value, _tolerance(self.now))

    def multipliers(self, value: Tensor, lam: Tensor, q: Tensor, q_bar: Tensor) -> Tensor:
        # minimise |q' - q_bar| subject to the constraint linearised at q
        return self.now.solve(value + self.now.push(q_bar - q), _INEXACT)

    def pull(self, lam: Tensor) -> Tensor:
        return self.now.pull(-lam)

    def result(self, lam: Tensor, pull: Tensor) -> Tensor:
        return pull

    def pulls(self, results: Tensor) -> Tensor:
        return results

    def keep(self, rows: Tensor) -> None:
        self.now = self.now[rows]


def _iterate(g: Equations, way: _Way, q_bar: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    """Set q = q_bar - J^T lam until g is met, and further while that gains more than rounding.

    Returns:
        Which parts have landed, where, the pull that led there, and the iterations of the slowest.
    """
    whole, q, lam = q_bar, q_bar, q_bar.new_zeros(len(q_bar), g.components)
    pull = way.pull(lam)
    best = _Best(way.result(lam, pull))
    going, least = ~best.landed, q_bar.new_full((len(q),), torch.inf)
    rounds = 0
    while rounds < way.iterations:
        value = g.system.values(q)
        excess = way.look(g, q, value, going)
        better = going & (excess <= 1) & (excess < least)
        best.note(better, way.result(lam, pull))
        gained = excess <= _POLISH * least
        going = going & excess.isfinite() & (excess > 0) & (gained | (least > 1))
        least = torch.where(better, excess, least)
        left = int(going.sum())
        if not left:
            break
        if 2 * left <= len(q):  # copying some parts costs less than moving all
            rows = going.nonzero().squeeze(1)
            best.keep(rows)
            way.keep(rows)
            q_bar, q, lam, least, value, going = (x[rows] for x in (q_bar, q, lam, least, value, going))
        lam = way.multipliers(value, lam, q, q_bar)
        pull = way.pull(lam)
        q = q_bar + pull
        rounds += 1
    pull = way.pulls(best.results)
    return best.landed, whole + pull, pull, rounds


class _Best:
    """The best result for each part.

    Args:
        results: one for each part, none of which is good enough yet.
    """

    def __init__(self, results: Tensor) -> None:
        self.landed = torch.zeros(len(results), dtype=torch.bool, device=results.device)
        self.results = results
        self.rows: Tensor | None = None  # those that are looked at; None: all

    def keep(self, rows: Tensor) -> None:
        """Go on with some of those that are looked at."""
        self.rows = rows if self.rows is None else self.rows[rows]

    def note(self, better: Tensor, results: Tensor) -> None:
        """Take what is better of those that are looked at."""
        if self.rows is not None:
            self.landed = self.landed.index_fill(0, self.rows[better], True)
            self.results = self.results.index_copy(0, self.rows[better], results[better])
        else:
            self.landed = self.landed | better
            self.results = torch.where(better.unsqueeze(1), results, self.results)


def _tolerance(at: Linear) -> Tensor:
    """For each component of each part the size that rounding of q alone accounts for."""
    finfo = torch.finfo(at.scale.dtype)
    return _ROUNDINGS * finfo.eps * at.scale + finfo.tiny


def _excess(value: Tensor, tolerance: Tensor) -> Tensor:
    """The largest component of each part in units of its tolerance; infinite if it is NaN."""
    relative = value.abs() / tolerance
    largest = relative.squeeze(1) if relative.shape[1] == 1 else relative.amax(1)
    return largest.nan_to_num(nan=torch.inf, posinf=torch.inf)


def _regular(g: Equations, at: Linear) -> Linear:
    """A derivative that has been found to have full row rank, as far as it is formed."""
    if isinstance(at, Dense) and bool(at.singular.any()):
        part = int(at.singular.to(torch.int).argmax())
        raise ConvergenceError(_rank_words(g, part, at))
    return at


def _rank_words(g: Equations, part: int, at: Dense) -> str:
    rows = torch.nn.functional.normalize(at.matrix(part).double(), dim=1)
    # the factor of J J^T sees the square of J
    rank = int(torch.linalg.matrix_rank(rows, rtol=rounding(at.J.dtype, len(rows)) ** 0.5))
    return (
        f"{g}: its Jacobian has rank {rank} for {len(rows)} components of g, so the multipliers are not "
        "determined. Drop redundant components (of a symmetric matrix keep one triangle), and keep away "
        "from points where the gradient of g vanishes."
    )
