"""Slices: rows, columns or all of a weight, also of weights that count outputs along dimension 1."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints.orientation import turned
from colangevin.constraints.slices import Slices

SHAPES = [(4, 6), (4, 6, 3), (4, 2, 3, 5), (1, 1), (6, 1, 2)]
CONVOLUTIONS = [(1, 4, 6), (2, 4, 6), (4, 4, 8), (4, 4, 4)]  # groups, channels in and out


def numbered(*shape: int) -> Tensor:
    return torch.arange(2.0 * torch.Size(shape).numel()).view(2, *shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("over", ["rows", "columns", "matrix"])
@pytest.mark.parametrize("transposed", [0, 1])
def test_slices_join_to_the_weight(shape, over, transposed):
    slices, stack = Slices(shape, over, transposed), numbered(*shape)
    cut = slices.of(stack)
    assert cut.shape == (2, slices.count, slices.length)
    assert torch.equal(slices.joined(cut), stack)


def test_a_column_is_all_that_multiplies_one_input():
    kernel = numbered(4, 3, 2, 2)
    columns = Slices((4, 3, 2, 2), "columns").of(kernel)
    for channel in range(3):
        assert torch.equal(columns[:, channel], kernel[:, :, channel].flatten(1))


@pytest.mark.parametrize(("groups", "given", "made"), CONVOLUTIONS)
def test_rows_of_a_transposed_kernel_are_what_makes_an_output(groups, given, made):
    """Without one output's row the layer's output is 0 there, and the same elsewhere."""
    layer = nn.ConvTranspose2d(given, made, 3, groups=groups, bias=False)
    x, slices = torch.randn(1, given, 4, 4), Slices(tuple(layer.weight.shape), "rows", groups)
    before = layer(x)
    assert slices.count == made
    with torch.no_grad():
        rows = slices.of(layer.weight[None])
        rows[:, made - 1] = 0
        layer.weight.copy_(slices.joined(rows)[0])
        after = layer(x)
    assert not after[:, -1].any()
    assert torch.equal(before[:, :-1], after[:, :-1])


@pytest.mark.parametrize(("groups", "given", "made"), CONVOLUTIONS)
def test_turning_twice_changes_nothing(groups, given, made):
    stack = numbered(given, made // groups, 3)
    assert turned(stack, groups).shape == (2, made, given // groups, 3)
    assert torch.equal(turned(turned(stack, groups), groups), stack)


@pytest.mark.parametrize(("over", "dims"), [("rows", (1, 2)), ("columns", (0, 2)), ("matrix", (0, 1, 2))])
@pytest.mark.parametrize("slack", [True, False])
def test_norms_are_those_of_the_slices(over, dims, slack):
    constraint = cl.Sphere(0.7, slack, over=over)
    weight = constraint.init_(torch.randn(4, 3, 2), init="nearest")
    norms = weight.square().sum(dims).sqrt()
    assert bool((norms <= 0.7 + 1e-6).all())
    assert slack or torch.allclose(norms, torch.full_like(norms, 0.7))
    assert constraint.violation(weight) < 1e-6


def test_a_radius_for_each_column():
    radii = torch.tensor([1.0, 2.0, 3.0])
    weight = cl.Sphere(radii, slack=False, over="columns").init_(torch.randn(5, 3))
    assert torch.allclose(weight.norm(dim=0), radii)


def test_what_is_said():
    assert repr(cl.Sphere(2.0, over="columns")) == "Sphere(radius=2, slack=True, over='columns')"
    assert repr(cl.Sphere(2.0, transposed=2)) == "Sphere(radius=2, slack=True, transposed=2)"
    assert cl.Sphere(2.0, over="matrix") != cl.Sphere(2.0)
    assert cl.Sphere(2.0, over="rows").describe() == {"name": "Sphere", "radius": 2.0, "slack": True}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cl.Sphere(1.0, over="cells"), r"over='cells': must be one of 'rows', 'columns', 'matrix'"),
        (lambda: cl.Sphere(1.0, transposed=-1), r"transposed=-1: must be the number of groups"),
        (lambda: cl.Sphere(1.0, transposed=1.5), r"transposed=1.5: must be the number of groups"),
        (
            lambda: cl.Sphere(1.0, over="columns").check(torch.zeros(3)),
            r"\(3,\): over='columns' needs a weight with at least 2 dimensions.*use over='rows'",
        ),
        (
            lambda: cl.Sphere(1.0, transposed=2).check(torch.zeros(3, 2)),
            r"\(3, 2\): transposed=2 means .* a multiple of 2. Give the layer's number of groups",
        ),
        (
            lambda: cl.Sphere(torch.ones(3), over="columns").check(torch.zeros(3, 2)),
            r"radius of shape \(3,\) does not fit 2 columns; give a number, or a tensor of shape \(2,\)",
        ),
        (
            lambda: cl.Sphere(1.0, over="columns").check(torch.ones(3, 2)),
            r"2 columns exceed radius=1 \(largest norm 1.732\).*which shrinks these columns",
        ),
        (
            lambda: cl.Sphere(1.0, slack=False, over="matrix").check(torch.ones(3, 3)),
            r"matrix norms lie between 3 and 3, not at radius=1.*it rescales the matrices",
        ),
        (
            lambda: cl.Sphere(1.0, slack=False, over="columns").init_(torch.eye(3)[:, :2] * 0),
            r"2 columns have norm 0.*Initialise these columns at random",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(cl.ConstraintError, match=message):
        make()
