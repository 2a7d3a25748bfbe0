"""Parameters that one constraint holds together, beside DTensors: they have to be whole themselves."""

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import colangevin as cl
from tests.optim.autoencoders import BALANCED, BOTH, PAIR, AutoEncoder, data, flat
from tests.sharding.simulated import outcomes_of

RANKS = 2


def trained(*, sharded: bool) -> torch.Tensor:
    """Both weights after three steps with noise, beside a weight that is spread over the ranks or whole."""
    model = AutoEncoder()
    groups = cl.constrain(model, {PAIR: BALANCED}, init="nearest")
    other = torch.eye(4, 3, dtype=torch.float64)
    if sharded:
        other = distribute_tensor(other, init_device_mesh("cpu", (RANKS,)), [Shard(0)])
    parameter = nn.Parameter(other)
    groups.append({"params": [("other", parameter)], "constraint": cl.Circle(2.0)})
    optimizer = cl.CoLud(groups, 0.1, friction=1.0, temperature=0.1, seed=1)
    for _ in range(3):
        optimizer.zero_grad()
        model(data()).square().mean().backward()
        parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    assert optimizer.state[model.encoder.weight]["momentum"].shape == (24,)
    assert model.decoder.weight not in optimizer.state
    return flat(model)


def test_whole_ones_beside_a_dtensor_move_as_without_it() -> None:
    expected = trained(sharded=False)
    for found in outcomes_of(lambda rank: trained(sharded=True), RANKS):
        if isinstance(found, Exception):
            raise found
        assert torch.equal(found, expected)


def test_a_sharded_one_is_refused() -> None:
    def build(rank: int) -> None:
        model = AutoEncoder()
        mesh = init_device_mesh("cpu", (RANKS,))
        weight = distribute_tensor(model.decoder.weight.detach(), mesh, [Shard(0)])
        model.decoder.weight = nn.Parameter(weight)
        cl.constrain(model, {PAIR: BALANCED}, init="nearest")

    message = (
        rf"parameter 'decoder.weight' \(4, 3\): is a DTensor, and Implicit.* holds it together with others "
        rf"\({BOTH}\).*leave these parameters out of fully_shard and parallelize_module"
    )
    for outcome in outcomes_of(build, RANKS):
        with pytest.raises(cl.ConstraintError, match=message):
            raise outcome
