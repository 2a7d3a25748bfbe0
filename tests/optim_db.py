"""The table behind the contract tests: every optimizer x every constraint, as torch's ``optim_db``.

An :class:`OptimizerCase` says how an optimizer is built, a :class:`ConstraintCase` which weight it holds. A
:class:`Problem` is a small model with one constrained weight and one free bias, whose loss is convex.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints.dtypes import state_dtype
from tests.core_only import Columns, Simplex, Symmetric

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

# Largest violation and cotangency error allowed after a step. State is float32 under half precision.
TOLERANCES = {
    torch.float64: 1e-13,
    torch.float32: 1e-5,
    torch.bfloat16: 1e-5,
    torch.float16: 1e-5,
}

#: optimizers without noise, whose steps depend on past gradients
PRECONDITIONED = (cl.ConstrainedAdam, cl.ConstrainedMuon)

NOISE = 0.01
SEED = 7


@dataclass(frozen=True)
class OptimizerCase:
    """One optimizer with its options."""

    id: str
    cls: type[torch.optim.Optimizer]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def noisy(self) -> bool:
        return self.options.get("temperature", 0) > 0

    @property
    def has_momentum(self) -> bool:
        return self.cls is cl.CoLud or self.preconditioned or self.options.get("momentum", 0) > 0

    @property
    def preconditioned(self) -> bool:
        return self.cls in PRECONDITIONED

    def build(self, params: Any, **overrides: Any) -> torch.optim.Optimizer:
        return self.cls(params, **{**self.options, **overrides})


@dataclass(frozen=True)
class ConstraintCase:
    """One constraint on a weight of one shape; ``sample`` gives a feasible weight in float64."""

    id: str
    constraint: cl.Constraint
    sample: Callable[[torch.Generator], Tensor]

    def weight(self, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
        """A feasible weight; another seed gives another one."""
        return self.sample(torch.Generator().manual_seed(seed)).to(dtype)

    @property
    def manifold(self) -> cl.constraints.Manifold:
        """That of the weight's shape."""
        return self.constraint.on(self.weight().shape)


def sphere_and_plane(w: Tensor) -> Tensor:
    """The circle in which a sphere of radius sqrt(2) meets the plane of zero mean: two components."""
    return torch.stack((w.square().sum() - 2, w.sum()))


def rows_in_balls(w: Tensor) -> Tensor:
    """Rows of norm at most 1.2, one component a row."""
    return w.square().sum(1) - 1.44


def sums_to_one(row: Tensor) -> Tensor:
    """A row on a plane: one component."""
    return row.sum() - 1


def within_one(entry: Tensor) -> Tensor:
    """An entry of size at most 1."""
    return entry.square() - 1


def _normal(*shape: int) -> Callable[[torch.Generator], Tensor]:
    return lambda g: torch.randn(shape, generator=g, dtype=torch.float64)


def _uniform(bound: float | Tensor, *shape: int) -> Callable[[torch.Generator], Tensor]:
    return lambda g: bound * (2 * torch.rand(shape, generator=g, dtype=torch.float64) - 1)


def _rows(low: float, high: float, *shape: int) -> Callable[[torch.Generator], Tensor]:
    """Rows in random directions with norms between two bounds."""

    def sample(g: torch.Generator) -> Tensor:
        flat = torch.randn(shape, generator=g, dtype=torch.float64).flatten(1)
        norms = low + (high - low) * torch.rand(shape[0], 1, generator=g, dtype=torch.float64)
        return (norms * nn.functional.normalize(flat)).reshape(shape)

    return sample


def _inputs(low: float, high: float, *shape: int) -> Callable[[torch.Generator], Tensor]:
    """The same along dimension 1."""
    return lambda g: _rows(low, high, shape[1], shape[0], *shape[2:])(g).transpose(0, 1).contiguous()


def _matrix(norm: float, *shape: int) -> Callable[[torch.Generator], Tensor]:
    """A weight of one Frobenius norm."""
    return lambda g: _rows(norm, norm, 1, *shape)(g)[0]


def _orthogonal(*shape: int) -> Callable[[torch.Generator], Tensor]:
    return lambda g: nn.init.orthogonal_(torch.empty(shape, dtype=torch.float64), generator=g)


def _blocks(scale: float, *shape: int) -> Callable[[torch.Generator], Tensor]:
    """Matrices along dimension 0, one below the other."""
    return lambda g: scale * torch.cat([_orthogonal(*shape[1:])(g) for _ in range(shape[0])])


def _transposed(*shape: int) -> Callable[[torch.Generator], Tensor]:
    """A kernel whose dimension 1 counts the outputs."""
    return lambda g: _orthogonal(*shape)(g).transpose(0, 1).contiguous()


def _on_sphere_and_plane(g: torch.Generator) -> Tensor:
    w = torch.randn(2, 3, generator=g, dtype=torch.float64)
    w = w - w.mean()
    return w * (2**0.5 / w.norm())


def _rows_on_sphere_and_plane(g: torch.Generator) -> Tensor:
    w = torch.randn(4, 3, generator=g, dtype=torch.float64)
    return 2**0.5 * nn.functional.normalize(w - w.mean(1, keepdim=True), dim=1)


def _symmetric(n: int) -> Callable[[torch.Generator], Tensor]:
    return lambda g: (lambda w: w + w.mT)(torch.randn(n, n, generator=g, dtype=torch.float64))


def _columns(length: float, *shape: int) -> Callable[[torch.Generator], Tensor]:
    return lambda g: length * nn.functional.normalize(_normal(*shape)(g), dim=0)


def _simplex(*shape: int, dim: int = -1) -> Callable[[torch.Generator], Tensor]:
    return lambda g: torch.softmax(_normal(*shape)(g), dim=dim)


def _nearest(constraint: cl.Constraint, *shape: int) -> Callable[[torch.Generator], Tensor]:
    return lambda g: constraint.init_(_normal(*shape)(g))


EQUATIONS = cl.Affine(torch.tensor([[1.0, 1.0, 2.0], [0.0, 1.0, -1.0]]), torch.tensor([1.0, 0.5]))
SUM_OF_COLUMNS = cl.Affine.sum(1.0, over="columns")
RADII = torch.tensor([0.3, 0.6, 1.2])

CONSTRAINTS = (
    ConstraintCase("free", cl.Free(), _normal(4, 3)),
    ConstraintCase("circle", cl.Circle(0.5), _uniform(0.45, 4, 3)),
    ConstraintCase("circle-radii", cl.Circle(RADII), _uniform(0.9 * RADII.double(), 4, 3)),
    ConstraintCase("sphere-slack", cl.Sphere(1.5), _rows(0.2, 1.4, 4, 2, 3)),
    ConstraintCase("sphere", cl.Sphere(1.5, slack=False), _rows(1.5, 1.5, 4, 3)),
    ConstraintCase("sphere-columns", cl.Sphere(1.5, over="columns"), _inputs(0.2, 1.4, 4, 2, 3)),
    ConstraintCase("sphere-matrix", cl.Sphere(1.5, slack=False, over="matrix"), _matrix(1.5, 4, 3)),
    ConstraintCase("sphere-matrix-slack", cl.Sphere(1.5, over="matrix"), _matrix(1.2, 4, 2, 3)),
    ConstraintCase("orthogonal-tall", cl.Orthogonal(), _orthogonal(6, 3)),
    ConstraintCase("orthogonal-wide", cl.Orthogonal(), _orthogonal(3, 6)),
    ConstraintCase("orthogonal-square", cl.Orthogonal(), _orthogonal(4, 4)),
    ConstraintCase("orthogonal-conv", cl.Orthogonal(), _orthogonal(4, 2, 3, 3)),
    ConstraintCase("orthogonal-blocks", cl.Orthogonal(1.5, blocks=2), _blocks(1.5, 2, 3, 4)),
    ConstraintCase("orthogonal-transposed", cl.Orthogonal(transposed=1), _transposed(3, 4, 2)),
    ConstraintCase("implicit", cl.Implicit(sphere_and_plane), _on_sphere_and_plane),
    ConstraintCase("implicit-slack", cl.Implicit(rows_in_balls, inequality=True), _rows(0.2, 1.1, 2, 3)),
    ConstraintCase("affine", EQUATIONS, _nearest(EQUATIONS, 4, 3)),
    ConstraintCase("affine-mean", cl.Affine.mean(0.0), _nearest(cl.Affine.mean(0.0), 4, 3)),
    ConstraintCase("affine-columns", SUM_OF_COLUMNS, _nearest(SUM_OF_COLUMNS, 3, 4, 2)),
    ConstraintCase("symmetric", cl.Symmetric(), _symmetric(3)),
    ConstraintCase("nonnegative", cl.NonNegative(), lambda g: _normal(4, 3)(g).abs()),
    ConstraintCase("simplex", cl.Simplex(), _simplex(4, 3)),
    ConstraintCase("simplex-columns", cl.Simplex(over="columns"), _simplex(4, 3, dim=0)),
    ConstraintCase("implicit-rows", cl.Implicit(sphere_and_plane, over="rows"), _rows_on_sphere_and_plane),
    ConstraintCase(
        "implicit-simplex", cl.Implicit(sums_to_one, nonpositive=torch.neg, over="rows"), _simplex(4, 3)
    ),
    ConstraintCase(
        "implicit-entries",
        cl.Implicit(within_one, inequality=True, over="entries"),
        _uniform(0.9, 4, 3),
    ),
    ConstraintCase("core-symmetric", Symmetric(), _symmetric(3)),
    ConstraintCase("core-columns", Columns(1.5), _columns(1.5, 4, 3)),
    ConstraintCase("core-simplex", Simplex(), _simplex(4, 3)),
)


def _optimizers() -> tuple[OptimizerCase, ...]:
    schemes = (
        ("colod", cl.CoLod, {"lr": 0.05}),
        ("colud-OBA", cl.CoLud, {"lr": 0.2, "friction": 1.0, "splitting": "OBA"}),
        ("colud-BOA", cl.CoLud, {"lr": 0.2, "friction": 1.0, "splitting": "BOA"}),
        ("colud-BAOAB", cl.CoLud, {"lr": 0.2, "friction": 1.0, "splitting": "BAOAB"}),
        ("sgd", cl.ConstrainedSGD, {"lr": 0.05}),
        ("sgd-momentum", cl.ConstrainedSGD, {"lr": 0.05, "momentum": 0.9}),
    )
    sampling = tuple(
        OptimizerCase(id + suffix, cls, {**options, "temperature": temperature, "seed": SEED})
        for id, cls, options in schemes
        for suffix, temperature in (("", 0.0), ("-noisy", NOISE))
    )
    return (
        *sampling,
        OptimizerCase("adam", cl.ConstrainedAdam, {"lr": 0.05}),
        OptimizerCase("muon", cl.ConstrainedMuon, {"lr": 0.05}),
    )


OPTIMIZERS = _optimizers()


def kept_in(
    optimizer: type[torch.optim.Optimizer], constraint: cl.Constraint, dtype: torch.dtype
) -> torch.dtype:
    """The dtype of the state: torch's own of free weights under Adam and Muon, but for float16."""
    as_torch = optimizer in PRECONDITIONED and isinstance(constraint, cl.Free) and dtype != torch.float16
    return dtype if as_torch else state_dtype(dtype)


class Problem(nn.Module):
    """A constrained ``weight`` and a free ``bias``, pulled towards targets off the manifold."""

    def __init__(self, case: ConstraintCase, dtype: torch.dtype = torch.float32, seed: int = 0) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(1000 + seed)
        self.constraint = case.constraint
        self.weight = nn.Parameter(case.weight(dtype, seed))
        self.bias = nn.Parameter(torch.randn(3, generator=g, dtype=torch.float64).to(dtype))
        shape = self.weight.shape
        self.register_buffer("target", torch.randn(shape, generator=g, dtype=torch.float64).to(dtype))

    def forward(self) -> Tensor:
        return 0.5 * ((self.weight - self.target).square().sum() + self.bias.square().sum())

    def groups(self) -> list[dict[str, Any]]:
        """Plain groups with named parameters."""
        return [
            {"params": [("weight", self.weight)], "constraint": self.constraint},
            {"params": [("bias", self.bias)]},
        ]

    def backward(self) -> None:
        """Fresh gradients of the loss."""
        self.zero_grad()
        self().backward()


def start(
    optimizer: OptimizerCase, constraint: ConstraintCase, dtype: torch.dtype = torch.float32, **overrides: Any
) -> tuple[Problem, torch.optim.Optimizer]:
    """A fresh problem and its optimizer."""
    problem = Problem(constraint, dtype)
    return problem, optimizer.build(problem.groups(), **overrides)


def train(problem: Problem, optimizer: torch.optim.Optimizer, steps: int) -> None:
    """Ordinary training steps; every one of them has to leave weights and momenta feasible."""
    for _ in range(steps):
        problem.backward()
        optimizer.step()
        check_feasible(optimizer)


def check_feasible(optimizer: torch.optim.Optimizer) -> None:
    """g(q) = 0, J p = 0, everything finite."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    tolerance = max(TOLERANCES[p.dtype] for p in parameters)
    # of an implicit constraint it is g itself, which rounding moves by |J| |w|, up to 10 here
    implicit = any(isinstance(group["constraint"], cl.Implicit) for group in optimizer.param_groups)
    assert max(cl.diagnostics.violation(optimizer).values()) <= (10 if implicit else 1) * tolerance
    assert max(cl.diagnostics.cotangency(optimizer).values(), default=0.0) <= tolerance
    for parameter in parameters:
        tensors = [parameter, *(v for v in optimizer.state.get(parameter, {}).values() if torch.is_tensor(v))]
        assert all(bool(t.isfinite().all()) for t in tensors)


def snapshot(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Weights, state and options, copied; a parameter whose state is empty has none."""
    weights = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    saved = optimizer.state_dict()
    state = {key: each for key, each in saved["state"].items() if each}
    return _copied({"weights": weights, "state": state, "param_groups": saved["param_groups"]})


def _copied(value: Any) -> Any:
    if torch.is_tensor(value):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list | tuple) else value


def assert_identical(one: Any, other: Any, path: str = "") -> None:
    """Bit for bit, dtypes and structure included."""
    assert type(one) is type(other), path
    if torch.is_tensor(one):
        assert one.dtype == other.dtype, path
        assert torch.equal(one, other), f"{path}: differs by {(one - other).abs().max():.3g}"
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            assert_identical(one[key], other[key], f"{path}[{key!r}]")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), path
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_identical(a, b, f"{path}[{i}]")
    else:
        assert one == other, path


each_optimizer = pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda case: case.id)
each_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda case: case.id)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))


def by_id(id: str) -> ConstraintCase | OptimizerCase:
    """A row of the table."""
    return next(case for case in (*CONSTRAINTS, *OPTIMIZERS) if case.id == id)


OBA = by_id("colud-OBA")


def whole_table(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test on every optimizer with every constraint."""
    return each_optimizer(each_constraint(test))
