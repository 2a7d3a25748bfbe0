"""The running mean: an average on the manifold."""

import pytest
import torch
from torch import nn

import colangevin as cl

RULES = {
    "circle": cl.Circle(0.9),
    "sphere": cl.Sphere(1.5),
    "sphere, no slack": cl.Sphere(0.7, slack=False),
    "orthogonal": cl.Orthogonal(),
    "implicit": cl.Implicit(lambda w: w.square().sum() - 2),
    "free": None,
}


def run(model, groups, steps, decay=None):
    """Sample around the start, and keep all weights."""
    opt = cl.CoLod(groups, 0.01, temperature=0.3, seed=0)
    mean = cl.RunningMean(opt, decay=decay)
    kept = []
    start = [parameter.detach().clone() for parameter in model.parameters()]
    for _ in range(steps):
        for parameter, origin in zip(model.parameters(), start, strict=True):
            parameter.grad = 3 * (parameter.detach() - origin)
        opt.step()
        mean.update()
        kept.append({name: p.detach().clone() for name, p in model.named_parameters()})
    return mean, kept, opt


def plain_mean(kept, name):
    return torch.stack([weights[name] for weights in kept]).mean(0)


@pytest.mark.parametrize("name", RULES)
def test_the_mean_is_the_nearest_point_to_the_plain_one(name):
    torch.manual_seed(0)
    model = nn.Linear(3, 4, dtype=torch.float64)
    with torch.no_grad():
        model.weight.mul_(0.5)
    mean, kept, _ = run(model, cl.constrain(model, {"weight": RULES[name]}), 30)
    weights, plain = mean.weights(), plain_mean(kept, "weight")
    torch.testing.assert_close(weights["bias"], plain_mean(kept, "bias"))
    constraint = RULES[name] or cl.Free()
    assert constraint.violation(weights["weight"]) <= 1e-12
    if name == "orthogonal":
        U, _, Vt = torch.linalg.svd(plain, full_matrices=False)
        expected = U @ Vt
    elif name == "sphere, no slack":
        expected = 0.7 * plain / plain.norm(dim=1, keepdim=True)
    elif name == "implicit":
        expected = 2**0.5 * plain / plain.norm()
    else:
        expected = plain
    torch.testing.assert_close(weights["weight"], expected)
    model.load_state_dict(weights, strict=False)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 1 - 1e-12])
def test_an_exponential_mean_is_a_convex_combination_of_the_weights(decay):
    model = nn.Linear(3, 4, dtype=torch.float64)
    mean, kept, _ = run(model, cl.constrain(model, {}), 12, decay)
    shares = torch.tensor([decay ** (12 - k) for k in range(1, 13)], dtype=torch.float64)
    shares /= shares.sum()
    weights = torch.stack([each["weight"] for each in kept])
    expected = (shares.view(-1, 1, 1) * weights).sum(0)
    torch.testing.assert_close(mean.weights()["weight"], expected, rtol=1e-13, atol=1e-13)


def test_the_first_weight_alone_is_its_mean():
    model = nn.Linear(3, 4)
    mean, kept, _ = run(model, cl.constrain(model, {}), 1, 0.999)
    assert torch.equal(mean.weights()["weight"], kept[0]["weight"])


@pytest.mark.parametrize("name", RULES)
def test_an_exponential_mean_ends_on_the_manifold(name):
    model = nn.Linear(3, 4, dtype=torch.float64)
    with torch.no_grad():
        model.weight.mul_(0.5)
    groups = cl.constrain(model, {"weight": RULES[name]})
    mean, _, _ = run(model, groups, 30, 0.8)
    constraint = RULES[name] or cl.Free()
    assert constraint.violation(mean.weights()["weight"]) <= 1e-12
    # the mean as it is before projection, by the other way
    model.load_state_dict(mean.state_dict()["means"])
    if name in ("sphere, no slack", "orthogonal", "implicit"):
        assert constraint.violation(model.weight) > 1e-3
    cl.project_(model, groups)
    torch.testing.assert_close(model.weight.detach(), mean.weights()["weight"], rtol=1e-13, atol=1e-13)


def test_weights_within_bounds_keep_the_bits_of_their_mean():
    model = nn.Linear(3, 4)
    mean, _, _ = run(model, cl.constrain(model, {"weight": cl.Circle(1.0), "bias": cl.Sphere(2.0)}), 9, 0.7)
    weights = mean.weights()
    assert all(torch.equal(each, weights[name]) for name, each in mean.state_dict()["means"].items())


def test_weights_are_not_changed_by_later_updates():
    model = nn.Linear(3, 4)
    mean, _, opt = run(model, cl.constrain(model, {}), 3)
    weights = mean.weights()
    before = {name: weight.clone() for name, weight in weights.items()}
    opt.step()
    mean.update()
    assert all(torch.equal(before[name], weight) for name, weight in weights.items())


def test_replicas_are_averaged_apart():
    replicas = cl.Replicas(lambda: nn.Linear(3, 4).double(), 3, seed=0)
    mean, kept, _ = run(replicas, replicas.constrain({"weight": cl.Orthogonal()}), 20)
    weights = mean.weights()["weight"]
    U, _, Vt = torch.linalg.svd(plain_mean(kept, "weight"), full_matrices=False)
    torch.testing.assert_close(weights, U @ Vt)


def test_coarse_weights_are_averaged_in_float32():
    model = nn.Linear(30, 40).bfloat16()
    mean, kept, _ = run(model, cl.constrain(model, {"weight": cl.Circle(2.0)}), 50)
    weights = mean.weights()["weight"]
    assert weights.dtype == torch.bfloat16
    exact = torch.stack([each["weight"].double() for each in kept]).mean(0)
    torch.testing.assert_close(weights.double(), exact, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("decay", [None, 0.9])
def test_it_resumes(decay):
    torch.manual_seed(0)
    model = nn.Linear(3, 4)
    mean, _, opt = run(model, cl.constrain(model, {"weight": cl.Orthogonal()}), 5, decay)
    other = cl.RunningMean(opt, decay=decay)
    other.load_state_dict(mean.state_dict())
    for each in (mean, other):
        each.update()
    assert mean.count == other.count == 6
    assert torch.equal(mean.weights()["weight"], other.weights()["weight"])


def test_a_state_of_a_plain_mean_from_before_there_was_a_decay_loads():
    model = nn.Linear(3, 4)
    mean, _, opt = run(model, cl.constrain(model, {}), 5)
    before = mean.state_dict()
    del before["decay"]
    other = cl.RunningMean(opt)
    other.load_state_dict(before)
    assert torch.equal(mean.weights()["weight"], other.weights()["weight"])
    with pytest.raises(cl.ConstraintError, match=r"decay=None there, 0\.9 here\. Build .*decay=None\)"):
        cl.RunningMean(opt, decay=0.9).load_state_dict(before)


def test_a_state_whose_names_have_the_prefixes_of_wrappers_loads():
    model = nn.Linear(3, 4)
    mean, _, opt = run(model, cl.constrain(model, {}), 5)
    state = mean.state_dict()
    state["means"] = {f"module.{name}": each for name, each in state["means"].items()}
    other = cl.RunningMean(opt)
    other.load_state_dict(state)
    assert torch.equal(mean.weights()["weight"], other.weights()["weight"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": None}, r"state_dict: count=None must be a whole number, with means by name\. Load what"),
        ({"count": -1}, r"state_dict: count=-1 must be"),
        (
            {"decay": 0.5},
            r"state_dict: decay=0\.5 there, None here\. Build RunningMean\(optimizer, decay=0\.5\)",
        ),
        ({"means": None}, r"must be a whole number, with means by name"),
        ({"means": {}}, r"state_dict: the mean of 'weight' is missing there, the parameter \(4, 3\) here"),
        (
            {"means": {"weight": torch.zeros(4, 4)}},
            r"the mean of 'weight' is \(4, 4\) there, .* Use the model",
        ),
        ({"count": 0}, r"the mean of 'weight' is \(4, 3\) there, the parameter missing here"),
    ],
)
def test_a_state_of_something_else_changes_nothing(change, message):
    model = nn.Linear(3, 4)
    mean, _, _ = run(model, cl.constrain(model, {"weight": cl.Circle(1.0)}), 2)
    before, state = mean.weights(), mean.state_dict()
    with pytest.raises(cl.ConstraintError, match=message):
        mean.load_state_dict({**state, **change})
    assert mean.count == 2
    assert all(torch.equal(before[name], weight) for name, weight in mean.weights().items())


def test_errors():
    model = nn.Linear(3, 4)
    with pytest.raises(cl.ConstraintError, match=r"param_groups\[0\]: its parameters have no names"):
        cl.RunningMean(cl.CoLod(model.parameters(), 0.1))
    mean = cl.RunningMean(cl.CoLod(model.named_parameters(), 0.1))
    with pytest.raises(cl.ConstraintError, match=r"running mean: update\(\) was never called"):
        mean.weights()


@pytest.mark.parametrize("decay", [1, 1.0, -0.1, float("nan"), True, "0.9"])
def test_a_decay_out_of_range(decay):
    opt = cl.CoLod(nn.Linear(3, 4).named_parameters(), 0.1)
    with pytest.raises(
        cl.ConstraintError, match=rf"decay={decay!r}: must be a number, at least 0 and below 1"
    ):
        cl.RunningMean(opt, decay=decay)


def test_a_mean_without_a_nearest_point_is_named():
    weight = nn.Parameter(torch.tensor([[1.0, 0.0]]))
    opt = cl.CoLod([{"params": [("w", weight)], "constraint": cl.Sphere(1.0, slack=False)}], 0.1)
    mean = cl.RunningMean(opt)
    mean.update()
    with torch.no_grad():
        weight.neg_()
    mean.update()
    with pytest.raises(cl.InfeasibleError, match=r"parameter 'w' \(1, 2\): 1 rows have norm 0"):
        mean.weights()
