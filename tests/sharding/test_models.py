"""Models under FSDP2, tensor parallelism and both: trained, saved and loaded as people do it."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import colangevin as cl
from colangevin.sharded import whole
from tests.ranks import run_ranks

RULES = {
    "0.weight": cl.Orthogonal(),
    "2.weight": cl.Sphere(3.0),
    "4.weight": cl.Circle(1.0),
}
LOSS_AFTER = 4


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 7), nn.ReLU(), nn.Linear(7, 3))


def optimizer_of(model: nn.Module, kind: str) -> Any:
    groups = cl.constrain(model, RULES)
    if kind == "CoLud":
        return cl.CoLud(groups, 0.2, friction=1.0, temperature=1e-3, splitting="BAOAB", seed=5)
    if kind == "CoLod":
        return cl.CoLod(groups, 0.05, temperature=1e-3, seed=5)
    return cl.ConstrainedSGD(groups, 0.1, 0.9, temperature=1e-3, seed=5)


def train(model: nn.Module, optimizer: Any, first: int, last: int) -> None:
    """Steps on batches that are the same on every rank, so that averaged gradients are those of one."""
    for step in range(first, last):
        draw = torch.Generator().manual_seed(step)
        x, y = torch.randn(16, 6, generator=draw), torch.randint(3, (16,), generator=draw)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: whole(p.detach()).clone() for name, p in model.named_parameters()}


def sharded(ways: str, ranks: int) -> nn.Module:
    """The network, spread over the ranks."""
    model = network()
    if ways == "FSDP":
        return fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    if ways == "HSDP":
        return fully_shard(
            model, mesh=init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("copies", "parts"))
        )
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    if ways == "TP":
        return parallelize_module(model, init_device_mesh("cpu", (ranks,)), plan)
    mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("data", "tensor"))
    parallelize_module(model, mesh["tensor"], plan)
    return fully_shard(model, mesh=mesh["data"])


def _trained(rank: int, kind: str, ways: str, ranks: int) -> dict[str, Tensor]:
    model = sharded(ways, ranks)
    optimizer = optimizer_of(model, kind)
    train(model, optimizer, 0, LOSS_AFTER)
    assert max(cl.diagnostics.violation(optimizer).values()) < 1e-5
    return weights(model)


@pytest.mark.parametrize("ways", ["FSDP", "TP", "HSDP", "FSDP and TP"])
def test_a_sharded_model_is_trained_as_on_one_process(ways: str) -> None:
    ranks = 4 if ways in ("HSDP", "FSDP and TP") else 2
    model = network()
    optimizer = optimizer_of(model, "CoLud")
    train(model, optimizer, 0, LOSS_AFTER)
    for found in run_ranks(_trained, ranks, "CoLud", ways, ranks):
        for name, weight in weights(model).items():
            torch.testing.assert_close(found[name], weight, rtol=0, atol=3e-6)


def _saved(rank: int, kind: str, ways: str, ranks: int, folder: str) -> dict[str, Tensor]:
    model = sharded(ways, ranks)
    optimizer = optimizer_of(model, kind)
    train(model, optimizer, 0, 2)
    held, state = get_state_dict(model, optimizer)
    dcp.save({"model": held, "optimizer": state}, checkpoint_id=folder)
    train(model, optimizer, 2, LOSS_AFTER)
    return weights(model)


def _resumed(rank: int, kind: str, ways: str, ranks: int, folder: str) -> dict[str, Tensor]:
    model = sharded(ways, ranks) if ranks > 1 else network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    optimizer = optimizer_of(model, kind)
    held, state = get_state_dict(model, optimizer)
    saved = {"model": held, "optimizer": state}
    dcp.load(saved, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
    train(model, optimizer, 2, LOSS_AFTER)
    return weights(model)


@pytest.mark.parametrize("kind", ["CoLud", "CoLod", "ConstrainedSGD"])
def test_a_checkpoint_of_four_ranks_goes_on_with_two_and_with_one(kind: str, tmp_path: Path) -> None:
    expected = run_ranks(_saved, 4, kind, "FSDP", 4, str(tmp_path))[0]
    again = run_ranks(_resumed, 4, kind, "FSDP", 4, str(tmp_path))[0]
    for name, weight in expected.items():
        assert torch.equal(again[name], weight), name
    for ranks in (2, 1):
        for found in run_ranks(_resumed, ranks, kind, "FSDP", ranks, str(tmp_path)):
            for name, weight in expected.items():
                torch.testing.assert_close(found[name], weight, rtol=0, atol=3e-6)
