"""Radii that are not positive numbers, or whose shape does not fit the weight."""

import math
import re

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.optim.errors.words import colud, words

RADII = (
    (0, "radius=0: must be positive and finite."),
    (-1.5, "radius=-1.5: must be positive and finite."),
    (math.nan, "radius=nan: must be positive and finite."),
    (math.inf, "radius=inf: must be positive and finite."),
    ("0.5", "radius='0.5': must be a positive number or a tensor of positive numbers."),
    (True, "radius=True: must be a positive number"),
    (torch.tensor([1.0, 0.0]), "radius: a tensor of shape (2,) with smallest entry 0.0; every radius must"),
    (torch.tensor([1.0, math.nan]), "radius: a tensor of shape (2,) with smallest entry nan; every radius"),
    (torch.tensor([1.0, math.inf]), "every radius must be positive and finite."),
    (torch.tensor(-1.0), "every radius must be positive and finite."),
    (torch.tensor([]), "radius: a tensor of shape (0,)"),
)


def test_a_circle_has_no_radius_of_its_own() -> None:
    with pytest.raises(cl.ConstraintError, match="radius=None: must be a positive number"):
        cl.Circle(None)


@pytest.mark.parametrize("kind", [cl.Circle, cl.Sphere])
@pytest.mark.parametrize(("radius", "message"), RADII, ids=[repr(case[0]) for case in RADII])
def test_radius(kind: type[cl.Constraint], radius: object, message: str) -> None:
    with pytest.raises(cl.ConstraintError, match=re.escape(message)):
        kind(radius)


@pytest.mark.parametrize(
    ("constraint", "shape", "message"),
    [
        (cl.Circle(torch.ones(3)), (2, 4), ("radius of shape (3,) does not broadcast", "weight's shape")),
        (cl.Circle(torch.ones(4, 1)), (2, 4), ("radius of shape (4, 1) does not broadcast",)),
        (cl.Circle(torch.ones(5, 2, 4)), (2, 4), ("radius of shape (5, 2, 4) does not broadcast",)),
        (cl.Circle(torch.ones(2, 4)), (4,), ("radius of shape (2, 4) does not broadcast",)),
        (cl.Circle(torch.ones(5)), (), ("radius of shape (5,) does not broadcast",)),
        (cl.Sphere(torch.ones(3)), (2, 4), ("radius of shape (3,) does not fit 2 rows", "shape (2,)")),
        (cl.Sphere(torch.ones(2, 1)), (2, 4), ("radius of shape (2, 1) does not fit 2 rows", "shape (2,)")),
        (cl.Sphere(torch.ones(5, 2)), (2, 4), ("radius of shape (5, 2) does not fit 2 rows",)),
    ],
    ids=lambda value: repr(value) if isinstance(value, cl.Constraint) else "",
)
def test_radius_of_another_shape(
    constraint: cl.Constraint, shape: tuple[int, ...], message: tuple[str, ...]
) -> None:
    with pytest.raises(cl.ConstraintError, match=words(f"parameter 'w' {shape}: ", *message)):
        colud(nn.Parameter(torch.full(shape, 0.1)), constraint)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (cl.Circle(torch.ones(3)), "radius of shape (3,) does not broadcast"),
        (cl.Sphere(torch.ones(3)), "radius of shape (3,) does not fit 2 rows"),
    ],
    ids=repr,
)
def test_radius_for_each_replica(constraint: cl.Constraint, message: str) -> None:
    group = {"params": [nn.Parameter(torch.full((3, 2, 4), 0.1))], "replicas": 3, "constraint": constraint}
    shape = "(3, 1, 1)" if isinstance(constraint, cl.Circle) else "(3, 1)"
    with pytest.raises(cl.ConstraintError, match=words(message, f"of shape {shape} for one a replica")):
        cl.CoLod([group], 0.1)
