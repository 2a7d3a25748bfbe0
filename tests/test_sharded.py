"""DTensors are taken as whole weights; flat shards, which have neither rows nor columns, are refused."""

import sys
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn

import colangevin as cl
from colangevin.sharded import everywhere, is_sharded, part, refuse_sharded, whole, write_
from tests.ranks import errors_of_ranks, run_ranks


@pytest.fixture
def process_group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


CONSTRAINTS = [cl.Circle(2.0), cl.Sphere(2.0), cl.Sphere(1.0, slack=False), cl.Orthogonal()]


def spread(values):
    """A tensor of which each rank holds some rows."""
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    return distribute_tensor(values.clone(), init_device_mesh("cpu", (dist.get_world_size(),)), [Shard(0)])


def reads_and_writes(rank):
    values = torch.arange(15.0).view(5, 3)
    dtensor = spread(values)
    rows = slice(0, 3) if rank == 0 else slice(3, 5)
    assert is_sharded(dtensor)
    assert not is_sharded(values)
    assert torch.equal(part(dtensor), values[rows])
    assert part(values) is values
    assert torch.equal(whole(dtensor), values)
    assert whole(values) is values
    for tensor in (dtensor, values):
        write_(tensor, torch.full((5, 3), 7.0))
        assert torch.equal(whole(tensor), torch.full((5, 3), 7.0))
    assert everywhere(dtensor, True)
    assert not everywhere(dtensor, rank == 0)
    assert everywhere(values, rank == 0) == (rank == 0)


def test_a_dtensor_is_read_and_written_as_a_whole():
    run_ranks(reads_and_writes, 2)


def asks_about_the_whole(rank):
    start = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)) / 2
    for constraint in CONSTRAINTS:
        plain, dtensor = start.clone(), spread(start)
        assert constraint.violation(dtensor) == constraint.violation(plain)
        plain, dtensor = nn.ParameterDict({"w": plain}), nn.ParameterDict({"w": nn.Parameter(dtensor)})
        cl.constrain(plain, {"w": constraint})
        cl.constrain(dtensor, {"w": constraint})
        assert torch.equal(whole(dtensor["w"]), plain["w"]), constraint
        constraint.check(dtensor["w"], name="w")
        with torch.no_grad():
            part(dtensor["w"])[-1] += 3.0 * rank  # which the other rank cannot see
        with pytest.raises(cl.InfeasibleError, match=r"parameter 'w' \(4, 3\)"):
            constraint.check(dtensor["w"], name="w")
        constraint.init_(dtensor["w"], init="nearest", name="w")
        constraint.check(dtensor["w"], name="w")


def test_questions_about_a_dtensor_are_about_the_whole_weight():
    run_ranks(asks_about_the_whole, 2)


@pytest.mark.parametrize("original", [False, True])
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_flat_shard_is_refused(process_group, original):
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(nn.Linear(3, 2), use_orig_params=original, device_id=torch.device("cpu"))
    for name, parameter in model.named_parameters():
        flat = f"'{name}' .*flat shard of FullyShardedDataParallel.*fully_shard.*DistributedDataParallel"
        with pytest.raises(cl.ConstraintError, match=flat):
            refuse_sharded(parameter, name)
        with pytest.raises(cl.ConstraintError, match=flat):
            cl.CoLod([(name, parameter)], 0.1)
    with pytest.raises(cl.ConstraintError, match=r"flat shard of FullyShardedDataParallel.*fully_shard"):
        cl.constrain(model, {"*": cl.Circle(2.0)})


def cut_after_the_optimizer_was_built(rank):
    from torch.distributed.fsdp import FullyShardedDataParallel

    warnings.simplefilter("ignore")
    model = nn.Linear(3, 2)
    optimizer = cl.CoLod(cl.constrain(model, {"weight": cl.Circle(2.0)}), 0.1)
    sharded = FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
    sharded(torch.ones(3)).sum().backward()
    optimizer.step()


def test_a_weight_that_was_cut_after_the_optimizer_was_built():
    for error in errors_of_ranks(cut_after_the_optimizer_was_built, 2):
        with pytest.raises(
            cl.ConstraintError, match=r"parameter 'weight' .*flat shard of Fully.*fully_shard"
        ):
            raise error


def test_a_whole_weight_passes_and_imports_nothing():
    before = set(sys.modules)
    refuse_sharded(nn.Parameter(torch.eye(3)), "w")
    assert set(sys.modules) == before
