"""Shards of a weight are refused by name: what holds for a part says nothing about the whole."""

import sys
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn

import colangevin as cl
from colangevin.sharded import refuse_sharded
from tests.ranks import errors_of_ranks

NAMES_AND_ADVICE = r"parameter 'w' \(4, 3\): is a DTensor.*constraints need the whole weight.*before it is "


@pytest.fixture
def process_group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def dtensor(process_group):
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (1,))
    return nn.Parameter(distribute_tensor(torch.eye(4, 3), mesh, [Shard(0)]))


def test_a_dtensor_is_refused(dtensor):
    with pytest.raises(cl.ConstraintError, match=NAMES_AND_ADVICE):
        refuse_sharded(dtensor, "w")


@pytest.mark.parametrize(
    "constraint", [cl.Circle(2.0), cl.Sphere(2.0), cl.Sphere(1.0, slack=False), cl.Orthogonal()], ids=repr
)
def test_every_question_about_a_dtensor_is_refused(dtensor, constraint):
    model = nn.ParameterDict({"w": dtensor})
    for call in (
        lambda: constraint.violation(dtensor),
        lambda: constraint.check(dtensor, name="w"),
        lambda: constraint.init_(dtensor, name="w"),
        lambda: cl.constrain(model, {"w": constraint}),
    ):
        with pytest.raises(cl.ConstraintError, match=r"\(4, 3\): is a DTensor"):
            call()


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
