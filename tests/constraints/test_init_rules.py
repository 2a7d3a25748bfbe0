"""How weights start: what ``init`` keeps, moves and draws, and that an error changes nothing."""

import re

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import rows_in_balls, sphere_and_plane

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
ORTHOGONAL = cl.Orthogonal()


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def one(weight: Tensor) -> nn.ParameterDict:
    return nn.ParameterDict({"w": nn.Parameter(weight.clone())})


def constrained(weight: Tensor, constraint: cl.Constraint, **options) -> Tensor:
    model = one(weight)
    cl.constrain(model, {"w": constraint}, **options)
    return model["w"].detach()


def feasible(constraint: cl.Constraint, dtype: torch.dtype = torch.float32) -> Tensor:
    """A weight with a history: near the constraint within its tolerance, and not where init would put it."""
    w = 0.3 * normal(1, 4, 6, dtype=torch.float64)
    if isinstance(constraint, cl.Orthogonal):
        w = torch.linalg.qr(w.T)[0].T * (1 + 1e-5)
    elif isinstance(constraint, cl.Sphere) and not constraint.slack:
        w = 0.7 * w / w.norm(dim=1, keepdim=True) * (1 + 1e-5)
    elif constraint == cl.Implicit(sphere_and_plane):
        w = w - w.mean()
        w = 2**0.5 * w / w.norm() * (1 + 1e-5)
    else:
        w = w / w.norm(dim=1, keepdim=True) * 0.5
    return w.to(dtype)


CONSTRAINTS = (
    cl.Free(),
    cl.Circle(1.0),
    cl.Sphere(0.7),
    cl.Sphere(0.7, slack=False),
    ORTHOGONAL,
    cl.Implicit(sphere_and_plane),
    cl.Implicit(rows_in_balls, inequality=True),
)
each_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)


@each_constraint
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("init", ["auto", "keep", "nearest", True, False])
def test_a_feasible_weight_is_kept_bit_for_bit(constraint, dtype, init):
    weight = feasible(constraint, dtype)
    before = torch.get_rng_state()
    assert torch.equal(constrained(weight, constraint, init=init), weight)
    assert torch.equal(constrained(weight, constraint), weight)
    assert torch.equal(constraint.init_(weight.clone(), init=init), weight)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_trained_network_is_still_trained_after_constrain():
    torch.manual_seed(0)
    model = nn.Linear(8, 8, bias=False)
    groups = cl.constrain(model, {"weight": ORTHOGONAL})
    x, target = torch.randn(64, 8), torch.linalg.qr(torch.randn(8, 8))[0]
    optimizer = cl.ConstrainedSGD(groups, lr=0.1, momentum=0.9)
    for _ in range(100):
        optimizer.zero_grad()
        (model(x) - x @ target.T).square().mean().backward()
        optimizer.step()
    trained = model.weight.detach().clone()
    again = nn.Linear(8, 8, bias=False)
    again.load_state_dict(model.state_dict())
    cl.constrain(again, {"weight": ORTHOGONAL})
    assert torch.equal(again.weight, trained)


# ---- the nearest point ---------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["auto", "nearest", True])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (4, 2, 3, 3)])
def test_orthogonal_takes_the_polar_factor(shape, init):
    weight = normal(2, *shape, dtype=torch.float64)
    U, _, Vt = torch.linalg.svd(weight.flatten(1), full_matrices=False)
    torch.testing.assert_close(constrained(weight, ORTHOGONAL, init=init), (U @ Vt).reshape(shape))


@pytest.mark.filterwarnings("ignore:.*start exactly at the bound.*:UserWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@each_constraint
def test_the_nearest_weight_is_accepted_and_kept(constraint, dtype):
    weight = normal(3, 4, 6).to(dtype)
    moved = constrained(weight, constraint, init="nearest")
    assert torch.equal(constrained(moved, constraint, init="keep"), moved)
    assert torch.equal(constrained(moved, constraint, init="nearest"), moved)


@pytest.mark.filterwarnings("ignore:.*start exactly at the bound.*:UserWarning")
@pytest.mark.parametrize("radius", [0.5, torch.linspace(0.1, 0.6, 6)], ids=["number", "tensor"])
def test_circles_clamp(radius):
    weight = normal(4, 4, 6)
    moved = constrained(weight, cl.Circle(radius), init="nearest")
    torch.testing.assert_close(moved, torch.clamp(weight, min=-torch.as_tensor(radius), max=radius))
    inside = weight.abs() <= radius
    assert torch.equal(moved[inside], weight[inside])


def test_spheres_with_slack_shrink_the_rows_that_are_too_long():
    weight = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    moved = constrained(weight, cl.Sphere(2.0), init="nearest")
    torch.testing.assert_close(moved[0], torch.tensor([1.2, 1.6]))
    assert torch.equal(moved[1:], weight[1:])


def test_an_inequality_moves_to_its_boundary():
    weight = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    moved = constrained(weight, cl.Implicit(rows_in_balls, inequality=True), init="nearest")
    torch.testing.assert_close(moved, torch.tensor([[0.72, 0.96], [0.3, 0.4]]))


@pytest.mark.parametrize(
    "weight",
    [torch.zeros(5, 3), torch.ones(5, 3), torch.outer(torch.arange(5.0), torch.ones(3)), torch.zeros(3, 5)],
    ids=["zeros", "constant", "rank 1", "wide zeros"],
)
@pytest.mark.parametrize("init", ["auto", "nearest"])
def test_a_weight_without_full_rank_is_completed_at_random(weight, init):
    torch.manual_seed(1)
    one, other = (constrained(weight, ORTHOGONAL, init=init) for _ in range(2))
    for factor in (one, other):
        assert ORTHOGONAL.violation(factor) < 1e-6
        # of all orthonormal matrices the nearest have the inner product of the singular values
        inner = float((factor * weight).sum())
        assert inner == pytest.approx(float(torch.linalg.matrix_norm(weight, "nuc")), rel=1e-5)
    assert (one - other).abs().max() > 0.1


def test_each_replica_is_kept_or_moved_by_itself():
    replicas = cl.Replicas(lambda: nn.Linear(4, 4, bias=False), 3, seed=0)
    weight = replicas.get_parameter("weight")
    kept = torch.linalg.qr(normal(5, 4, 4))[0]
    with torch.no_grad():
        weight[1] = kept
    start = weight.detach().clone()
    replicas.constrain({"weight": ORTHOGONAL})
    assert torch.equal(weight[1], kept)
    for i in (0, 2):
        U, _, Vt = torch.linalg.svd(start[i])
        torch.testing.assert_close(weight[i].detach(), U @ Vt)


# ---- drawn ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (4, 2, 3, 3)])
def test_orthogonal_draws_as_torch_does(shape):
    torch.manual_seed(5)
    drawn = constrained(torch.ones(shape), ORTHOGONAL, init="draw")
    torch.manual_seed(5)
    assert torch.equal(drawn, nn.init.orthogonal_(torch.empty(shape)))


@pytest.mark.filterwarnings("ignore:.*start exactly at the bound.*:UserWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("constraint", CONSTRAINTS[1:5], ids=repr)
def test_drawn_weights_are_feasible_and_forget_the_old(constraint, dtype):
    torch.manual_seed(6)
    weight = feasible(constraint, dtype)
    drawn = constrained(weight, constraint, init="draw")
    constraint.check(drawn)
    assert not torch.equal(drawn, weight)
    assert drawn.dtype == dtype


def test_a_free_weight_is_never_drawn():
    weight = normal(7, 3, 3)
    assert torch.equal(constrained(weight, cl.Free(), init="draw"), weight)


def test_laws_of_what_is_drawn():
    torch.manual_seed(8)
    circle = cl.Circle(2.0).init_(torch.zeros(100_000), init="draw")
    # the arcsine law: E w^2 = r^2 / 2 and E w^4 = 3 r^4 / 8, each within 6 standard errors
    assert float(circle.square().mean()) == pytest.approx(2.0, abs=6 * 2**0.5 / 100_000**0.5)
    assert float(circle.pow(4).mean()) == pytest.approx(6.0, abs=6 * (17.5 * 2) ** 0.5 / 100_000**0.5)
    # uniform on the sphere of radius 2 in 3 and, with slack, in 4 dimensions: E |row|^2 = 4 and 4 * 3/4
    rows = cl.Sphere(2.0).init_(torch.zeros(50_000, 3), init="draw")
    assert float(rows.square().sum(1).mean()) == pytest.approx(3.0, abs=6 * 1.0 / 50_000**0.5)
    rows = cl.Sphere(2.0, slack=False).init_(torch.zeros(50_000, 3), init="draw")
    assert float(rows.mean(0).abs().max()) < 6 * 2 / 3**0.5 / 50_000**0.5
    torch.testing.assert_close(rows.norm(dim=1), torch.full((50_000,), 2.0))


@pytest.mark.parametrize("constraint", CONSTRAINTS[1:5], ids=repr)
def test_a_drawn_replica_does_not_depend_on_how_many_there_are(constraint):
    drawn = []
    for n in (2, 5):
        replicas = cl.Replicas(lambda: nn.Linear(40, 4), n, seed=7)
        replicas.constrain({"weight": constraint}, init="draw")
        drawn.append(replicas.get_parameter("weight").detach()[:2])
    assert torch.equal(*drawn)


def test_an_implicit_constraint_has_no_law():
    message = r"parameter 'w' \(1, 2\): init='draw': Implicit.*no law to draw from. Use init='nearest'"
    with pytest.raises(cl.ConstraintError, match=message):
        constrained(torch.ones(1, 2), cl.Implicit(sphere_and_plane), init="draw")


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["Nearest", "project", None, 1, 0, 2.0])
def test_another_choice_lists_the_choices(init):
    message = (
        re.escape(f"init={init!r}: must be one of 'auto', 'keep', 'nearest', 'draw'")
        + ".*True means 'auto', False 'keep'"
    )
    replicas = cl.Replicas(lambda: nn.Linear(2, 2), 2, seed=0)
    for call in (
        lambda: constrained(torch.eye(2), ORTHOGONAL, init=init),
        lambda: replicas.constrain({"weight": ORTHOGONAL}, init=init),
        lambda: ORTHOGONAL.init_(torch.eye(2), init=init),
    ):
        with pytest.raises(cl.ConstraintError, match=message):
            call()


@pytest.mark.parametrize("constraint", [cl.Circle(0.1), cl.Sphere(0.1)], ids=repr)
@pytest.mark.parametrize("init", ["auto", "keep", True, False])
def test_an_error_for_one_parameter_changes_none(constraint, init):
    model = nn.ModuleDict({"first": nn.Linear(4, 3), "tied": nn.Linear(3, 3), "last": nn.Linear(3, 3)})
    model["last"].weight = model["tied"].weight
    start = {name: p.detach().clone() for name, p in model.named_parameters(remove_duplicate=False)}
    with pytest.raises(cl.InfeasibleError):
        cl.constrain(model, {"first.weight": ORTHOGONAL, "last.weight": constraint}, init=init)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        assert torch.equal(parameter, start[name])


def test_an_error_for_one_parameter_of_replicas_changes_none():
    replicas = cl.Replicas(lambda: nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3)), 2, seed=0)
    start = {name: p.detach().clone() for name, p in replicas.named_parameters()}
    with pytest.raises(cl.InfeasibleError):
        replicas.constrain({"0.weight": ORTHOGONAL, "1.weight": cl.Circle(0.01)})
    for name, parameter in replicas.named_parameters():
        assert torch.equal(parameter, start[name])


def test_a_warning_that_is_an_error_changes_nothing():
    model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))
    start = model[0].weight.detach().clone()
    with pytest.raises(UserWarning, match="start exactly at the bound"):
        cl.constrain(model, {"0.weight": ORTHOGONAL, "1.weight": cl.Circle(1.0)})
    assert torch.equal(model[0].weight, start)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("init", ["auto", "nearest"])
@pytest.mark.parametrize(
    "constraint", [ORTHOGONAL, cl.Sphere(1.0, slack=False), cl.Implicit(sphere_and_plane)], ids=repr
)
def test_what_is_not_finite_has_no_nearest_point(constraint, init, bad):
    weight = feasible(constraint)
    weight[0, 0] = bad
    with pytest.raises(cl.InfeasibleError, match=r"'w' \(4, 6\): 1 entries are NaN or Inf.*finite first"):
        constrained(weight, constraint, init=init)


# ---- the radius that an error suggests -------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("constraint", [cl.Circle, cl.Sphere])
def test_the_suggested_radius_is_accepted_as_printed(constraint, dtype):
    for seed in range(100):
        weight = (10.0 ** (seed % 7 - 3) * normal(seed, 3, 1 + 17 * (seed % 5))).to(dtype)
        with pytest.raises(cl.InfeasibleError) as caught:
            constraint(1e-4).check(weight)
        suggested = re.search(r"Choose radius >= (\S+), or", str(caught.value))
        radius = float(suggested[1])
        constraint(radius).check(weight)
        size = weight.double().abs().max() if constraint is cl.Circle else weight.double().norm(dim=1).max()
        assert float(size) <= radius <= 1.002 * float(size)


def test_no_message_recommends_to_draw():
    for constraint in CONSTRAINTS[1:]:
        with pytest.raises(cl.InfeasibleError) as caught:
            constraint.check(torch.full((4, 6), 3.0))
        assert "draw" not in str(caught.value)
        assert "init='nearest'" in str(caught.value)


# ---- replicas ------------------------------------------------------------------------------------


def test_constrain_refuses_replicas_wherever_they_are():
    replicas = cl.Replicas(lambda: nn.Linear(3, 3), 4, seed=0)
    stack = replicas.get_parameter("weight").detach().clone()
    for model, where in (
        (replicas, "model: is a Replicas"),
        (nn.DataParallel(replicas), "model: its module 'module' is a Replicas"),
        (nn.Sequential(nn.Linear(2, 2), replicas), "model: its module '1' is a Replicas"),
        (torch.compile(replicas, backend="eager"), "model: its module '_orig_mod' is a Replicas"),
    ):
        with pytest.raises(
            cl.ConstraintError, match=rf"{where}.*stacks 4 weights.*replicas.constrain\(rules\)"
        ):
            cl.constrain(model, {"*weight": cl.Orthogonal()})
    assert torch.equal(replicas.get_parameter("weight"), stack)
