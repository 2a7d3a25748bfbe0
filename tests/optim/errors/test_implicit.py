"""Functions g that are unusable, lose rank, or have no zero within reach of a step."""

import math
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim.errors.words import colud, parameter, words
from tests.optim_db import (
    CONSTRAINTS,
    OBA,
    OPTIMIZERS,
    ConstraintCase,
    OptimizerCase,
    Problem,
    assert_identical,
    by_id,
    snapshot,
    train,
)


def twice_the_same(w: Tensor) -> Tensor:
    return torch.stack((w.square().sum() - 1, 2 * w.square().sum() - 2))


def cone(w: Tensor) -> Tensor:
    return w[0].square() - w[1].square()


@pytest.mark.parametrize(
    ("g", "values", "rank"),
    [(twice_the_same, (0.6, 0.8), "rank 1 for 2 components"), (cone, (0.0, 0.0), "rank 0 for 1 components")],
)
@pytest.mark.parametrize("kind", [cl.CoLod, cl.ConstrainedSGD, cl.CoLud])
def test_jacobian_that_loses_rank(
    kind: type[torch.optim.Optimizer], g: Callable[[Tensor], Tensor], values: tuple[float, ...], rank: str
) -> None:
    weight, other = parameter(*values), parameter(1.0)
    options = {"friction": 1.0} if kind is cl.CoLud else {}
    groups = [{"params": [("o", other)]}, {"params": [("w", weight)], "constraint": cl.Implicit(g)}]
    opt = kind(groups, 0.1, **options)
    weight.grad, other.grad = torch.ones(2), torch.ones(1)
    before = snapshot(opt)
    message = words("parameter 'w' (2,): Implicit(", f"its Jacobian has {rank} of g", "Drop redundant")
    with pytest.raises(cl.ConvergenceError, match=message):
        opt.step()
    assert_identical(snapshot(opt), before)


def test_jacobian_that_has_no_rank_where_a_weight_is_to_be_moved() -> None:
    message = words(
        "parameter 'w' (2,): Implicit(", "its Jacobian has rank 1 for 2 components", "Drop redundant"
    )
    with pytest.raises(cl.ConvergenceError, match=message):
        cl.constrain(nn.ParameterDict({"w": parameter(0.7, 0.8)}), {"w": cl.Implicit(twice_the_same)})


@pytest.mark.parametrize(
    ("optimizer", "constraint"),
    [(case, by_id("circle")) for case in OPTIMIZERS] + [(OBA, case) for case in CONSTRAINTS],
    ids=lambda case: case.id,
)
def test_step_that_cannot_land_changes_nothing(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    problem, hard = Problem(constraint, torch.float64), parameter(0.5, 0.5, dtype=torch.float64)
    alone: list[Tensor] = []  # once it holds a point, g is NaN everywhere else
    plane = {"params": [("hole", hard)], "constraint": cl.Implicit(nowhere_but(alone))}
    opt = optimizer.build([*problem.groups(), plane])
    hard.grad = torch.tensor([1.0, -1.0], dtype=torch.float64)
    train(problem, opt, 1)
    alone.append(hard.detach().clone())
    problem.backward()
    before = snapshot(opt)
    message = words("parameter 'hole' (2,): Implicit(", "no point with g = 0 was found", "reduce lr")
    with pytest.raises(cl.ConvergenceError, match=message):
        opt.step()
    assert_identical(snapshot(opt), before)


def nowhere_but(points: list[Tensor]) -> Callable[[Tensor], Tensor]:
    """The plane of entries that sum to 1. Once there are points, g is NaN everywhere else."""

    def g(w: Tensor) -> Tensor:
        away = sum(((w != point).any() for point in points), torch.zeros((), dtype=torch.bool))
        return (w.sum() - 1 + torch.where(away, math.nan, 0.0)).reshape(1)

    return g


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_shorter_and_shorter_steps_do_not_end_as_no_step(dtype: torch.dtype) -> None:
    weight = parameter(0.75, 0.25, dtype=dtype)
    opt = colud(weight, cl.Implicit(nowhere_but([weight.detach().float()])))
    weight.grad = torch.tensor([1.0, 0.0], dtype=dtype)
    before = snapshot(opt)
    message = words("parameter 'w' (2,)", "from a step of size 0.00", "halvings", "reduce lr")
    with pytest.raises(cl.ConvergenceError, match=message):
        opt.step()
    assert_identical(snapshot(opt), before)


def test_function_that_returns_no_tensor() -> None:
    message = words("Implicit(g=", "g returned float, not a tensor")
    with pytest.raises(cl.ConstraintError, match=message):
        colud(parameter(1.0), cl.Implicit(lambda w: 0.0))


@pytest.mark.parametrize("g", [3, None, "norm"])
def test_function_that_is_none(g: object) -> None:
    with pytest.raises(cl.ConstraintError, match=re.escape(f"g={g!r}: must be a function of the weight.")):
        cl.Implicit(g)
