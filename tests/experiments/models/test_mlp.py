import pytest
import torch

from colangevin.experiments.models.mlp import MLP


def test_square_weights_are_those_between_hidden_layers():
    model = MLP(depth=4, width=5, outputs=3)
    parameters = dict(model.named_parameters())
    assert model.square_weights == ["hidden.1.weight", "hidden.2.weight", "hidden.3.weight"]
    assert all(parameters[name].shape == (5, 5) for name in model.square_weights)
    assert model(torch.zeros(7, 2)).shape == (7, 3)


def test_mlp_without_hidden_layer_is_refused():
    with pytest.raises(ValueError, match="depth=0: an MLP needs at least 1 hidden layer"):
        MLP(depth=0)
