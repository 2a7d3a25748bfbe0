"""Autocast is for a model's forward pass: what this library computes stays in full precision."""

import pytest
import torch

import colangevin as cl
from colangevin.surroundings import full_precision


@full_precision
def product(a: torch.Tensor) -> torch.Tensor:
    """A product, which autocast would round."""
    return a @ a


@pytest.mark.parametrize("compiled", [False, True])
def test_a_product_keeps_its_precision_and_autocast_goes_on_afterwards(compiled):
    a = torch.eye(3)
    run = torch.compile(product, backend="eager", fullgraph=True) if compiled else product
    with torch.autocast("cpu", torch.bfloat16):
        assert run(a).dtype == torch.float32
        assert (a @ a).dtype == torch.bfloat16
    assert product(a).dtype == torch.float32


def test_autocast_goes_on_after_an_error():
    @full_precision
    def fail() -> None:
        raise ValueError("here")

    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(ValueError, match="here"):
            fail()
        assert torch.is_autocast_enabled("cpu")


def test_a_method_keeps_its_name_and_words():
    assert product.__name__ == "product"
    assert product.__doc__ == "A product, which autocast would round."


def determinant(w: torch.Tensor) -> torch.Tensor:
    return torch.linalg.det(w @ w.mT).reshape(1) - 1


CONSTRAINTS = (
    cl.Circle(1.0),
    cl.Sphere(1.0),
    cl.Sphere(1.0, slack=False),
    cl.Orthogonal(),
    cl.Implicit(determinant),
)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
@pytest.mark.parametrize("init", ["keep", "nearest"])
def test_starts_and_violations_are_the_same_under_autocast(constraint, init):
    torch.manual_seed(0)
    weight = torch.linalg.qr(torch.randn(12, 12))[0]
    weight = (weight if init == "keep" else weight + 0.3 * torch.randn(12, 12))[:5]
    results = []
    for enabled in (False, True):
        start = weight.clone()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            results.append((constraint.violation(start), constraint.init_(start, init=init)))
            constraint.check(start)
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1], results[1][1])
