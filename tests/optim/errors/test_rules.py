"""Rules of ``constrain`` that fit nothing, and constraints that do not fit their parameter."""

import re

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.optim.errors.words import colud, parameter, words
from tests.optim_db import assert_identical


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("rule", "word"), [("layers.*", "'layers.*'"), ("weight", "'weight'"), (nn.Conv2d, "Conv2d")]
)
def test_rule_that_fits_nothing_lists_the_names(rule: object, word: str) -> None:
    names = "0.weight, 0.bias, 2.weight, 2.bias"
    message = words(f"rule {word} fits no parameter of Sequential.", f"Its parameters are: {names}.")
    with pytest.raises(cl.ConstraintError, match=message):
        cl.constrain(model(), {"0.weight": cl.Circle(1.0), rule: cl.Orthogonal()})


@pytest.mark.parametrize("rule", [5, None, int, nn.Linear(2, 2), (5,), ("0.weight", nn.Linear)], ids=repr)
def test_rule_of_a_wrong_type(rule: object) -> None:
    with pytest.raises(
        TypeError, match="must be a glob on parameter names, a module class or a tuple of names"
    ):
        cl.constrain(model(), {rule: cl.Circle(1.0)})


@pytest.mark.parametrize("rule", ["0.weight", nn.Linear, 5])
def test_rule_that_leads_to_no_constraint(rule: object) -> None:
    word = rule.__name__ if isinstance(rule, type) else repr(rule)
    with pytest.raises(TypeError, match=words(f"rule {word}", "0.5 is not a constraint", "cl", "or None")):
        cl.constrain(model(), {rule: 0.5})


@pytest.mark.parametrize("constraint", [cl.Circle, "circle", None, 1.0], ids=repr)
def test_group_whose_constraint_is_none(constraint: object) -> None:
    message = words("constraint=", "in param_groups[0]: must be a constraint such as", "Circle(0.05)")
    with pytest.raises(TypeError, match=message):
        colud(parameter(1.0), constraint)


@pytest.mark.parametrize("shape", [(), (4,)])
def test_too_few_dimensions_for_orthogonality(shape: tuple[int, ...]) -> None:
    message = words(f"parameter 'w' {shape}: Orthogonal needs a weight with at least 2 dimensions", "Circle")
    with pytest.raises(cl.ConstraintError, match=message):
        colud(nn.Parameter(torch.ones(shape)), cl.Orthogonal())
    with pytest.raises(cl.ConstraintError, match=message):
        cl.constrain(nn.ParameterDict({"w": nn.Parameter(torch.ones(shape))}), {"w": cl.Orthogonal()})


def test_bad_shape_is_found_before_any_weight_is_initialised() -> None:
    net = model()
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(cl.ConstraintError, match=re.escape("parameter '2.bias' (2,)")):
        cl.constrain(net, {"0.weight": cl.Orthogonal(), "2.bias": cl.Orthogonal()})
    assert_identical([p.detach() for p in net.parameters()], before)


def test_complex_parameter() -> None:
    weight = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(cl.ConstraintError, match=words("parameter 'w' (2,): complex", "view_as_real")):
        colud(weight, cl.Free())


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_integer_parameter(dtype: torch.dtype) -> None:
    weight = nn.Parameter(torch.ones(2, dtype=dtype), requires_grad=False)
    with pytest.raises(cl.ConstraintError, match=words("parameter 'w' (2,)", str(dtype), "use float64")):
        colud(weight, cl.Circle(2.0))
