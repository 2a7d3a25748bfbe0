"""What ``Replicas`` refuses, and with which words."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.replicas.models import BATCH, N, batch, mlp


@pytest.mark.parametrize("n", [0, -1, 2.0, True, None])
def test_n_must_be_a_positive_whole_number(n):
    with pytest.raises(cl.ConstraintError, match=r"n=.*: must be a whole number, at least 1"):
        cl.Replicas(mlp, n)


def test_seed_must_be_a_whole_number():
    with pytest.raises(cl.ConstraintError, match=r"seed=0.5: must be a whole number or None"):
        cl.Replicas(mlp, 2, seed=0.5)


def test_build_must_make_new_modules():
    with pytest.raises(TypeError, match=r"build: returned Tensor; it must return a torch.nn.Module"):
        cl.Replicas(lambda: torch.zeros(3), 2)
    model = mlp()
    with pytest.raises(TypeError, match="build: returned one module twice"):
        cl.Replicas(lambda: model, 2)


def test_build_must_make_something_that_can_differ():
    with pytest.raises(cl.ConstraintError, match="build: the model has no parameter or buffer"):
        cl.Replicas(nn.ReLU, 2)


def test_build_must_make_one_architecture():
    widths = iter([3, 4])
    with pytest.raises(
        cl.ConstraintError,
        match=r"tensor 'weight' has shape \(4, 2\) in replica 1 and \(3, 2\) in replica 0",
    ):
        cl.Replicas(lambda: nn.Linear(2, next(widths)), 2)


def test_lazy_modules_are_refused():
    with pytest.raises(
        cl.ConstraintError, match=r"parameter 'weight' has no shape yet. Run the model on one batch"
    ):
        cl.Replicas(lambda: nn.LazyLinear(2), 2)


def test_a_batch_for_each_replica_must_count_them():
    replicas = cl.Replicas(mlp, N)
    with pytest.raises(
        cl.ConstraintError, match=r"input of shape \(5, 4\) with per_replica=True: dimension 0 must be 3"
    ):
        replicas(batch(mlp), per_replica=True)


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: nn.LSTM(4, 3), "LSTM cannot run as replicas: Batching rule not implemented for aten::lstm"),
        (lambda: nn.Sequential(nn.Linear(4, 4), Branching()), "data-dependent control flow"),
        (
            lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None)),
            r"calling .item\(\) on a Tensor",
        ),
    ],
)
def test_what_cannot_be_batched_is_said(build, reason):
    replicas = cl.Replicas(build, N)
    with pytest.raises(cl.ConstraintError, match=rf"{reason}.*train the copies apart"):
        replicas(torch.randn(BATCH, 4))


def test_other_errors_of_the_model_pass_through():
    with pytest.raises(RuntimeError, match="Expected size for first two dimensions"):
        cl.Replicas(mlp, N)(torch.randn(BATCH, 3))
