"""Weights that start off their manifold are refused; weights that start at a bound are warned of."""

import math
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.optim.errors.words import colud, parameter, words
from tests.optim_db import CONSTRAINTS, OBA, ConstraintCase, assert_identical, rows_in_balls, sphere_and_plane

INFEASIBLE = (
    (
        cl.Circle(0.5),
        [[0.2, 0.7], [-0.9, 0.5]],
        ("(2, 2): 2 entries exceed radius=0.5 (largest 0.9).", "Choose radius >= 0.9, or", "'nearest'"),
    ),
    (
        cl.Circle(torch.tensor([0.1, 0.8])),
        [[0.2, 0.7], [-0.9, 0.5]],
        ("(2, 2): 2 entries exceed radius=tensor(2,) in [0.1, 0.8] (largest 0.9).",),
    ),
    (
        cl.Sphere(2.0),
        [[0.0, 3.0], [1.0, 1.0]],
        ("(2, 2): 1 rows exceed radius=2 (largest norm 3).", "Choose radius >= 3, or", "'nearest'"),
    ),
    (
        cl.Sphere(2.0, slack=False),
        [[0.0, 3.0], [1.0, 0.0]],
        ("(2, 2): row norms lie between 1 and 3, not at radius=2.", "init='nearest'", "colangevin.constrain"),
    ),
    (
        cl.Orthogonal(),
        [[1.0, 0.5], [0.0, 1.0]],
        ("(2, 2): its columns are not orthonormal", "0.5", "init='nearest'", "the nearest orthonormal"),
    ),
    (
        cl.Orthogonal(),
        [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        ("(2, 3): its rows are not orthonormal", "is 3)", "init='nearest'"),
    ),
    (
        cl.Implicit(sphere_and_plane),
        [[3.0, 1.0]],
        (
            "(1, 2): Implicit(g=tests.optim_db.sphere_and_plane",
            "is violated (sphere_and_plane(w)[1] = 4, must be 0; that is ",
            "0.667 of how far it moves with the weight).",
            "init='nearest'",
        ),
    ),
    (
        cl.Implicit(rows_in_balls, inequality=True),
        [[2.0, 0.0]],
        ("(1, 2): Implicit(", "is violated (rows_in_balls(w)[0] = 2.56, must be <= 0; that is", "'nearest'"),
    ),
)
each_infeasible = pytest.mark.parametrize(
    ("constraint", "values", "message"), INFEASIBLE, ids=[repr(case[0]) for case in INFEASIBLE]
)


@each_infeasible
def test_infeasible_start_in_a_plain_group(
    constraint: cl.Constraint, values: list[list[float]], message: tuple[str, ...]
) -> None:
    with pytest.raises(cl.InfeasibleError, match=words("parameter 'w' ", *message)):
        colud(parameter(*values), constraint)


@each_infeasible
def test_infeasible_start_without_init(
    constraint: cl.Constraint, values: list[list[float]], message: tuple[str, ...]
) -> None:
    model = nn.ParameterDict({"w": parameter(*values)})
    with pytest.raises(cl.InfeasibleError, match=words("parameter 'w' ", *message)):
        cl.constrain(model, {"w": constraint}, init=False)
    assert_identical(model["w"].detach(), torch.tensor(values))


@each_infeasible
def test_infeasible_start_with_init(
    constraint: cl.Constraint, values: list[list[float]], message: tuple[str, ...]
) -> None:
    model = nn.ParameterDict({"w": parameter(*values)})
    if constraint.on(model["w"].shape).bounded:  # under a bound constrain moves no weight
        with pytest.raises(cl.InfeasibleError, match=words("parameter 'w' ", *message)):
            cl.constrain(model, {"w": constraint})
        assert_identical(model["w"].detach(), torch.tensor(values))
    else:
        cl.constrain(model, {"w": constraint})
        assert constraint.violation(model["w"]) < 1e-6


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("constraint", CONSTRAINTS[1:], ids=lambda case: case.id)
def test_weight_that_is_not_finite_is_infeasible(constraint: ConstraintCase, bad: float) -> None:
    weight = nn.Parameter(constraint.weight())
    with torch.no_grad():
        weight[0, 0] = bad
    with pytest.raises(cl.InfeasibleError, match="parameter 'w'"):
        colud(weight, constraint.constraint)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "constraint", [case for case in CONSTRAINTS[1:] if case.manifold.bounded], ids=lambda case: case.id
)
def test_init_does_not_let_a_weight_that_is_not_finite_pass(constraint: ConstraintCase, bad: float) -> None:
    weight = constraint.weight()
    weight[0, 0] = bad
    with pytest.raises(cl.InfeasibleError, match="parameter 'w'"):
        constraint.constraint.init_(weight, name="w")


def test_row_without_a_direction() -> None:
    model = nn.ParameterDict({"w": parameter([0.0, 0.0], [1.0, 0.0])})
    message = words("parameter 'w' (2, 2): 1 rows have norm 0", "no nearest point", "Initialise these rows")
    with pytest.raises(cl.InfeasibleError, match=message):
        cl.constrain(model, {"w": cl.Sphere(1.0, slack=False)})


def test_weights_at_their_bound_are_warned_of() -> None:
    norm = nn.LayerNorm(6)
    message = words("parameter 'weight' (6,): 6 weights start exactly at the bound of Circle(radius=1)")
    with pytest.warns(UserWarning, match=message + ".*will not move.*larger radius.*temperature"):
        cl.constrain(norm, {nn.LayerNorm: cl.Circle(1.0)})
    with pytest.warns(UserWarning, match=message):
        OBA.build([{"params": [("weight", norm.weight)], "constraint": cl.Circle(1.0)}])


def test_weights_at_either_bound_are_counted() -> None:
    with pytest.warns(UserWarning, match=words("parameter 'w' (4,): 2 weights start exactly at the bound")):
        colud(parameter(1.0, -1.0, 0.5, 0.0), cl.Circle(1.0))


@pytest.mark.parametrize("options", [{"temperature": 0.1, "seed": 1}, {}], ids=["noise", "smaller weights"])
def test_no_warning_when_weights_can_move(options: dict[str, Any]) -> None:
    weight = parameter(1.0 if options else 0.999)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        colud(weight, cl.Circle(1.0), **options)
