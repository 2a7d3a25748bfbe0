"""Errors of the affine, symmetric, non-negative and simplex constraints."""

import re

import pytest
import torch
from torch import nn

import colangevin as cl

NAN = float("nan")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cl.Affine(1.0, 1.0), "A: 1.0: must be a vector, .* Affine.sum"),
        (lambda: cl.Affine(torch.ones(2, 2, 2), 1.0), r"A: a tensor of shape \(2, 2, 2\): must be a vector"),
        (lambda: cl.Affine(torch.tensor([1.0, NAN]), 1.0), "A: holds NaN or Inf; give finite numbers"),
        (lambda: cl.Affine(torch.ones(3), torch.tensor([torch.inf])), "b: holds NaN or Inf"),
        (lambda: cl.Affine(torch.ones(3), torch.ones(2)), r"b: a tensor of shape \(2,\): .*the 1 equations"),
        (lambda: cl.Affine(torch.ones(3), "1"), "b='1': must be a finite number"),
        (lambda: cl.Affine(torch.ones(2, 3), 0.0), "A: its 2 rows have rank 1, .*Leave out those rows"),
        (lambda: cl.Affine(torch.zeros(3), 0.0), "A: its 1 rows have rank 0"),
        (lambda: cl.Affine(torch.ones(3), 0.0, over="row"), "over='row': must be 'rows' or 'columns'"),
        (lambda: cl.Affine.sum(NAN), "total=nan: must be a finite number"),
        (lambda: cl.Affine.mean(True), "value=True: must be a finite number"),
        (lambda: cl.Affine.mean(0.0, over=1), "over=1: must be 'rows' or 'columns'"),
        (lambda: cl.Simplex(over="all"), "over='all': must be 'rows' or 'columns'"),
    ],
)
def test_a_constraint_that_means_nothing(make: object, message: str) -> None:
    with pytest.raises(cl.ConstraintError, match=message):
        make()


@pytest.mark.parametrize(
    ("constraint", "shape", "message"),
    [
        (cl.Affine(torch.ones(3), 1.0), (2, 4), r"\(2, 4\): A has 3 columns, and the rows .* have 4 entries"),
        (
            cl.Affine(torch.ones(3), 1.0, over="columns"),
            (2, 3),
            "A has 3 columns, and the columns .* 2 entries. Give A a column for each entry",
        ),
        (cl.Affine.sum(1.0), (5,), "1 equations leave nothing to move in rows of 1 entries.*over='rows' or"),
        (cl.Simplex(), (5,), "its rows have one entry each, .* hold at 1. Leave the weight free, or choose"),
        (cl.Simplex(over="columns"), (1, 5), "its columns have one entry each"),
        (cl.Symmetric(), (3, 4), r"\(3, 4\): Symmetric needs a square matrix, .*Leave this weight free"),
        (cl.Symmetric(), (4,), "Symmetric needs a square matrix"),
        (cl.Symmetric(), (3, 3, 1), "Symmetric needs a square matrix"),
    ],
)
def test_a_shape_that_cannot_be_held(constraint: cl.Constraint, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(cl.ConstraintError, match="parameter 'w' .*" + message):
        constraint.check(torch.zeros(shape), name="w")


def test_entries_beyond_the_dtype() -> None:
    with pytest.raises(
        cl.ConstraintError, match=r"asks for entries of 5e\+05, .*float16 holds at most 6.55e"
    ):
        cl.Affine.sum(1e6).check(torch.zeros(2, 2, dtype=torch.float16))


INFEASIBLE = {
    "affine": (cl.Affine.sum(1.0), "do not satisfy Affine.sum(1): the farthest lies 0.707 off. Pass init="),
    "affine columns": (
        cl.Affine.mean(1.0, over="columns"),
        "its columns do not satisfy Affine.mean(1, over=",
    ),
    "symmetric": (
        cl.Symmetric(),
        "it is not symmetric (largest entry of |W - W^T| is 1). Pass init='nearest'",
    ),
    "nonnegative": (cl.NonNegative(), "1 entries are not at least 0 (smallest -1)"),
    "simplex": (cl.Simplex(), "sums of its rows lie between 0 and 0, and 1 entries are not at least 0"),
    "simplex columns": (cl.Simplex(over="columns"), "sums of its columns lie between -1 and 1"),
}


@pytest.mark.parametrize("name", INFEASIBLE)
def test_values_that_do_not_fit(name: str) -> None:
    constraint, message = INFEASIBLE[name]
    weight = torch.tensor([[0.0, 0.0], [1.0, -1.0]])
    with pytest.raises(cl.InfeasibleError, match=re.escape(message)):
        constraint.check(weight)
    constraint.init_(weight, init="nearest")
    assert constraint.violation(weight) < 1e-6


@pytest.mark.parametrize("constraint", [cl.NonNegative(), cl.Simplex()])
def test_bounds_are_not_moved_to_unasked(constraint: cl.Constraint) -> None:
    model = nn.Linear(4, 3)
    with pytest.raises(cl.InfeasibleError, match="where only noise moves them"):
        cl.constrain(model, {"weight": constraint})


@pytest.mark.parametrize("constraint", [cl.Affine.sum(1.0), cl.Symmetric(), cl.NonNegative()])
def test_sets_without_a_uniform_law(constraint: cl.Constraint) -> None:
    with pytest.raises(
        cl.ConstraintError, match=r"init='draw': .* has no law to draw from. Use init='nearest'"
    ):
        constraint.init_(torch.ones(2, 2), init="draw")


@pytest.mark.parametrize("constraint", [cl.NonNegative(), cl.Simplex()])
def test_weights_at_zero_are_warned_of(constraint: cl.Constraint) -> None:
    weight = nn.Parameter(torch.eye(3))
    with pytest.warns(UserWarning, match="6 weights start exactly at the bound of .*will not move"):
        cl.CoLod([{"params": [("w", weight)], "constraint": constraint}], lr=0.1)


def test_nearest_point_of_a_simplex() -> None:
    """Of two rows in closed form, and no other point found at random is nearer."""
    weight = torch.tensor([[0.5, 1.5, 0.0], [0.2, 0.2, 0.3]], dtype=torch.float64)
    nearest = cl.Simplex().init_(weight.clone(), init="nearest")
    expected = torch.tensor([[0.0, 1.0, 0.0], [0.3, 0.3, 0.4]], dtype=torch.float64)
    torch.testing.assert_close(nearest, expected)
    others = torch.distributions.Dirichlet(torch.ones(3, dtype=torch.float64)).sample((10_000, 2))
    assert bool(((others - weight).norm(dim=-1) >= (nearest - weight).norm(dim=-1)).all())


def test_constraints_compare_by_content() -> None:
    assert cl.Affine(torch.ones(3), 1.0) == cl.Affine(torch.ones(1, 3), torch.ones(1))
    assert cl.Affine(torch.ones(3), 1.0) != cl.Affine(torch.ones(3), 2.0)
    assert cl.Affine.sum(1.0) != cl.Affine.mean(1.0)
    assert cl.Affine.sum(1.0) != cl.Affine(torch.ones(3), 1.0)
    assert cl.Affine.sum(1.0) == cl.Affine.sum(1)
    assert hash(cl.Affine.sum(1.0)) == hash(cl.Affine.sum(1.0))
    assert cl.Simplex() != cl.Simplex(over="columns")
    assert repr(cl.Simplex()) == "Simplex(over='rows')"
    assert repr(cl.Affine(torch.ones(2, 3).tril(), 0.0, "columns")) == (
        "Affine(A=tensor(2, 3), b=tensor(2,), over='columns')"
    )


def test_ones_take_the_fast_form_however_they_are_written() -> None:
    for constraint in (cl.Affine.sum(3.0), cl.Affine.mean(0.75), cl.Affine(2 * torch.ones(4), 6.0)):
        assert constraint.on((2, 4)).form.mean == 0.75
    assert cl.Affine(torch.tensor([1.0, 1.0, 1.0, 2.0]), 1.0).on((2, 4)).form is None
