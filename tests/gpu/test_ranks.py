"""Ranks that share one CUDA device and meet over gloo: steps under FSDP2 and DDP are those of one process."""

import os
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import colangevin as cl
from colangevin.sharded import whole
from colangevin.step.fused.fused import Fused
from tests.ranks import run_ranks

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

STEPS = 6
BATCH = 64
# Every rank differentiates its own share of the batch, and gradients are sums in another order.
ROUNDING = 2e-5

RULES = {
    "0.weight": cl.Orthogonal(),  # tall: its parts move together
    "2.weight": cl.Orthogonal(),  # wide: moved by an owner
    "4.weight": cl.Sphere(3.0),
    "6.weight": cl.Sphere(1.0, slack=False),
    "8.weight": cl.Circle(0.4),
}

OPTIMIZERS = {
    "CoLud": lambda groups: cl.CoLud(groups, 0.2, friction=1.0, temperature=1e-4, splitting="BAOAB", seed=5),
    "CoLod": lambda groups: cl.CoLod(groups, 0.05, temperature=1e-4, seed=5),
    "ConstrainedSGD": lambda groups: cl.ConstrainedSGD(groups, 0.1, 0.9, temperature=1e-4, seed=5),
}


def network() -> nn.Sequential:
    """Layers whose rows three ranks do not share evenly."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(40, 130),
        nn.Tanh(),
        nn.Linear(130, 50),
        nn.Tanh(),
        nn.Linear(50, 33),
        nn.Tanh(),
        nn.Linear(33, 20),
        nn.Tanh(),
        nn.Linear(20, 7),
    )
    with torch.no_grad():
        model[6].weight.div_(model[6].weight.norm(dim=1, keepdim=True))
    return model.cuda()


def train(model: nn.Module, optimizer: Any, rank: int = 0, ranks: int = 1) -> None:
    for step in range(STEPS):
        draw = torch.Generator().manual_seed(step)
        x, y = torch.randn(BATCH, 40, generator=draw), torch.randint(7, (BATCH,), generator=draw)
        mine = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[mine].cuda()), y[mine].cuda()).backward()
        optimizer.step()


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {
        name.removeprefix("module."): whole(parameter.detach()).cpu()
        for name, parameter in model.named_parameters()
    }


Trained = tuple[dict[str, Tensor], dict[str, float], set[str]]


def _trained(rank: int, ranks: int, kind: str, ways: str) -> Trained:
    """Weights after training, violations, and which parameters took a fused step."""
    os.environ["LOCAL_RANK"] = "0"
    torch.cuda.set_device(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    fused: set[str] = set()
    advance = Fused.advance

    def seen(mover: Fused) -> None:
        for entry in mover.entries:
            assert not isinstance(entry.parameter, DTensor)
            assert entry.parameter.data_ptr() != 0 or not entry.parameter.numel()
            fused.add(entry.name)
        advance(mover)

    Fused.advance = seen
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\..*")
        model: nn.Module = network()
        if ways == "DDP":
            model = DistributedDataParallel(model, device_ids=[0])
        else:
            model = fully_shard(model, mesh=init_device_mesh("cuda", (ranks,)))
        optimizer = OPTIMIZERS[kind](cl.constrain(model, RULES))
        train(model, optimizer, rank, ranks)
        return weights(model), cl.diagnostics.violation(optimizer), fused


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("ways", ["FSDP", "DDP"])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_ranks_on_one_device_train_as_one_process(kind: str, ways: str, ranks: int) -> None:
    model = network()
    optimizer = OPTIMIZERS[kind](cl.constrain(model, RULES))
    train(model, optimizer)
    expected = weights(model)
    for found, violations, _ in run_ranks(_trained, ranks, ranks, kind, ways):
        assert max(violations.values()) < 2e-5
        for name, weight in expected.items():
            torch.testing.assert_close(found[name], weight, rtol=0, atol=ROUNDING, msg=name)


@pytest.mark.parametrize("ways", ["FSDP", "DDP"])
def test_ranks_on_one_device_take_fused_steps_of_their_local_tensors(ways: str) -> None:
    results = run_ranks(_trained, 2, 2, "CoLud", ways)
    alone = {name for name in weights(network()) if name not in ("0.weight", "2.weight")}
    for _, _, fused in results:
        assert alone <= fused, ways
    assert any("2.weight" in fused for _, _, fused in results)  # by its owner
    if ways == "DDP":
        assert all("0.weight" in fused for _, _, fused in results)
