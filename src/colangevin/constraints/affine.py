r"""Affine sets: rows or columns that satisfy linear equations, $A \theta = b$."""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor

from colangevin.constraints.capabilities import EmbeddedCurvature
from colangevin.constraints.columns import Columns, Over, checked_over, lines
from colangevin.constraints.constraint import Constraint
from colangevin.constraints.forms import LevelForm
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.rows import left_by, precise, rows_of
from colangevin.constraints.stacks import plus, ratio
from colangevin.errors import ConstraintError, label

__all__ = ["Affine"]


class Planes(EmbeddedCurvature):
    """A plane for every row, which is its configuration; how its products round depends on all rows."""

    constraint: "Affine"

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        return lines(self.shape, "rows")

    @property
    def degrees_of_freedom(self) -> int:
        rows, n = self.configuration_shape
        return rows * (n - self.constraint.equations)

    def _origin(self, like: Tensor) -> Tensor:
        """The point of the plane that is nearest to 0."""
        return self.constraint.plane[1].to(like)

    def _normal(self, p: Tensor) -> Tensor:
        """What of p lies across the plane."""
        normals = self.constraint.plane[0].to(p)
        return (p @ normals.mT) @ normals

    def _off(self, q: Tensor) -> Tensor:
        """What leads from the plane to q."""
        return self._normal(q - self._origin(q))

    # ---- the weight and its rows -----------------------------------------------------------------

    def lift(self, weight: Tensor, near: Tensor | None = None) -> Tensor:
        rows = rows_of(weight)
        return self.project(rows, rows)

    def read(self, weight: Tensor) -> Tensor:
        return rows_of(weight)

    def lower(self, q: Tensor) -> Tensor:
        return q.reshape(q.shape[0], *self.shape)

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return rows_of(grad)

    # ---- moves -----------------------------------------------------------------------------------

    def tangent(self, q: Tensor, p: Tensor) -> Tensor:
        return left_by(lambda p: p - self._normal(p), p)

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        return self.project(q, plus(q, p, a)), p  # projected, or roundings would add up

    def project(self, q: Tensor, q_bar: Tensor) -> Tensor:
        return left_by(lambda q: q - self._off(q), q_bar)

    def curvature(self, q: Tensor) -> Tensor:
        return torch.zeros_like(q)

    # ---- feasibility -----------------------------------------------------------------------------

    def infeasibility(self, weight: Tensor) -> Tensor:
        rows = precise(rows_of(weight))
        size = torch.maximum(_length(rows), _length(self._origin(rows).expand_as(rows)))
        return ratio(_length(self._off(rows)), size).amax(1)

    def explain(self, weight: Tensor) -> str:
        over = self.constraint.over
        off = float(_length(self._off(precise(rows_of(weight)))).max())
        return (
            f"its {over} do not satisfy {self.constraint!r}: the farthest lies {off:.3g} off. Pass "
            "init='nearest' to colangevin.constrain, or to init_(weight) of the constraint: it moves the "
            f"{over} to the nearest that do."
        )

    def residual(self, weight: Tensor, q: Tensor) -> Tensor:
        return self.infeasibility(q)

    def cotangency(self, q: Tensor, p: Tensor) -> Tensor:
        return ratio(_length(self._normal(p)), _length(p)).amax(1)


class Levels(Planes):
    """The same for one equation with equal coefficients: rows of one mean, each of which moves alone."""

    independent = "rows"

    @property
    def _level(self) -> float:
        level = self.constraint.level(self.configuration_shape[1])
        assert level is not None
        return level

    @property
    def form(self) -> LevelForm:
        return LevelForm(self._level)

    def _origin(self, like: Tensor) -> Tensor:
        return like.new_full((), self._level)

    def _normal(self, p: Tensor) -> Tensor:
        return p.mean(-1, keepdim=True).expand_as(p)


def _length(rows: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(rows, dim=-1)
    return length


class Affine(Constraint):
    r"""Hold every row (or column) of a weight to linear equations, $A \theta = b$.

    Choose it for rows of zero mean (`Affine.mean(0.0)`, as weight standardisation has them), for rows that
    sum to 1 without being positive (`Affine.sum(1.0)`; with entries at 0 or above that is `Simplex`), or for
    any other equations: filters that ignore some patterns are $A\theta = 0$ with the patterns as rows of A.
    One number or tensor holds all rows.

    The configuration is the weight. Geodesics are straight lines, and
    $\Pi = I - A^T (A A^T)^{-1} A$ is the same everywhere. It is computed once, from an orthonormal basis of
    the rows of A. At $V = 0$ there is no normalisable law: the set is a plane. Under a loss L the law is
    $e^{-L/\tau}$ on this plane, a Gaussian if L is quadratic.

    Args:
        A: a vector for one equation, or a matrix with one equation a row. As many columns as a row (column)
            of the weight has entries.
        b: a number, or a vector with one entry an equation.
        over: `"rows"`, the slices along dimension 0, or `"columns"`, those along dimension 1 (an input, or
            an input channel), both flattened. A vector has one column: itself.

    Raises:
        ConstraintError: when A, b or `over` is none of these, holds NaN or Inf, or rows of A depend on each
            other.

    Examples:
        >>> cl.Affine.sum(1.0)
        Affine.sum(1)
        >>> model = nn.Linear(3, 2)
        >>> rules = {"weight": cl.Affine.mean(0.0), "bias": cl.Affine.sum(1.0, over="columns")}
        >>> groups = cl.constrain(model, rules)
        >>> torch.allclose(model.weight.mean(1), torch.zeros(2), atol=1e-6)
        True
        >>> first_equals_last = cl.Affine(torch.tensor([1.0, 0.0, -1.0]), 0.0)
        >>> first_equals_last.init_(torch.tensor([[0.25, 2.0, 0.75]]))
        tensor([[0.5000, 2.0000, 0.5000]])
    """

    def __init__(self, A: Tensor, b: float | Tensor, over: Over = "rows") -> None:
        self._over = checked_over(over)
        self._equal: tuple[Literal["sum", "mean"], float] | None = None
        self._A, self._b = _checked(A, b)
        #: orthonormal vectors that span the rows of A, as rows, and the solution nearest to 0
        self.plane: tuple[Tensor, Tensor] = _plane(self._A, self._b)

    @classmethod
    def sum(cls, total: float, over: Over = "rows") -> "Affine":
        """Rows (or columns) of any length that sum to a number.

        Args:
            total: the sum.
            over: `"rows"` or `"columns"`.

        Returns:
            The constraint.

        Raises:
            ConstraintError: when `total` is not finite, or for another `over`.
        """
        return cls._of_equal_entries("sum", total, "total", over)

    @classmethod
    def mean(cls, value: float, over: Over = "rows") -> "Affine":
        """Rows (or columns) of any length that have a number for their mean.

        Args:
            value: the mean.
            over: `"rows"` or `"columns"`.

        Returns:
            The constraint.

        Raises:
            ConstraintError: when `value` is not finite, or for another `over`.
        """
        return cls._of_equal_entries("mean", value, "value", over)

    @classmethod
    def _of_equal_entries(
        cls, kind: Literal["sum", "mean"], value: object, argument: str, over: object
    ) -> "Affine":
        made = cls.__new__(cls)
        made._over = checked_over(over)
        made._equal = kind, _number(value, argument)
        return made

    @property
    def over(self) -> Over:
        """What is held: rows or columns."""
        return self._over

    @property
    def equations(self) -> int:
        """How many equations hold each row (or column)."""
        return 1 if self._equal else self._A.shape[0]

    def level(self, entries: int) -> float | None:
        """The mean that the equations fix, if they fix that alone.

        Args:
            entries: of a row (or column).

        Returns:
            The mean, or None.
        """
        if self._equal:
            kind, value = self._equal
            return value / entries if kind == "sum" else value
        alike = self.equations == 1 and bool((self._A[0, 0] == self._A).all())
        return float(self._b[0] / self._A[0].sum()) if alike else None

    def __repr__(self) -> str:
        over = "" if self._over == "rows" else f", over={self._over!r}"
        if self._equal:
            return f"Affine.{self._equal[0]}({self._equal[1]:g}{over})"
        return f"Affine(A=tensor{tuple(self._A.shape)}, b=tensor{tuple(self._b.shape)}{over})"

    def describe(self) -> dict[str, Any]:
        equations = (self._equal,) if self._equal else (("A", self._A), ("b", self._b))
        return {"name": "Affine", **dict[str, Any](equations), "over": self._over}

    def on(self, shape: Sequence[int]) -> Manifold:
        entries = lines(shape, self._over)[1]
        # a weight without entries has no mean
        rows = Planes if entries and self.level(entries) is None else Levels
        return rows(self, tuple(shape)) if self._over == "rows" else Columns(self, tuple(shape), rows)

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        entries = lines(shape, self._over)[1]
        if not self._equal and entries != self._A.shape[1]:
            raise ConstraintError(
                f"{label(name, shape)}: A has {self._A.shape[1]} columns, and the {self._over} of the weight "
                f"have {entries} entries. Give A a column for each entry, or choose another over."
            )
        if 0 < entries <= self.equations:
            raise ConstraintError(
                f"{label(name, shape)}: {self.equations} equations leave nothing to move in {self._over} of "
                f"{entries} entries. Give fewer equations, or choose over='rows' or 'columns' such that "
                "there are more entries."
            )

    def check_range(self, shape: Sequence[int], dtype: torch.dtype, name: str = "weight") -> None:
        level = self.level(max(1, lines(shape, self._over)[1]))
        largest = float(self.plane[1].abs().max()) if level is None else abs(level)
        if largest > torch.finfo(dtype).max:
            raise ConstraintError(
                f"{label(name, shape)}: {self!r} asks for entries of {largest:.4g}, and a weight of {dtype} "
                f"holds at most {torch.finfo(dtype).max:.4g}. Choose a smaller right-hand side, or a wider "
                "dtype."
            )


def _checked(A: object, b: object) -> tuple[Tensor, Tensor]:
    """The equations as a matrix and a vector of float64."""
    if not isinstance(A, Tensor) or A.dim() not in (1, 2) or not A.numel():
        given = f"a tensor of shape {tuple(A.shape)}" if isinstance(A, Tensor) else repr(A)
        raise ConstraintError(
            f"A: {given}: must be a vector, for one equation, or a matrix with one equation a row. For sums "
            "and means there are Affine.sum(total) and Affine.mean(value)."
        )
    matrix = A.detach().to("cpu", torch.float64, copy=True).reshape(-1, A.shape[-1])
    count = matrix.shape[0]
    if isinstance(b, Tensor) and b.dim():
        vector = b.detach().to("cpu", torch.float64, copy=True)
    else:
        number = _number(b.item() if isinstance(b, Tensor) else b, "b")
        vector = torch.full((count,), number, dtype=torch.float64, device="cpu")
    if vector.shape != (count,):
        raise ConstraintError(
            f"b: a tensor of shape {tuple(vector.shape)}: must be a number, or have one entry for each of "
            f"the {count} equations of A."
        )
    for name, value in (("A", matrix), ("b", vector)):
        if not bool(value.isfinite().all()):
            raise ConstraintError(f"{name}: holds NaN or Inf; give finite numbers.")
    return matrix, vector


def _plane(A: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal vectors that span the rows of A, as rows, and the solution of A x = b nearest to 0."""
    size = A.abs().amax(1).clamp_min(torch.finfo(A.dtype).tiny)  # so that units of equations do not matter
    A, b = A / size.unsqueeze(1), b / size
    rank = int(torch.linalg.matrix_rank(A))
    if rank < A.shape[0]:
        raise ConstraintError(
            f"A: its {A.shape[0]} rows have rank {rank}, so that some equations repeat or contradict others. "
            "Leave out those rows."
        )
    basis, triangle = torch.linalg.qr(A.mT)
    heights = torch.linalg.solve_triangular(triangle.mT, b.unsqueeze(1), upper=False)
    return basis.mT.contiguous(), (basis @ heights).squeeze(1)


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ConstraintError(f"{name}={value!r}: must be a finite number.")
    return float(value)
