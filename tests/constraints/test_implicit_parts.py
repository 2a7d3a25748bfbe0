"""A g of one row, column or entry: all are solved for at once, and none knows of the others."""

import re

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.diagnostics import Monitor
from tests.constraints.implicit_runs import assert_same, normal, run_noisily

LEVEL = 0.7


def sum_and_norm(part: Tensor) -> Tensor:
    return torch.stack((part.sum() - 1, part.square().sum() - 2))


def in_ball(part: Tensor) -> Tensor:
    return part.square().sum() - 2


def negative(entry: Tensor) -> Tensor:
    return -entry


def between(entry: Tensor) -> Tensor:
    return torch.stack((-entry, entry - LEVEL))


def on_rows(w: Tensor) -> Tensor:
    return torch.stack([sum_and_norm(row.reshape(-1)) for row in w])


def on_columns(w: Tensor) -> Tensor:
    return torch.stack([sum_and_norm(column.reshape(-1)) for column in w.unbind(1)])


def rows_in_balls(w: Tensor) -> Tensor:
    return torch.stack([in_ball(row.reshape(-1)) for row in w])


def columns_in_balls(w: Tensor) -> Tensor:
    return torch.stack([in_ball(column.reshape(-1)) for column in w.unbind(1)])


# the same constraint of parts and of the whole weight, and a weight to start from
TWINS: dict[str, tuple[cl.Implicit, cl.Implicit, tuple[int, ...], float]] = {
    "rows": (cl.Implicit(sum_and_norm, over="rows"), cl.Implicit(on_rows), (3, 2, 3), 1.0),
    "columns": (cl.Implicit(sum_and_norm, over="columns"), cl.Implicit(on_columns), (3, 2, 3), 1.0),
    "rows in balls": (
        cl.Implicit(in_ball, inequality=True, over="rows"),
        cl.Implicit(rows_in_balls, inequality=True),
        (4, 3),
        0.3,
    ),
    "columns in balls": (
        cl.Implicit(in_ball, inequality=True, over="columns"),
        cl.Implicit(columns_in_balls, inequality=True),
        (3, 4, 2),
        0.2,
    ),
}


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("method", ["colod", "colud", "sgd"])
def test_parts_move_as_the_whole_weight_does(name: str, method: str) -> None:
    parts, whole, shape, size = TWINS[name]
    start = parts.init_(size * normal(1, *shape))
    assert_same(whole.init_(start.clone(), init="keep"), start, 0)
    ends = []
    for constraint in (parts, whole):
        weight = Parameter(start.clone())
        group = {"params": [weight], "constraint": constraint}
        if method == "colod":
            optimizer = cl.CoLod([group], 0.02)
        elif method == "colud":
            optimizer = cl.CoLud([group], 0.1, friction=1.0, splitting="BAOAB")
        else:
            optimizer = cl.ConstrainedSGD([group], 0.02, 0.9)
        run_noisily(optimizer, 20, 1e-13)
        ends.append(weight.detach())
    assert_same(ends[0], ends[1], 1e-11)
    assert float((ends[0] - start).norm()) > 0.05


@pytest.mark.parametrize("over", ["rows", "columns", "entries", "weight"])
@pytest.mark.parametrize("shape", [(), (3,), (3, 2), (2, 3, 2)])
def test_g_sees_its_part_and_weights_come_back(over: str, shape: tuple[int, ...]) -> None:
    seen: list[tuple[int, ...]] = []

    def low(part: Tensor) -> Tensor:
        seen.append(tuple(part.shape))
        return part.square().sum() - 100

    constraint = cl.Implicit(low, inequality=True, over=over)
    if over == "columns" and len(shape) < 2:
        message = (
            rf"parameter 'weight' {re.escape(str(shape))}: Implicit.*over='columns'.*2 dimensions at least"
        )
        with pytest.raises(cl.ConstraintError, match=message):
            constraint.init_(torch.zeros(shape))
        return
    weight = normal(3, 2, *shape)
    manifold = constraint.on(shape)
    assert_same(manifold.lower(manifold.lift(weight)), weight)
    n = weight[0].numel()
    sizes = {
        "weight": shape,
        "entries": (),
        "rows": (n // shape[0] if shape else 1,),
        "columns": (n // shape[1],) if len(shape) > 1 else (),
    }
    assert set(seen) == {sizes[over]}


def test_a_column_is_a_slice_along_the_second_dimension() -> None:
    weight = torch.arange(12.0).reshape(2, 3, 2)
    constraint = cl.Implicit(lambda column: column.sum(), over="columns")
    assert constraint.violation(weight) == float(weight.sum((0, 2)).max())
    message = r"<lambda>\(column 2\)\[0\] = 30, must be 0"
    with pytest.raises(cl.InfeasibleError, match=message):
        constraint.check(weight)


@pytest.mark.parametrize("g", [negative, between])
def test_entries_stay_within_their_bounds(g: object) -> None:
    constraint = cl.Implicit(g, inequality=True, over="entries")
    weight = Parameter(0.1 + 0.3 * torch.rand(4, 5, generator=torch.Generator().manual_seed(0)).double())
    optimizer = cl.CoLud(
        [{"params": [weight], "constraint": constraint}], 0.2, friction=1.0, temperature=0.05, seed=3
    )
    path = torch.stack(run_noisily(optimizer, 100, 1e-14))
    assert float(path.min()) >= -1e-15
    assert float(path.min()) < 0.01, "the bound was never approached"
    if g is between:
        assert float(path.max()) <= LEVEL + 1e-15


def test_a_row_does_not_depend_on_the_others_of_its_weight() -> None:
    """One row takes a step so long that it has to be halved; the others do as they would without it."""
    constraint = cl.Implicit(sum_and_norm, over="rows")
    start = constraint.init_(normal(4, 5, 4))
    grad = normal(5, 5, 4)
    grad[2] *= 1e5
    ends = []
    for rows in (slice(None), [0, 1, 3, 4]):
        weight = Parameter(start[rows].clone())
        optimizer = cl.CoLod([{"params": [weight], "constraint": constraint}], 0.05)
        weight.grad = grad[rows].clone()
        optimizer.step()
        ends.append(weight.detach())
        assert constraint.violation(weight.detach()) <= 1e-13
    assert torch.equal(ends[0][[0, 1, 3, 4]], ends[1])


def test_parts_that_take_another_way_are_counted() -> None:
    constraint = cl.Implicit(sum_and_norm, over="rows")
    weight = Parameter(constraint.init_(normal(4, 5, 4)))
    optimizer = cl.CoLod([{"params": [weight], "constraint": constraint}], 0.05)
    monitor = Monitor(optimizer)
    monitor.record()
    weight.grad = normal(5, 5, 4)
    weight.grad[2] *= 1e5
    optimizer.step()
    found = monitor._solves.of("Implicit")
    assert found.weights == 10, "five rows in each of two calls"
    assert found.fallbacks == 1


def test_replicas_of_parts_move_as_they_would_alone() -> None:
    constraint = cl.Implicit(in_ball, inequality=True, over="rows")
    start = constraint.init_(0.2 * normal(6, 3, 4, 3), replicas=True)
    together = Parameter(start.clone())
    alone = [Parameter(each.clone()) for each in start]
    groups = [{"params": [together], "constraint": constraint, "replicas": 3}]
    optimizers = [cl.CoLud(groups, 0.1, friction=0.5)]
    optimizers += [
        cl.CoLud([{"params": [each], "constraint": constraint}], 0.1, friction=0.5) for each in alone
    ]
    for step in range(10):
        together.grad = normal(90 + step, *start.shape)
        for parameter, grad in zip(alone, together.grad, strict=True):
            parameter.grad = grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    assert_same(together.detach(), torch.stack([each.detach() for each in alone]), 1e-14)


def test_what_moves_alone_of_a_sharded_weight() -> None:
    found = {over: cl.Implicit(negative, True, over=over).on((2, 3)).independent for over in OVERS}
    assert found == {"weight": None, "rows": "rows", "columns": None, "entries": "entries"}


OVERS = ("weight", "rows", "columns", "entries")


def test_degrees_of_freedom_are_those_of_all_parts() -> None:
    assert cl.Implicit(sum_and_norm, over="rows").on((3, 4)).degrees_of_freedom == 3 * (4 - 2)
    assert cl.Implicit(in_ball, True, over="columns").on((3, 4)).degrees_of_freedom == 12
    assert cl.Implicit(between, True, over="entries").on((3, 4)).degrees_of_freedom == 12
    assert cl.Implicit(between, True, over="entries").on((3, 4)).configuration_shape == (3, 4, 3)


# ---- errors --------------------------------------------------------------------------------------


def test_an_unknown_part_is_refused() -> None:
    message = re.escape("over='row': must be one of 'weight', 'rows', 'columns', 'entries'.")
    with pytest.raises(cl.ConstraintError, match=message):
        cl.Implicit(negative, over="row")


def test_a_row_that_is_off_is_named() -> None:
    weight = torch.full((4, 5), 0.2)
    weight[2, 1] = 0.4
    message = r"<lambda>\(row 2\)\[0\] = 0\.2, must be 0; that is 0\.1 of how far it moves with the weight"
    with pytest.raises(cl.InfeasibleError, match=message):
        cl.Implicit(lambda row: row.sum() - 1, over="rows").check(weight)


def test_an_entry_that_is_off_is_named() -> None:
    weight = torch.ones(2, 3, 4)
    weight[1, 0, 2] = -0.5
    with pytest.raises(cl.InfeasibleError, match=r"negative\(entry \(1, 0, 2\)\)\[0\] = 0\.5, must be <= 0"):
        cl.Implicit(negative, inequality=True, over="entries").check(weight)


def test_a_g_that_cannot_be_batched_says_what_to_do() -> None:
    def g(row: Tensor) -> Tensor:
        return row.sum() - 1 if row.sum() > 0 else row.sum()

    message = r"Implicit\(.*over='rows'\): g cannot be batched over parts of the weight .*pass over='weight'"
    with pytest.raises(cl.ConstraintError, match=message):
        cl.Implicit(g, over="rows").check(torch.ones(2, 3))


def test_a_row_whose_jacobian_loses_rank_is_an_error() -> None:
    weight = Parameter(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    constraint = cl.Implicit(lambda row: row[0] * row[1], over="rows")
    optimizer = cl.CoLod([{"params": [("w", weight)], "constraint": constraint}], 0.1)
    weight.grad = torch.ones(2, 2)
    with pytest.raises(cl.ConvergenceError, match=r"parameter 'w' .*Jacobian has rank 0 for 1 components"):
        optimizer.step()
    assert torch.equal(weight, torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
