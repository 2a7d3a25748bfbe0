"""``constrain``: which parameters get which constraint, under which name, and what happens to the weights."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import assert_identical, sphere_and_plane

CIRCLE, SPHERE = cl.Circle(10.0), cl.Sphere(100.0)


class WideLinear(nn.Linear):
    """A module class of the user's own."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(2, 4, 3)
        self.layers = nn.ModuleList([nn.Linear(4, 4), WideLinear(4, 6)])
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 2)


def assigned(groups: list[dict]) -> dict[str, cl.Constraint]:
    """Name to constraint."""
    return {name: group["constraint"] for group in groups for name, _ in group["params"]}


def constrained(rules: dict) -> dict[str, cl.Constraint]:
    """What is not free."""
    groups = cl.constrain(Net(), rules)
    return {name: c for name, c in assigned(groups).items() if c != cl.Free()}


def test_without_rules_everything_is_free() -> None:
    net = Net()
    groups = cl.constrain(net, {})
    assert set(assigned(groups).values()) == {cl.Free()}
    assert [name for name, _ in groups[0]["params"]] == [name for name, _ in net.named_parameters()]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("head.weight", {"head.weight"}),
        ("layers.*.weight", {"layers.0.weight", "layers.1.weight"}),
        ("layers.[1-9].*", {"layers.1.weight", "layers.1.bias"}),
        ("*.bias", {"conv.bias", "layers.0.bias", "layers.1.bias", "norm.bias", "head.bias"}),
        ("h?ad.weight", {"head.weight"}),
        (nn.Conv2d, {"conv.weight"}),
        (nn.LayerNorm, {"norm.weight"}),
        (nn.Linear, {"layers.0.weight", "layers.1.weight", "head.weight"}),
        (WideLinear, {"layers.1.weight"}),
    ],
    ids=lambda value: "" if isinstance(value, set) else str(value),
)
def test_rule_fits(rule: str | type[nn.Module], names: set[str]) -> None:
    assert constrained({rule: CIRCLE}) == dict.fromkeys(names, CIRCLE)


def test_globs_respect_case() -> None:
    with pytest.raises(cl.ConstraintError, match="fits no parameter"):
        cl.constrain(Net(), {"HEAD.weight": CIRCLE})


def test_class_rule_never_takes_a_bias() -> None:
    assert not any(name.endswith("bias") for name in constrained({nn.Module: CIRCLE}))


def test_class_rule_passes_over_modules_without_a_weight() -> None:
    net = nn.Sequential(nn.LayerNorm(3, elementwise_affine=False), nn.LayerNorm(3))
    assert constrained_names(net, {nn.LayerNorm: cl.Circle(2.0)}) == {"1.weight"}
    with pytest.raises(cl.ConstraintError, match="rule LayerNorm fits no parameter"):
        cl.constrain(net[:1], {nn.LayerNorm: CIRCLE})


def constrained_names(net: nn.Module, rules: dict) -> set[str]:
    return {name for name, c in assigned(cl.constrain(net, rules)).items() if c != cl.Free()}


def test_class_rule_fits_the_model_itself() -> None:
    assert constrained_names(nn.Linear(2, 2), {nn.Linear: CIRCLE}) == {"weight"}


def test_first_rule_wins() -> None:
    assert constrained({"layers.0.weight": SPHERE, nn.Linear: CIRCLE})["layers.0.weight"] == SPHERE
    assert constrained({nn.Linear: CIRCLE, "layers.0.weight": SPHERE})["layers.0.weight"] == CIRCLE


def test_none_leaves_free() -> None:
    names = constrained({"head.*": None, nn.Linear: CIRCLE})
    assert set(names) == {"layers.0.weight", "layers.1.weight"}


def test_one_group_for_each_constraint_and_one_for_the_rest() -> None:
    rules = {
        "head.weight": cl.Circle(10),
        "conv.weight": cl.Sphere(100.0),
        "layers.*.weight": cl.Circle(10.0),
    }
    groups = cl.constrain(Net(), rules)
    assert {repr(group["constraint"]): len(group["params"]) for group in groups} == {
        "Circle(radius=10)": 3,
        "Sphere(radius=100, slack=True)": 1,
        "Free()": 6,
    }


def test_every_parameter_is_in_one_group() -> None:
    net = Net()
    members = [p for group in cl.constrain(net, {nn.Linear: CIRCLE}) for _, p in group["params"]]
    assert len(members) == len({id(p) for p in members}) == len(list(net.parameters()))


# ---- tied weights ---------------------------------------------------------------------------------


def tied() -> nn.Sequential:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    model[1].weight = model[0].weight
    return model


@pytest.mark.parametrize("rule", ["0.weight", "1.weight", "*.weight", nn.Linear, nn.Embedding], ids=str)
def test_tied_weight_answers_to_each_of_its_names(rule: str | type[nn.Module]) -> None:
    groups = cl.constrain(tied(), {rule: CIRCLE})
    assert assigned(groups) == {"0.weight": CIRCLE, "1.bias": cl.Free()}


def test_tied_weight_takes_the_first_rule_of_any_of_its_names() -> None:
    assert assigned(cl.constrain(tied(), {"1.weight": SPHERE, "0.weight": CIRCLE}))["0.weight"] == SPHERE


# ---- initialisation -------------------------------------------------------------------------------


def one(weight: Tensor) -> nn.ParameterDict:
    return nn.ParameterDict({"w": nn.Parameter(weight.clone())})


@pytest.mark.parametrize("constraint", [cl.Free(), cl.Circle(1.0), cl.Sphere(5.0)], ids=repr)
def test_init_keeps_feasible_weights(constraint: cl.Constraint) -> None:
    weight = 0.5 * torch.rand(3, 4)
    model = one(weight)
    cl.constrain(model, {"w": constraint})
    assert_identical(model["w"].detach(), weight)


def test_init_projects_rows_onto_the_sphere() -> None:
    weight = torch.randn(3, 2, 2)
    model = one(weight)
    cl.constrain(model, {"w": cl.Sphere(2.0, slack=False)})
    expected = 2 * weight / weight.flatten(1).norm(dim=1).view(3, 1, 1)
    torch.testing.assert_close(model["w"].detach(), expected)


def test_init_projects_onto_the_nearest_point_of_an_implicit_constraint() -> None:
    weight = torch.tensor([[3.0, 0.0, 0.0]])
    model = one(weight)
    cl.constrain(model, {"w": cl.Implicit(sphere_and_plane)})
    expected = weight - 1
    torch.testing.assert_close(model["w"].detach(), expected * 2**0.5 / expected.norm())


@pytest.mark.parametrize(
    ("constraint", "weight"),
    [
        (cl.Orthogonal(), torch.eye(3, 4).flip(1)),
        (cl.Sphere(1.0, slack=False), torch.eye(3, 4)),
        (cl.Circle(0.5), torch.full((3, 4), 0.1)),
        (cl.Implicit(sphere_and_plane), torch.tensor([[1.0, -1.0]])),
    ],
    ids=lambda value: repr(value) if isinstance(value, cl.Constraint) else "",
)
def test_without_init_feasible_weights_are_kept(constraint: cl.Constraint, weight: Tensor) -> None:
    model = one(weight)
    cl.constrain(model, {"w": constraint}, init=False)
    assert_identical(model["w"].detach(), weight)


def test_init_records_no_gradient() -> None:
    model = one(torch.randn(3, 3))
    cl.constrain(model, {"w": cl.Orthogonal()})
    assert model["w"].is_leaf
    assert model["w"].requires_grad
    assert model["w"].grad is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_init_keeps_the_dtype(dtype: torch.dtype) -> None:
    model = one(torch.randn(3, 3).to(dtype))
    groups = cl.constrain(model, {"w": cl.Orthogonal()})
    assert model["w"].dtype == dtype
    cl.CoLod(groups, 0.1)


# ---- on to the optimizer --------------------------------------------------------------------------


def test_names_travel_to_the_optimizer() -> None:
    opt = cl.CoLud(cl.constrain(Net(), {nn.Linear: CIRCLE}), 0.1, friction=1.0)
    names = [name for group in opt.param_groups for name in group["param_names"]]
    assert sorted(names) == sorted(name for name, _ in Net().named_parameters())
    assert set(cl.diagnostics.violation(opt)) == set(names)


def test_unnamed_parameters_are_called_by_their_place() -> None:
    weight = nn.Parameter(torch.full((2,), 3.0))
    with pytest.raises(cl.InfeasibleError, match=r"parameter 'param_groups\[0\]\.params\[0\]' \(2,\)"):
        cl.CoLod([{"params": [weight], "constraint": cl.Circle(1.0)}], 0.1)


def test_names_survive_a_state_dict() -> None:
    net = Net()
    opt = cl.CoLod(cl.constrain(net, {nn.Linear: CIRCLE}), 0.1)
    opt.load_state_dict(opt.state_dict())
    assert "head.weight" in cl.diagnostics.violation(opt)


def test_plain_lists_and_named_parameters_are_free() -> None:
    for params in (list(Net().parameters()), list(Net().named_parameters()), Net().parameters()):
        opt = cl.ConstrainedSGD(params, 0.1)
        assert opt.param_groups[0]["constraint"] == cl.Free()


@pytest.mark.parametrize("kind", [cl.CoLod, cl.ConstrainedSGD])
def test_groups_suit_every_optimizer(kind: type[torch.optim.Optimizer]) -> None:
    net = Net()
    opt = kind(cl.constrain(net, {nn.Linear: CIRCLE, nn.Conv2d: cl.Orthogonal()}), 0.1)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    opt.step()
    assert max(cl.diagnostics.violation(opt).values()) < 1e-5


def test_options_added_to_a_group_count() -> None:
    groups = cl.constrain(Net(), {nn.Linear: CIRCLE})
    groups[0]["lr"] = 0.5
    opt = cl.CoLod(groups, 0.1)
    assert [group["lr"] for group in opt.param_groups] == [0.5, 0.1]
