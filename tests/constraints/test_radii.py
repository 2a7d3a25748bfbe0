"""Radii: which numbers are taken, and which a weight's dtype cannot hold."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

import colangevin as cl

BOUNDS = pytest.mark.parametrize(
    "kind", [cl.Circle, cl.Sphere, lambda r: cl.Sphere(r, slack=False)], ids=["circle", "slack", "sphere"]
)


@BOUNDS
@pytest.mark.parametrize(
    "radius", [2, np.float32(2), np.float64(2), np.int64(2), Fraction(2), torch.tensor(2)], ids=repr
)
def test_every_real_number_is_taken_as_a_float(kind, radius):
    assert kind(radius) == kind(2.0)
    assert type(kind(radius).radius) is float


@BOUNDS
@pytest.mark.parametrize("radius", [True, "2", 1j, np.bool_(True), np.ones(2)], ids=repr)
def test_what_is_no_number_is_refused(kind, radius):
    with pytest.raises(cl.ConstraintError, match=r"radius=.*must be a positive number"):
        kind(radius)


@BOUNDS
@pytest.mark.parametrize("radius", [0, -1.0, np.float32("nan"), float("inf"), 10**400])
def test_what_is_not_positive_and_finite_is_refused(kind, radius):
    with pytest.raises(cl.ConstraintError, match=r"radius=.*: must be positive and finite"):
        kind(radius)


@BOUNDS
@pytest.mark.parametrize(
    ("radius", "dtype"),
    [
        (1e39, torch.float32),
        (1e-46, torch.float32),
        (1e39, torch.bfloat16),
        (1e5, torch.float16),
        (torch.tensor([1.0, 1e39], dtype=torch.float64), torch.float32),
        (1e-320, torch.float64),
    ],
    ids=str,
)
def test_a_radius_beyond_the_dtype_is_refused_before_anything_moves(kind, radius, dtype):
    constraint, weight = kind(radius), nn.Parameter(torch.zeros(2, 2, dtype=dtype))
    model = nn.ParameterDict({"w": weight})
    message = r"parameter 'w' \(2, 2\): radius=.* is out of range for a weight of torch\..*Choose a radius"
    for call in (
        lambda: cl.constrain(model, {"w": constraint}, init="draw"),
        lambda: cl.CoLod([{"params": [("w", weight)], "constraint": constraint}], 0.1),
        lambda: constraint.init_(weight, name="w"),
    ):
        with pytest.raises(cl.ConstraintError, match=message):
            call()
    assert torch.equal(weight, torch.zeros(2, 2, dtype=dtype))


@BOUNDS
@pytest.mark.parametrize(
    ("radius", "dtype"), [(1e39, torch.float64), (1e-30, torch.float32), (1e30, torch.bfloat16)]
)
def test_an_extreme_radius_that_fits_is_taken(kind, radius, dtype):
    torch.manual_seed(0)
    weight = nn.Parameter(torch.empty(2, 5, dtype=dtype))
    kind(radius).init_(weight, init="draw")
    assert bool(weight.isfinite().all())
    kind(radius).check(weight)
