"""Rows are output units, whichever dimension of a layer's weight counts them."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.optim.outputs import transposed_groups

pytest.importorskip("transformers")
from transformers.pytorch_utils import Conv1D


def outputs(layer: nn.Module) -> Tensor:
    """The weight with one row an output, from what the layer does: it is linear."""
    if isinstance(layer, Conv1D):
        return layer(torch.eye(layer.weight.shape[0])).detach().T - layer.bias.detach()[:, None]
    weight = layer.weight.detach()
    apart = weight.unflatten(0, (layer.groups, -1)).transpose(1, 2)
    return apart.reshape(layer.out_channels, -1)


LAYERS = {
    "1d": lambda: nn.ConvTranspose1d(4, 6, 3),
    "2d": lambda: nn.ConvTranspose2d(4, 6, 3),
    "3d": lambda: nn.ConvTranspose3d(4, 6, 2),
    "groups": lambda: nn.ConvTranspose2d(4, 6, 3, groups=2),
    "depthwise": lambda: nn.ConvTranspose2d(4, 4, 3, groups=4),
    "Conv1D": lambda: Conv1D(6, 4),
}


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("by", ["class", "glob"])
def test_rows_are_outputs(kind, by):
    model = nn.Sequential(LAYERS[kind](), nn.Linear(3, 5))
    rule = type(model[0]) if by == "class" else "0.weight"
    groups = cl.constrain(model, {rule: cl.Sphere(0.7, slack=False), "1.weight": cl.Sphere(0.7, slack=False)})
    norms = outputs(model[0]).norm(dim=1)
    assert torch.allclose(norms, torch.full_like(norms, 0.7), atol=1e-6)
    assert torch.allclose(model[1].weight.norm(dim=1), torch.full((5,), 0.7))
    assert {
        group["constraint"].transposed for group in groups if "radius" in group["constraint"].describe()
    } == {
        0,
        getattr(model[0], "groups", 1),
    }


@pytest.mark.parametrize("kind", LAYERS)
def test_steps_keep_outputs_on_their_spheres(kind):
    layer = LAYERS[kind]()
    optimizer = cl.ConstrainedSGD(cl.constrain(layer, {"weight": cl.Sphere(0.7, slack=False)}), 0.1, 0.9)
    for _ in range(3):
        layer.weight.grad = torch.randn_like(layer.weight)
        optimizer.step()
    norms = outputs(layer).norm(dim=1)
    assert torch.allclose(norms, torch.full_like(norms, 0.7), atol=1e-6)


def test_columns_are_inputs():
    layer = Conv1D(6, 4)
    cl.constrain(layer, {"weight": cl.Sphere(0.7, slack=False, over="columns")})
    assert torch.allclose(layer.weight.norm(dim=1), torch.full((4,), 0.7))


def test_a_whole_weight_is_turned_for_muon():
    (held, _) = cl.constrain(LAYERS["2d"](), {"weight": cl.Sphere(over="matrix")})
    assert held["constraint"].transposed == 1


def test_replicas_have_the_orientation_of_their_model():
    replicas = cl.Replicas(lambda: nn.ConvTranspose2d(4, 6, 3), 2, seed=0)
    replicas.constrain({nn.ConvTranspose2d: cl.Sphere(0.7, slack=False)})
    for i in range(2):
        assert torch.allclose(outputs(replicas[i]).norm(dim=1), torch.full((6,), 0.7))


def test_a_weight_of_layers_of_both_kinds_is_taken_as_it_is():
    model = nn.ModuleList([Conv1D(6, 4), nn.Linear(6, 4)])
    model[1].weight = model[0].weight
    assert transposed_groups(model) == {}


def test_a_class_of_the_same_name_elsewhere_is_another():
    assert transposed_groups(type("Conv1D", (nn.Linear,), {})(3, 4)) == {}


def test_suggested_radii_are_those_of_outputs():
    layer = LAYERS["groups"]()
    (row,) = cl.suggest(layer).rows
    assert row.largest_row == pytest.approx(float(outputs(layer).norm(dim=1).max()))
    assert row.remark == ""
    assert cl.suggest(Conv1D(6, 4)).rows[0].remark == ""
