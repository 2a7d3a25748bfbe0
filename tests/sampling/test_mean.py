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


def run(model, groups, steps):
    """Sample around the start, and keep all weights."""
    opt = cl.CoLod(groups, 0.01, temperature=0.3, seed=0)
    mean = cl.RunningMean(opt)
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


def test_it_resumes():
    torch.manual_seed(0)
    model = nn.Linear(3, 4)
    mean, _, opt = run(model, cl.constrain(model, {"weight": cl.Orthogonal()}), 5)
    other = cl.RunningMean(opt)
    other.load_state_dict(mean.state_dict())
    for each in (mean, other):
        each.update()
    assert mean.count == other.count == 6
    assert torch.equal(mean.weights()["weight"], other.weights()["weight"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": None}, r"state_dict: count=None must be a whole number, with means by name\. Load what"),
        ({"count": -1}, r"state_dict: count=-1 must be"),
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


def test_a_mean_without_a_nearest_point_is_named():
    weight = nn.Parameter(torch.tensor([[1.0, 0.0]]))
    opt = cl.CoLod([{"params": [("w", weight)], "constraint": cl.Sphere(1.0, slack=False)}], 0.1)
    mean = cl.RunningMean(opt)
    mean.update()
    with torch.no_grad():
        weight.neg_()
    mean.update()
    with pytest.raises(cl.InfeasibleError, match=r"parameter 'w' \(1, 2\): row norms lie between 0 and 0"):
        mean.weights()
