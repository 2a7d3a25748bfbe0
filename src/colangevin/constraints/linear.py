r"""The derivative of a residual at q: products with it, and solves with :math:`J J^T`.

A residual has components g of the weight w, the last of which may have slack: with :math:`g + \xi^2`, J is
:math:`(\partial g, 2 \xi)`. A part is a row of q = (w, xi), and every part has its own J.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from colangevin.constraints.factor import Diagonal, Factor, cholesky, lu
from colangevin.surroundings import full_precision

__all__ = ["Dense", "Linear", "MatrixFree", "sizes"]

# Parts so short are multiplied entry by entry: a call of BLAS for each would take longer.
_SHORT = 8
# Normal vectors that estimate the diagonal of J J^T, to a factor of 2: enough to precondition with.
_PROBES = 8
# Conjugate gradients that take longer give way to a matrix.
_ITERATIONS = 200


class Dense:
    """The derivative as one matrix for each part.

    Args:
        J: of g, shape (parts, m, n).
        xi: the slack of the last components, shape (parts, k).
        size: the largest entry of q in each part, shape (parts, 1).
    """

    #: whether J J^T is known to be diagonal without being formed
    separate = False

    def __init__(self, J: Tensor, xi: Tensor, size: Tensor, factor: Factor | None = None) -> None:
        self.J, self.xi, self.size = J, xi, size
        self._factor = factor

    @property
    def components(self) -> int:
        return self.J.shape[1]

    def __getitem__(self, rows: Tensor) -> "Dense":
        factor = None if self._factor is None else self._factor[rows]
        return Dense(self.J[rows], self.xi[rows], self.size[rows], factor)

    def matrix(self, part: int) -> Tensor:
        """J of one part with the columns of its slack, shape (m, n + k)."""
        slack = torch.nn.functional.pad(torch.diag(2 * self.xi[part]), (0, 0, self.slackless, 0))
        return torch.cat((self.J[part], slack), dim=1)

    @property
    def slackless(self) -> int:
        """How many components have no slack."""
        return self.components - self.xi.shape[1]

    def push(self, v: Tensor) -> Tensor:
        """J v, for a row v of each part."""
        n = self.J.shape[2]
        if self.components == 1:
            pushed = (self.J.squeeze(1) * v[:, :n]).sum(1, keepdim=True)
        else:
            pushed = (self.J @ v[:, :n].unsqueeze(2)).squeeze(2)
        return _plus_last(pushed, 2 * self.xi * v[:, n:])

    def pull(self, lam: Tensor) -> Tensor:
        """J^T lam."""
        one = self.components == 1  # then a product of every entry costs less than products of matrices
        pulled = self.J.squeeze(1) * lam if one else (lam.unsqueeze(1) @ self.J).squeeze(1)
        return _with_slack(pulled, self.xi, lam)

    def against(self, start: "Dense") -> Factor:
        """The Newton matrix, J here times the transpose of J at the start, ready to solve with."""
        return lu(_gram(self, start))

    @property
    def factor(self) -> Factor:
        """The matrix J J^T, ready to solve with."""
        if self._factor is None:
            self._factor = cholesky(_gram(self, self))
        return self._factor

    @property
    def singular(self) -> Tensor:
        """Which parts have a J without full row rank, up to rounding."""
        return self.factor.singular

    def solve(self, value: Tensor, accuracy: float = 0.0) -> Tensor:
        """The lam with J J^T lam = value; exact, whatever accuracy is asked for. NaN where J has no rank."""
        return self.factor.solve(value)

    @property
    def norms(self) -> Tensor:
        """The Euclidean norm of every row of J, shape (parts, m)."""
        return _plus_last(self.J.square().sum(2), 4 * self.xi.square()).sqrt()

    @property
    def scale(self) -> Tensor:
        """How far g moves when q moves by its own size, shape (parts, m)."""
        return _plus_last(self.J.abs().sum(2), 2 * self.xi.abs()) * self.size


class MatrixFree:
    """The derivative for one part with many components, by automatic differentiation of every product.

    Solves are conjugate gradients with the diagonal of J J^T as preconditioner. If J J^T is diagonal, as
    where every component has weights of its own, two products find that out and one iteration solves. A
    Newton matrix is looked at in the same way. The residual confirms both.

    Args:
        function: g of a flat weight.
        w: the weight, shape (1, n).
        xi: the slack of the last components, shape (1, k).
    """

    @full_precision
    def __init__(self, function: Callable[[Tensor], Tensor], w: Tensor, xi: Tensor) -> None:
        self.w, self.xi = w, xi
        value, self._vjp, *_ = torch.func.vjp(function, w[0])
        # J v is the derivative of the linear map lam -> J^T lam, applied to v. torch.func.jvp would import
        # TorchScript, which warns, and run g again for every product.
        self._jvp = torch.func.vjp(lambda lam: self._vjp(lam)[0], torch.zeros_like(value))[1]
        self.components = value.shape[0]
        alone = self._diagonal_against(self, value)
        #: of J J^T, shape (1, m); an estimate if there are other entries
        self.diagonal = self._squares(value) if alone is None else alone
        #: whether J J^T is diagonal and regular, and so are Newton matrices as far as they were looked at
        self.separate = alone is not None and bool((alone > 0).all())

    def __getitem__(self, rows: Tensor) -> "MatrixFree":
        return self  # of one part, nothing can be left out

    @full_precision
    def push(self, v: Tensor) -> Tensor:
        """J v, for a row v."""
        n = self.w.shape[1]
        pushed: Tensor = self._jvp(v[0, :n])[0]
        return _plus_last(pushed.detach().unsqueeze(0), 2 * self.xi * v[:, n:])

    @full_precision
    def pull(self, lam: Tensor) -> Tensor:
        """J^T lam."""
        pulled: Tensor = self._vjp(lam[0])[0]
        return _with_slack(pulled.detach().unsqueeze(0), self.xi, lam)

    def against(self, start: "MatrixFree") -> Diagonal | None:
        """The Newton matrix, J here times the transpose of J at the start, if it is diagonal."""
        diagonal = self._diagonal_against(start, self.diagonal[0])
        return None if diagonal is None else Diagonal(diagonal)

    def _diagonal_against(self, other: "MatrixFree", value: Tensor) -> Tensor | None:
        """The diagonal of J here times J^T there, shape (1, m); None if there are other entries."""
        draw = torch.Generator().manual_seed(0)  # the same in every call: a step is a function of its input
        found = []
        for _ in range(2):
            # not signs alone: two of them agree with two others every second time
            probe = (0.5 + torch.rand(1, self.components, generator=draw)).to(value)
            found.append(self.push(other.pull(probe)) / probe)
        first, second = found
        alike = (first - second).abs() <= torch.finfo(value.dtype).eps ** 0.5 * first.abs()
        return first if bool(alike.all()) else None

    def _squares(self, value: Tensor) -> Tensor:
        """The diagonal of J J^T to a factor of 2, shape (1, m)."""
        draw = torch.Generator().manual_seed(1)
        squares = torch.zeros(1, self.components).to(value)
        for _ in range(_PROBES):
            normal = torch.randn(1, self.w.shape[1] + self.xi.shape[1], generator=draw).to(self.w)
            squares += self.push(normal).square()
        return squares / _PROBES

    def solve(self, value: Tensor, accuracy: float = 0.0) -> Tensor:
        """The lam with J J^T lam = value up to an accuracy relative to it; NaN if that is not reached."""
        size, scale = torch.linalg.vector_norm(value), self.diagonal.clamp_min(torch.finfo(value.dtype).tiny)
        lam, left = torch.zeros_like(value), value
        along = steep = left / scale
        slope = (left * steep).sum()
        for _ in range(_ITERATIONS):
            if bool(torch.linalg.vector_norm(left) <= accuracy * size):
                return lam
            image = self.push(self.pull(along))
            rate = slope / (along * image).sum()
            lam, left = lam + rate * along, left - rate * image
            steep = left / scale
            before, slope = slope, (left * steep).sum()
            along = steep + (slope / before) * along
        return torch.full_like(value, torch.nan)

    @property
    def norms(self) -> Tensor:
        """The Euclidean norm of every row of J, shape (1, m)."""
        return self.diagonal.clamp_min(0).sqrt()

    @property
    def scale(self) -> Tensor:
        """How far g moves at most when q moves by its own size, shape (1, m)."""
        size = self.w.square().sum() + self.xi.square().sum()
        return self.norms * size.sqrt()


Linear = Dense | MatrixFree


def sizes(q: Tensor) -> Tensor:
    """The largest absolute entry of each part, shape (parts, 1)."""
    if q.shape[1] > _SHORT:
        norm: Tensor = torch.linalg.vector_norm(q, torch.inf, dim=1, keepdim=True)
        return norm
    columns: tuple[Tensor, ...] = q.abs().split(1, dim=1)
    return functools.reduce(torch.maximum, columns)


def _plus_last(values: Tensor, addend: Tensor) -> Tensor:
    """Values of all components plus something for the last of them, which have slack."""
    if not addend.shape[1]:
        return values
    first = values.shape[1] - addend.shape[1]
    return values + (torch.nn.functional.pad(addend, (first, 0)) if first else addend)


def _with_slack(pulled: Tensor, xi: Tensor, lam: Tensor) -> Tensor:
    """J^T lam from its part along the weight."""
    k = xi.shape[1]
    if not k:
        return pulled
    whole = torch.empty(len(pulled), pulled.shape[1] + k, dtype=pulled.dtype, device=pulled.device)
    whole[:, :-k] = pulled  # torch.cat copies row by row, which is slow if rows are short
    whole[:, -k:] = 2 * xi * lam[:, lam.shape[1] - k :]
    return whole


def _gram(one: Dense, other: Dense) -> Tensor:
    """J J^T of two derivatives of the same parts."""
    m, k = one.components, one.xi.shape[1]
    if m == 1:
        product = (one.J * other.J).sum(2, keepdim=True)
    elif one.J.shape[2] <= _SHORT:
        product = (one.J.unsqueeze(2) * other.J.unsqueeze(1)).sum(3)
    else:
        product = one.J @ other.J.mT
    if k:
        product.diagonal(dim1=1, dim2=2)[:, m - k :].add_(4 * one.xi * other.xi)
    return product
