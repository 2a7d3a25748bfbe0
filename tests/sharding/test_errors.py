"""What cannot be right is an error on every rank, and nothing has moved."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import colangevin as cl
from tests.ranks import errors_of_ranks
from tests.sharding.simulated import outcomes_of


def spread(tensor: Tensor, ranks: int = 3, dim: int = 0) -> DTensor:
    return distribute_tensor(tensor.clone(), init_device_mesh("cpu", (ranks,)), [Shard(dim)])


def optimizer_of(constraint: cl.Constraint, weight: Tensor) -> tuple[Any, nn.Parameter]:
    parameter = nn.Parameter(weight)
    group = {"params": [("w", parameter)], "constraint": constraint}
    return cl.CoLud([group], 0.1, friction=1.0), parameter


def errors(function: Any, kind: type[Exception], match: str, ranks: int = 3) -> None:
    """Every rank raises the same kind of error; its text names what the match says."""
    for outcome in outcomes_of(function, ranks):
        with pytest.raises(kind, match=match):
            raise outcome


@pytest.mark.parametrize("constraint", [cl.Free(), cl.Circle(2.0), cl.Sphere(9.0), cl.Orthogonal()])
@pytest.mark.parametrize("segments", [1, 2])
def test_a_gradient_that_is_not_finite_on_one_rank_stops_all(
    constraint: cl.Constraint, segments: int
) -> None:
    start = torch.eye(7, 5)

    def step(rank: int) -> None:
        parameter = nn.Parameter(spread(start))
        groups = [{"params": [("w", parameter)], "constraint": constraint}]
        optimizer = cl.CoLud(groups, 0.1, friction=1.0, splitting="OBA" if segments == 1 else "BABO")

        def closure() -> None:
            optimizer.zero_grad()
            parameter.grad = spread(torch.ones(7, 5))
            calls.append(0)
            if len(calls) == segments and rank == 2:
                parameter.grad._local_tensor[0, 0] = torch.nan

        calls: list[int] = []
        before = parameter._local_tensor.clone()
        try:
            optimizer.step(closure)
        finally:
            assert torch.equal(parameter._local_tensor, before)
            assert optimizer.state[parameter]["step"] == 0

    errors(step, cl.NonFiniteError, r"parameter 'w' \(7, 5\): its gradient holds NaN or Inf")


def _only_there(w: Tensor) -> Tensor:
    """Entries that sum to 6, and NaN everywhere but where all are 1."""
    return (w.sum() - 6 + torch.where((w != 1).any(), torch.nan, 0.0)).reshape(1)


def test_a_constraint_that_finds_no_point_stops_all_ranks() -> None:
    def step(rank: int) -> None:
        optimizer, parameter = optimizer_of(cl.Implicit(_only_there), spread(torch.ones(3, 2)))
        parameter.grad = spread(torch.eye(3, 2))
        before = parameter._local_tensor.clone()
        try:
            optimizer.step()
        finally:
            assert torch.equal(parameter._local_tensor, before)

    errors(step, cl.ConvergenceError, r"parameter 'w' \(3, 2\)")


@pytest.mark.parametrize("constraint", [cl.Circle(2.0), cl.Orthogonal()])
def test_an_edit_of_one_rank_that_breaks_the_constraint_stops_all(constraint: cl.Constraint) -> None:
    def step(rank: int) -> None:
        optimizer, parameter = optimizer_of(constraint, spread(torch.eye(7, 5)))
        for edited in (False, True):
            if edited and rank == 1:
                parameter._local_tensor[0, 0] = 5.0
            parameter.grad = spread(torch.ones(7, 5))
            optimizer.step()

    errors(step, cl.InfeasibleError, r"parameter 'w'")


def test_a_gradient_on_some_ranks_only_stops_all() -> None:
    def step(rank: int) -> None:
        optimizer, parameter = optimizer_of(cl.Circle(2.0), spread(torch.eye(7, 5)))
        grad = spread(torch.ones(7, 5))
        parameter.grad = grad
        optimizer.step()
        parameter.grad = None if rank == 1 else grad
        optimizer.step()

    errors(step, cl.ConstraintError, "gradients: a parameter has one on some ranks and none on others")


def test_a_parameter_that_was_spread_anew_is_refused_with_its_old_state() -> None:
    def step(rank: int) -> None:
        optimizer, parameter = optimizer_of(cl.Circle(2.0), spread(torch.eye(7, 5)))
        parameter.grad = spread(torch.ones(7, 5))
        optimizer.step()
        anew = nn.Parameter(spread(torch.eye(7, 5), dim=1))
        anew.grad = spread(torch.ones(7, 5), dim=1)
        optimizer.param_groups[0]["params"] = [anew]
        optimizer.state[anew] = optimizer.state.pop(parameter)
        optimizer.step()

    errors(step, cl.ConstraintError, r"parameter 'w' \(7, 5\): its position lies on .* and should lie on")


def test_sums_that_nobody_has_taken_are_refused() -> None:
    def build(rank: int) -> None:
        mesh = init_device_mesh("cpu", (2,))
        optimizer_of(cl.Circle(2.0), DTensor.from_local(torch.eye(3), mesh, [Partial()]))

    errors(
        build,
        cl.ConstraintError,
        r"parameter 'w' \(3, 3\): is a DTensor with placement .*no process holds",
        2,
    )


def test_a_partial_gradient_is_summed() -> None:
    def step(rank: int) -> Tensor:
        mesh = init_device_mesh("cpu", (2,))
        optimizer, parameter = optimizer_of(
            cl.Circle(2.0), distribute_tensor(torch.eye(3), mesh, [Replicate()])
        )
        parameter.grad = DTensor.from_local(torch.full((3, 3), 0.5), mesh, [Partial()])
        optimizer.step()
        return parameter._local_tensor.detach().clone()

    optimizer, parameter = optimizer_of(cl.Circle(2.0), torch.eye(3))
    parameter.grad = torch.ones(3, 3)
    optimizer.step()
    for found in outcomes_of(step, 2):
        assert torch.equal(found, parameter)


def test_copies_that_differ_between_ranks_are_named() -> None:
    def step(rank: int) -> None:
        mesh = init_device_mesh("cpu", (2,))
        optimizer, parameter = optimizer_of(
            cl.Circle(2.0), DTensor.from_local(torch.eye(3) / (rank + 1), mesh, [Replicate()])
        )
        parameter.grad = distribute_tensor(torch.ones(3, 3), mesh, [Replicate()])
        optimizer.step()

    errors(step, cl.ConstraintError, r"parameter 'w' \(3, 3\): rank 1 holds other values than rank 0", 2)


def test_replicas_as_dtensors_are_refused() -> None:
    def build(rank: int) -> None:
        parameter = nn.Parameter(spread(torch.zeros(3, 2, 2)))
        cl.CoLod([{"params": [("w", parameter)], "replicas": 3}], 0.1)

    errors(
        build,
        cl.ConstraintError,
        r"parameter 'w' \(3, 2, 2\): is a DTensor, and param_groups\[0\] has replicas=3",
    )


def _sharded_late(rank: int) -> None:
    model = nn.Linear(4, 4)
    optimizer = cl.CoLud(cl.constrain(model, {"weight": cl.Orthogonal()}), 0.1, friction=1.0)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


def test_a_model_sharded_after_its_optimizer_was_built_is_an_error_at_the_first_step() -> None:
    for error in errors_of_ranks(_sharded_late, 2):
        with pytest.raises(cl.ConstraintError, match="no parameter has a gradient at the first step"):
            raise error
