"""A manifold moves alike on every path: what a subclass changes is seen by all of them, or by none.

A fast path works from a manifold's form and asks none of its methods. So a class that changes a method and
kept the form would move one way in plain torch and another natively.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints.affine import Levels
from colangevin.constraints.circle import Angles
from colangevin.constraints.forms import ElementwiseForm
from colangevin.constraints.frames import Frames
from colangevin.constraints.free import Space
from colangevin.constraints.manifold import Manifold
from colangevin.constraints.nonnegative import Roots
from colangevin.constraints.simplex import Simplices
from colangevin.constraints.spherical import Balls, Spheres
from colangevin.step import plan
from colangevin.step.fused import eligible
from colangevin.step.native.native import Native
from colangevin.step.plain import Plain

OPTIMIZERS = {
    "CoLod": lambda groups: cl.CoLod(groups, lr=0.02, temperature=0.1, seed=3),
    "OBA": lambda groups: cl.CoLud(groups, lr=0.1, friction=1.0, temperature=0.1, seed=3),
    "BAOAB": lambda groups: cl.CoLud(
        groups, lr=0.1, friction=1.0, temperature=0.1, splitting="BAOAB", seed=3
    ),
}


class LouderAngles(Angles):
    """Circles with three times the noise."""

    def white(self, q: Tensor, noise: Tensor) -> Tensor:
        return 3 * super().white(q, noise)


class LouderCircle(cl.Circle):
    manifold = LouderAngles


class SlowAngles(Angles):
    """Circles on which nothing drifts."""

    def drift(self, q: Tensor, p: Tensor, a: float) -> tuple[Tensor, Tensor]:
        return super().drift(q, p, 0.5 * a)


class SlowCircle(cl.Circle):
    manifold = SlowAngles


class DampedSpace(Space):
    """The whole space with half the force."""

    def covector(self, q: Tensor, grad: Tensor) -> Tensor:
        return 0.5 * super().covector(q, grad)


class DampedFree(cl.Free):
    manifold = DampedSpace


START = 0.4 * torch.sin(torch.arange(60, dtype=torch.float64)).view(6, 10)


def run(constraint: cl.Constraint, optimizer: str, *, contiguous: bool) -> tuple[Tensor, Any]:
    weight = nn.Parameter(START.clone() if contiguous else START.T.contiguous().T)
    opt = OPTIMIZERS[optimizer]([{"params": [weight], "constraint": constraint}])
    for step in range(4):
        weight.grad = torch.cos(step + torch.arange(60, dtype=torch.float64)).view(6, 10)
        opt.step()
    return weight.detach(), opt


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(cl.Circle(1.0), LouderCircle(1.0)), (cl.Circle(1.0), SlowCircle(1.0)), (cl.Free(), DampedFree())],
    ids=["metric", "drift", "covector"],
)
def test_what_a_subclass_changes_is_changed_on_every_path(
    ours: cl.Constraint, theirs: cl.Constraint, optimizer: str
) -> None:
    fast, opt = run(ours, optimizer, contiguous=True)
    assert isinstance(opt._plan.movers[0], Native)
    plain, opt = run(ours, optimizer, contiguous=False)
    assert isinstance(opt._plan.movers[0], Plain)
    torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-12)

    one, opt = run(theirs, optimizer, contiguous=True)
    other, _ = run(theirs, optimizer, contiguous=False)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    overdamped = optimizer == "CoLod"
    if not (overdamped and ours == cl.Circle(1.0)):  # whose overdamped step uses neither metric nor drift
        assert float((one - fast).abs().max()) > 1e-3


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("slack", [True, False])
def test_a_whole_weight_moves_alike_on_every_path(slack: bool, optimizer: str) -> None:
    constraint = cl.Sphere(float(START.norm()) * (1.2 if slack else 1.0), slack, over="matrix")
    fast, opt = run(constraint, optimizer, contiguous=True)
    assert isinstance(opt._plan.movers[0], Native)
    plain, opt = run(constraint, optimizer, contiguous=False)
    assert isinstance(opt._plan.movers[0], Plain)
    torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    "constraint",
    [cl.Sphere(4.0, over="columns"), cl.Sphere(4.0, transposed=1), cl.Sphere(4.0, transposed=2)],
    ids=str,
)
def test_what_does_not_lie_in_order_takes_the_path_that_always_works(
    constraint: cl.Constraint, optimizer: str
) -> None:
    _, opt = run(constraint, optimizer, contiguous=True)
    assert [type(mover) for mover in opt._plan.movers] == [Plain]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_form_that_lies_is_found(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form of another radius: both paths then differ, as the test above would see."""
    monkeypatch.setattr(Angles, "form", property(lambda self: ElementwiseForm(cl.Circle(2.0).radii)))
    fast, _ = run(cl.Circle(1.0), optimizer, contiguous=True)
    plain, _ = run(cl.Circle(1.0), optimizer, contiguous=False)
    assert float((fast - plain).abs().max()) > 1e-3


@pytest.mark.parametrize(
    ("kind", "constraint"),
    [
        (Angles, cl.Circle(1.0)),
        (Space, cl.Free()),
        (Spheres, cl.Sphere(1.0, slack=False)),
        (Balls, cl.Sphere(1.0)),
        (Roots, cl.NonNegative()),
        (Simplices, cl.Simplex()),
        (Levels, cl.Affine.sum(1.0)),
    ],
)
def test_a_form_is_not_inherited(kind: type[Manifold], constraint: cl.Constraint) -> None:
    assert constraint.on((2, 3)).form is not None
    heir = type("Heir", (kind,), {})
    assert heir(constraint, (2, 3)).form is None


def test_who_has_no_form_takes_the_path_that_always_works() -> None:
    _, opt = run(LouderCircle(1.0), "OBA", contiguous=True)
    assert [type(mover) for mover in opt._plan.movers] == [Plain]
    assert not plan.native(opt._plan.entries[0], opt._plan.dynamics[0])


class Heir(Frames):
    """Orthonormal matrices, as they are."""


class OrthogonalHeir(cl.Orthogonal):
    manifold = Heir


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (cl.Circle(1.0), LouderCircle(1.0)),
        (cl.Free(), DampedFree()),
        (cl.Orthogonal(), OrthogonalHeir()),
        (cl.Orthogonal(), cl.Orthogonal(1.0, blocks=3)),
        (cl.Simplex(), cl.Simplex(over="columns")),
    ],
    ids=["circle", "free", "orthogonal", "blocks", "columns"],
)
def test_a_device_takes_forms_alone(
    ours: cl.Constraint, theirs: cl.Constraint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eligible, "triton_runs_on", lambda device: True)
    families = []
    for constraint in (ours, theirs):
        weight = nn.Parameter(constraint.init_(0.5 * torch.eye(3), init="nearest"))
        weight.grad = torch.zeros_like(weight)
        optimizer = cl.CoLud(
            [{"params": [weight], "constraint": constraint}], 0.1, friction=1.0, temperature=1.0
        )
        (entry,) = optimizer._roster.entries(
            optimizer.param_groups, optimizer._names, optimizer._all_dynamics(), optimizer.state
        )
        families.append(eligible.family(entry, optimizer._all_dynamics()[0]))
    assert families[0] is not None
    assert families[1] is None
