"""The field behind the configurational temperature: its divergence, and closed forms against the general."""

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.constraints.capabilities import virial
from colangevin.constraints.stacks import per_copy
from tests.core_only import Symmetric

RADIUS = 0.7


def triangle(Q: Tensor) -> Tensor:
    """The equations of orthonormal columns, each once."""
    error = Q.mT @ Q - torch.eye(Q.shape[1], dtype=Q.dtype)
    rows, columns = torch.triu_indices(*error.shape)
    return error[rows, columns]


def norms(w: Tensor) -> Tensor:
    return w.square().sum(1) - RADIUS**2


def squares(w: Tensor) -> Tensor:
    return w.square() - RADIUS**2


def weights(constraint: cl.Constraint, shape: tuple[int, ...], seed: int) -> Tensor:
    """Three feasible weights."""
    generator = torch.Generator().manual_seed(seed)
    w = 0.2 * torch.randn(3, *shape, generator=generator, dtype=torch.float64)
    if isinstance(constraint, cl.Orthogonal):
        return torch.linalg.qr(w)[0]
    if isinstance(constraint, cl.Sphere) and not constraint.slack:
        return RADIUS * w / w.norm(dim=2, keepdim=True)
    return w


PAIRS = {
    "circle": (cl.Circle(RADIUS), cl.Implicit(squares, inequality=True), (4,)),
    "sphere": (cl.Sphere(RADIUS, slack=False), cl.Implicit(norms), (2, 3)),
    "sphere with slack": (cl.Sphere(RADIUS), cl.Implicit(norms, inequality=True), (2, 3)),
    "orthogonal": (cl.Orthogonal(), cl.Implicit(triangle), (4, 3)),
    "rotations": (cl.Orthogonal(), cl.Implicit(triangle), (3, 3)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_closed_forms_agree_with_the_general_one(name: str) -> None:
    closed, general, shape = PAIRS[name]
    w, a = weights(closed, shape, 0), weights(closed, shape, 1)
    grad = torch.randn(w.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    found = []
    for constraint in (closed.on(shape), general.on(shape)):
        q, reference = constraint.lift(w), constraint.lift(a)
        found.append(constraint.virial(q, constraint.covector(q, grad), reference))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def ellipse(w: Tensor) -> Tensor:
    return w[0] ** 2 + 2 * w[1] ** 2 + 3 * w[2] ** 2 + w[0] * w[1] - 1


def test_the_general_divergence_is_that_of_the_field() -> None:
    """The trace over an orthonormal basis of the tangent space of the derivative of Π(q)(q - a)."""
    constraint = cl.Implicit(ellipse).on((3,))
    q = constraint.lift(torch.tensor([[0.5, 0.4, 0.2]], dtype=torch.float64))
    a = constraint.lift(torch.tensor([[0.1, -0.4, 0.5]], dtype=torch.float64))

    def field(x: Tensor) -> Tensor:
        normal = torch.func.grad(ellipse)(x)
        normal = normal / normal.norm()
        away = x - a[0]
        return away - (normal @ away) * normal

    basis = torch.linalg.svd(torch.func.grad(ellipse)(q[0]).unsqueeze(0))[2][1:]
    derivative = torch.func.jacrev(field)(q[0])
    exact = sum(float(t @ derivative @ t) for t in basis)
    work, divergence = constraint.virial(q, torch.ones_like(q), a)
    assert float(divergence) == pytest.approx(exact)
    assert float(work) == pytest.approx(float(field(q[0]).sum()))


def test_free_parameters_have_the_virial_of_the_plane() -> None:
    q, force, a = torch.randn(3, 2, 4, 5, dtype=torch.float64)
    work, divergence = cl.Free().on((4, 5)).virial(q, force, a)
    torch.testing.assert_close(work, per_copy(force * (q - a)))
    assert divergence.tolist() == [20, 20]


def test_a_constraint_that_does_not_say_is_undetermined() -> None:
    q = torch.eye(3, dtype=torch.float64).unsqueeze(0)
    assert bool(virial(Symmetric().on((3, 3)), q, q, q)[1].isnan())
