"""``project_``: weights that left their constraints, averages first of all, end on the nearest points."""

import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import colangevin as cl
from tests.optim_db import assert_identical, sphere_and_plane

CONSTRAINTS = {
    "circle": cl.Circle(0.9),
    "sphere": cl.Sphere(1.5),
    "sphere, no slack": cl.Sphere(0.7, slack=False),
    "orthogonal": cl.Orthogonal(),
    "implicit": cl.Implicit(sphere_and_plane),
}
# what may be left of a violation: rounding of the weights, in products of a few of them
ROUNDING = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 2e-2}
AVERAGES = {"swa": None, "ema": get_ema_multi_avg_fn(0.8)}


def linear(dtype: torch.dtype = torch.float64) -> nn.Linear:
    torch.manual_seed(0)
    model = nn.Linear(3, 4, dtype=dtype)
    with torch.no_grad():
        model.weight.mul_(0.5)
    return model


def sample(model: nn.Module, groups: list[dict], average: AveragedModel, steps: int = 10) -> None:
    """A run far from where it starts, and the average along it."""
    opt = cl.CoLod(groups, 0.05, temperature=1.0, seed=0)
    for _ in range(steps):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        opt.step()
        average.update_parameters(model)


@pytest.mark.parametrize("kind", AVERAGES)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_averages_end_on_the_manifold(name: str, kind: str) -> None:
    constraint, model = CONSTRAINTS[name], linear()
    groups = cl.constrain(model, {"weight": constraint})
    average = AveragedModel(model, multi_avg_fn=AVERAGES[kind])
    sample(model, groups, average)
    weight = average.module.weight
    before = weight.detach().clone()
    bounded = name in ("circle", "sphere")  # within bounds, averages need no projection
    assert constraint.violation(weight) < 1e-12 if bounded else constraint.violation(weight) > 1e-3
    assert cl.project_(average, groups) is average
    assert constraint.violation(weight) <= ROUNDING[torch.float64]
    assert int(average.n_averaged) == 10
    if name == "orthogonal":
        U, _, Vt = torch.linalg.svd(before, full_matrices=False)
        torch.testing.assert_close(weight.detach(), U @ Vt)
    elif name == "sphere, no slack":
        torch.testing.assert_close(weight.detach(), 0.7 * before / before.norm(dim=1, keepdim=True))
    elif bounded:
        assert_identical(weight.detach(), before)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_weights_that_are_almost_feasible_are_moved_too(name: str, dtype: torch.dtype) -> None:
    """``init="nearest"`` keeps what a checkpoint has rounded; here the violation ends at rounding."""
    constraint, model = CONSTRAINTS[name], linear(dtype)
    groups = cl.constrain(model, {"weight": constraint}, init="nearest")
    with torch.no_grad():
        model.weight.mul_(1 + 5 * ROUNDING[dtype])
    cl.project_(model, groups)
    assert constraint.violation(model.weight) <= ROUNDING[dtype]
    assert model.weight.dtype == dtype


def test_weights_outside_of_bounds_go_to_the_bound() -> None:
    model = linear()
    groups = cl.constrain(model, {"weight": cl.Circle(0.4), "bias": cl.Sphere(0.9)})
    with torch.no_grad():
        model.weight.copy_(torch.linspace(-1, 1, 12).view(4, 3))
        model.bias.copy_(torch.tensor([2.0, -3.0, 0.5, 0.0]))
    expected = model.weight.detach().clamp(-0.4, 0.4)
    cl.project_(model, groups)
    assert_identical(model.weight.detach(), expected)
    torch.testing.assert_close(model.bias.detach(), torch.tensor([0.9, -0.9, 0.5, 0.0]).double())


def test_everything_else_stays() -> None:
    model = nn.Sequential(linear(), nn.BatchNorm1d(4).double(), nn.Linear(4, 2).double())
    groups = cl.constrain(model, {"0.weight": cl.Orthogonal()})
    del groups[1]["params"][0]  # a parameter that no group names
    with torch.no_grad():
        model[0].weight.mul_(2)
    before = copy.deepcopy(model.state_dict())
    cl.project_(model, groups)
    after = model.state_dict()
    assert [name for name in before if not torch.equal(before[name], after[name])] == ["0.weight"]


def test_the_groups_of_an_optimizer_serve_too() -> None:
    model = linear()
    opt = cl.CoLud(cl.constrain(model, {"weight": cl.Orthogonal()}), 0.1, friction=1.0)
    with torch.no_grad():
        model.weight.mul_(2)
    cl.project_(model, opt.param_groups)
    assert max(cl.diagnostics.violation(opt).values()) < 1e-14
    model.weight.grad = torch.ones_like(model.weight)
    opt.step()


def test_names_of_a_wrapped_model_fit_the_model() -> None:
    model = linear()
    opt = cl.CoLod(AveragedModel(model).named_parameters(), 0.1)  # names 'module.weight', 'module.bias'
    opt.param_groups[0]["constraint"] = cl.Circle(0.1)
    cl.project_(model, opt.param_groups)
    assert float(model.weight.detach().abs().max()) == 0.1


def test_replicas_are_projected_apart() -> None:
    replicas = cl.Replicas(lambda: nn.Linear(3, 4).double(), 5, seed=0)
    groups = replicas.constrain({"weight": cl.Orthogonal()})
    average = AveragedModel(replicas)
    with torch.no_grad():
        average.module.weight.copy_(torch.randn(5, 4, 3))
    U, _, Vt = torch.linalg.svd(average.module.weight.detach(), full_matrices=False)
    cl.project_(average, groups)
    torch.testing.assert_close(average.module.weight.detach(), U @ Vt)


def test_frozen_empty_and_tied_parameters() -> None:
    model = nn.ModuleDict({"a": linear(), "b": linear(), "c": linear()})
    model["b"].weight = model["a"].weight
    model["c"].weight = nn.Parameter(torch.empty(0, 3).double())
    groups = cl.constrain(model, {"*.weight": cl.Orthogonal()})
    model["a"].weight.requires_grad_(False).mul_(3)
    cl.project_(model, groups)
    assert cl.Orthogonal().violation(model["b"].weight) < 1e-14
    assert not model["a"].weight.requires_grad


def test_no_gradient_is_recorded_and_autocast_does_not_matter() -> None:
    model = linear(torch.float32)
    groups = cl.constrain(model, {"weight": cl.Orthogonal()})
    with torch.no_grad():
        model.weight.mul_(2)
    with torch.autocast("cpu", torch.bfloat16):
        cl.project_(model, groups)
    assert cl.Orthogonal().violation(model.weight) < 1e-6
    assert model.weight.is_leaf


# ---- errors ---------------------------------------------------------------------------------------


def others() -> tuple[nn.Module, list[dict]]:
    """A model with two weights off their constraints, and its groups."""
    model = nn.Sequential(linear(), nn.Linear(4, 2).double())
    groups = cl.constrain(model, {"*.weight": cl.Orthogonal()})
    with torch.no_grad():
        model[0].weight.mul_(2)
    return model, groups


def assert_refused(model: nn.Module, groups: object, error: type[Exception], message: str) -> None:
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(error, match=message):
        cl.project_(model, groups)
    after = [parameter.detach() for parameter in model.parameters()]
    for old, new in zip(before, after, strict=True):
        torch.testing.assert_close(new, old, rtol=0, atol=0, equal_nan=True)


def test_a_name_that_the_model_does_not_have() -> None:
    model, groups = others()
    groups[0]["params"][1] = ("2.weight", groups[0]["params"][1][1])
    message = (
        r"parameter '2\.weight' \(2, 4\): Sequential has no parameter of this name\. Its parameters are: 0\."
    )
    assert_refused(model, groups, cl.ConstraintError, message)


def test_another_shape() -> None:
    model, groups = others()
    model[1].weight = nn.Parameter(torch.zeros(3, 4).double())
    message = r"parameter '1\.weight' \(3, 4\): has shape \(2, 4\) in the groups\. Use a copy of the model"
    assert_refused(model, groups, cl.ConstraintError, message)


def test_a_replica_is_not_the_replicas() -> None:
    replicas = cl.Replicas(lambda: nn.Linear(3, 4), 5, seed=0)
    groups = replicas.constrain({"weight": cl.Orthogonal()})
    message = r"parameter 'weight' \(4, 3\): has shape \(5, 4, 3\)"
    assert_refused(replicas[0], groups, cl.ConstraintError, message)


def test_a_name_in_two_groups() -> None:
    model, groups = others()
    message = r"parameter '0\.weight' \(4, 3\): two groups name it"
    assert_refused(model, [*groups, *groups], cl.ConstraintError, message)


def test_parameters_without_names() -> None:
    model, _ = others()
    message = r"groups\[0\]: its parameters have no names to find them by in the model\. Use the groups of"
    opt = cl.CoLod(model.parameters(), 0.1)
    assert_refused(model, opt.param_groups, cl.ConstraintError, message)


def test_weights_without_a_nearest_point() -> None:
    model, groups = others()
    with torch.no_grad():
        model[1].weight[0, 0] = torch.nan
    message = r"parameter '1\.weight' \(2, 4\): 1 entries are NaN or Inf, so there is no nearest"
    assert_refused(model, groups, cl.InfeasibleError, message)
    groups = cl.constrain(linear(), {"weight": cl.Sphere(1.0, slack=False)})
    zero = linear()
    nn.init.zeros_(zero.weight)
    message = r"parameter 'weight' \(4, 3\): 4 rows have norm 0"
    assert_refused(zero, groups, cl.InfeasibleError, message)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([5], "a group must be a dict with the key 'params', not int"),
        ([{"lr": 1}], "a group must be a dict with the key 'params', not dict"),
        ([{"params": iter([])}], "the params of a group must be a list, not list_iterator"),
        ([{"params": [("weight", 3)]}], "must be parameters or named ones, not .'weight', 3."),
        ([{"params": [], "constraint": "Circle"}], r"groups\[0\]: constraint='Circle' must be a constraint"),
    ],
)
def test_something_else_than_groups(groups: list, message: str) -> None:
    assert_refused(linear(), groups, TypeError, message)
