"""Steps in other people's surroundings: autocast, inference mode, other default devices and dtypes."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import (
    ConstraintCase,
    OptimizerCase,
    assert_identical,
    by_id,
    check_feasible,
    each_constraint,
    snapshot,
    start,
    train,
)

each_kind = pytest.mark.parametrize(
    "optimizer",
    [by_id(id) for id in ("colod-noisy", "colud-BAOAB-noisy", "sgd-momentum")],
    ids=lambda case: case.id,
)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


SURROUNDINGS = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference": torch.inference_mode,
    "meta": lambda: torch.device("meta"),
    "float64": lambda: default_dtype(torch.float64),
}


@each_kind
@each_constraint
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_a_step_is_the_same_in_any_surroundings(
    optimizer: OptimizerCase, constraint: ConstraintCase, surroundings: str
) -> None:
    problem, opt = start(optimizer, constraint)
    other, other_opt = start(optimizer, constraint)
    for inside in (True, True, False, True):
        problem.backward()
        other.backward()
        if inside:
            with SURROUNDINGS[surroundings]():
                opt.step()
        else:
            opt.step()
        other_opt.step()
        check_feasible(opt)
    assert_identical(snapshot(opt), snapshot(other_opt))


@each_constraint
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_an_optimizer_built_and_loaded_there_is_the_same(
    constraint: ConstraintCase, surroundings: str
) -> None:
    noisy = by_id("colud-OBA-noisy")
    problem, opt = start(noisy, constraint)
    train(problem, opt, 2)
    saved = opt.state_dict()
    with SURROUNDINGS[surroundings]():
        other_opt = noisy.build(problem.groups())
        other_opt.load_state_dict(saved)
        again = other_opt.state_dict()
        violation = cl.diagnostics.violation(other_opt)
        cotangency = cl.diagnostics.cotangency(other_opt)
    assert_identical(again, saved)
    assert violation == cl.diagnostics.violation(opt)
    assert cotangency == cl.diagnostics.cotangency(opt)
    train(problem, other_opt, 1)


def test_an_orthogonal_step_under_autocast_stays_orthogonal() -> None:
    torch.manual_seed(0)
    model = nn.Linear(32, 64, bias=False)
    opt = cl.ConstrainedSGD(cl.constrain(model, {"weight": cl.Orthogonal()}), lr=0.1, momentum=0.9)
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(3):
            opt.zero_grad()
            model(torch.randn(8, 32)).square().mean().backward()
            opt.step()
    Q = model.weight.detach().double()
    assert (Q.T @ Q - torch.eye(32)).abs().max() <= 2e-6


def test_a_closure_is_called_in_the_surroundings_of_the_step() -> None:
    problem, opt = start(by_id("colud-OBA"), by_id("circle"), splitting="OBABO")
    seen = []

    def closure() -> Tensor:
        seen.append(torch.is_autocast_enabled("cpu"))
        problem.backward()
        return problem()

    with torch.autocast("cpu", torch.bfloat16):
        opt.step(closure)
    assert seen == [True, True]


FIRST = {
    "inference": "torch.inference_mode()",
    "meta": "torch.device('meta')",
    "autocast": "torch.autocast('cpu', torch.bfloat16)",
}


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST.keys())
def test_the_first_step_of_a_process_spoils_no_later_one(first: str) -> None:
    """Caches are filled by the first who needs them."""
    program = f"""
        import torch
        from torch import nn
        import colangevin as cl

        def run(first):
            torch.manual_seed(0)
            replicas = cl.Replicas(lambda: nn.Linear(70, 70), 40, seed=0)
            groups = replicas.constrain({{"weight": cl.Circle(1.0)}})
            extra = nn.Linear(8, 16)
            groups += cl.constrain(extra, {{"weight": cl.Orthogonal(), "bias": cl.Sphere(1.0)}})
            optimizer = cl.CoLud(groups, 0.1, friction=1.0, temperature=0.1, seed=3)
            parameters = [*replicas.parameters(), *extra.parameters()]
            for step in range(2):
                for p in parameters:
                    p.grad = torch.ones_like(p)
                if first and step == 0:
                    with {first}:
                        optimizer.step()
                else:
                    optimizer.step()
            return [p.detach().clone() for p in parameters]

        assert all(map(torch.equal, run(True), run(False)))
    """
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr


# ---- distributed jobs -----------------------------------------------------------------------------------


def single_process(store: str) -> AbstractContextManager[None]:
    @contextmanager
    def group() -> Iterator[None]:
        torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()

    return group()


def test_a_dtensor_in_the_place_of_a_parameter_takes_its_step(tmp_path: object) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    with single_process(f"{tmp_path}/store"):
        mesh = init_device_mesh("cpu", (1,))
        for constraint in (cl.Free(), cl.Circle(2.0), cl.Sphere(2.0)):
            plain = nn.Parameter(torch.ones(4, 2) / 2)
            sharded = nn.Parameter(distribute_tensor(plain.detach().clone(), mesh, [Shard(0)]))
            assert isinstance(sharded, DTensor)
            other = nn.Parameter(torch.zeros(4, 2))
            opt = cl.CoLod([{"params": [("w", plain)], "constraint": constraint}], 0.1)
            late = cl.CoLod([{"params": [("w", other)], "constraint": constraint}], 0.1)
            late.param_groups[0]["params"][0] = sharded
            plain.grad = torch.ones(4, 2)
            sharded.grad = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)])
            opt.step()
            late.step()
            assert torch.equal(sharded.to_local(), plain)
            assert not torch.equal(plain, torch.ones(4, 2) / 2)


@pytest.mark.parametrize("constraint", [cl.Free(), cl.Orthogonal()], ids=str)
def test_a_parameter_made_in_inference_mode_is_refused(constraint: cl.Constraint) -> None:
    with torch.inference_mode():
        weight = torch.nn.Parameter(torch.eye(3))
    words = r"'w' \(3, 3\): it was made inside of torch.inference_mode\(\), .* under torch.no_grad\(\)\."
    with pytest.raises(cl.ConstraintError, match=words):
        cl.ConstrainedSGD([{"params": [("w", weight)], "constraint": constraint}], 0.1)
