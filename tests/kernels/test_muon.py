"""Fused Muon and the plain one agree, and one that is given what it cannot step leaves it."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.dynamics import newton_schulz
from colangevin.dynamics.newton_schulz import NewtonSchulz
from colangevin.step import plan
from colangevin.step.fused import orthogonalise
from colangevin.step.fused.muon import MuonMover
from colangevin.step.fused.muon_frames import MuonFramesMover
from colangevin.step.fused.uploads import Uploads

SHAPES = ((10, 18), (3, 2, 2, 3), (18, 9), (7, 7))
CONSTRAINTS = {
    "free": cl.Free(),
    "rows": cl.Sphere(2.0, slack=False),
    "kept rows": cl.Sphere(),
    "matrix": cl.Sphere(3.0, over="matrix", slack=False),
    "frames": cl.Orthogonal(),
}
MOVERS = {"frames": MuonFramesMover}
# of weights of size 1 after STEPS steps: roundings of float32, and those of products of 16-bit parts
TOLERANCES = {"frames": 2e-4}
STEPS = 2


@pytest.fixture
def float32_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newton-Schulz in float32 on both paths: in bfloat16 only its singular values agree."""
    monkeypatch.setattr(newton_schulz, "PRECISION", torch.float32)


def build(constraint: cl.Constraint, dtype: torch.dtype, device: torch.device) -> list[dict]:
    """A matrix of every shape, and one more of the first that has numbers of its own."""
    torch.manual_seed(0)
    groups = []
    for number, shape in enumerate((*SHAPES, SHAPES[0])):
        weight = torch.randn(shape)
        if constraint != cl.Sphere():
            constraint.init_(weight)
        parameter = nn.Parameter(weight.to(dtype).to(device))
        group = {"params": [(f"w{number}", parameter)], "constraint": constraint}
        if number == len(SHAPES):
            group |= {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.3}
        groups.append(group)
    return groups


def run(groups: list[dict], steps: int = STEPS, edit: bool = False, **options) -> cl.ConstrainedMuon:
    optimizer = cl.ConstrainedMuon(groups, 0.05, **options)
    draw = torch.Generator().manual_seed(1)
    for step in range(steps):
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.grad = torch.randn(weight.shape, generator=draw).to(weight)
                if edit and step == 1:
                    weight.detach().mul_(1.0002)
        optimizer.step()
    return optimizer


def weights(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def compare(monkeypatch, device, name: str, dtype: torch.dtype, tolerance: float, **options) -> None:
    fused = run(build(CONSTRAINTS[name], dtype, device), **options)
    assert {type(mover) for mover in fused._plan.movers} == {MOVERS.get(name, MuonMover)}
    assert len(fused._plan.movers) == (1 if name == "frames" else len(SHAPES))
    with monkeypatch.context() as patch:
        patch.setattr(plan, "family", lambda entry, dynamics: None)
        plain = run(build(CONSTRAINTS[name], dtype, device), **options)
        assert not plain._plan.watching
    for ours, oracle in zip(weights(fused), weights(plain), strict=True):
        torch.testing.assert_close(ours, oracle, rtol=0, atol=tolerance)
        assert fused.state[ours].keys() == plain.state[oracle].keys()
        for key, value in plain.state[oracle].items():
            torch.testing.assert_close(fused.state[ours][key], value, rtol=0, atol=tolerance)
    assert max(cl.diagnostics.violation(fused).values()) <= 1e-5
    assert max([0.0, *cl.diagnostics.cotangency(fused).values()]) <= 4e-5


@pytest.mark.parametrize("options", [{}, {"nesterov": False}, {"maximize": True}, {"edit": True}], ids=str)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_matrices_of_every_shape(monkeypatch, device, float32_iteration, name, options):
    compare(monkeypatch, device, name, torch.float32, TOLERANCES.get(name, 2e-5), **options)


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_coarse_weights(monkeypatch, device, float32_iteration, name, dtype):
    compare(monkeypatch, device, name, dtype, 6e-2 if dtype == torch.bfloat16 else 5e-3)


def single(
    device, constraint: cl.Constraint, *shape: int, **options
) -> tuple[nn.Parameter, cl.ConstrainedMuon]:
    torch.manual_seed(0)
    weight = torch.randn(shape)
    if constraint != cl.Sphere():
        constraint.init_(weight, replicas="replicas" in options)
    weight = nn.Parameter(weight.to(device))
    weight.grad = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(device)
    group = {"params": [("w", weight)], "constraint": constraint, **options}
    return weight, cl.ConstrainedMuon([group], options.get("lr", 0.05))


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_numbers_on_the_device_and_for_each_replica(device, float32_iteration, name):
    rates = torch.tensor([0.05, 0.1]).to(device)
    together, optimizer = single(
        device, CONSTRAINTS[name], 2, 6, 10, replicas=2, lr=rates, weight_decay=rates
    )
    alone = []
    for k in range(2):
        weight = nn.Parameter(together.detach()[k].clone())
        weight.grad = together.grad[k].clone()
        group = {"params": [weight], "constraint": CONSTRAINTS[name]}
        one = cl.ConstrainedMuon([group], rates[k].clone(), weight_decay=rates[k].clone())
        one.step()
        assert one._plan.watching
        alone.append(weight.detach())
    optimizer.step()
    assert optimizer._plan.watching
    torch.testing.assert_close(together.detach(), torch.stack(alone), rtol=0, atol=1e-5)


def take_steps(optimizer: torch.optim.Optimizer, count: int, device: torch.device) -> None:
    """Steps; on a CUDA device each is waited for."""
    for _ in range(count):
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_bad_gradient_moves_no_weight_and_is_reported(device, float32_iteration, name):
    weight, optimizer = single(device, CONSTRAINTS[name], 6, 10)
    optimizer.step()
    weight.grad[0, 0] = torch.nan
    before = weight.detach().clone()
    optimizer.step()
    if name == "frames":  # moves as if the average had met that gradient
        assert CONSTRAINTS[name].violation(weight) < 1e-5
    else:
        torch.testing.assert_close(weight.detach(), before, rtol=0, atol=1e-6)
    assert bool(optimizer.state[weight]["momentum"].isfinite().all())
    weight.grad.zero_()
    with pytest.raises(cl.NonFiniteError, match=r"parameter 'w' \(6, 10\): its gradient held NaN or Inf"):
        take_steps(optimizer, 12, device)


@pytest.mark.parametrize("constraint", [CONSTRAINTS["rows"], CONSTRAINTS["frames"]], ids=repr)
@pytest.mark.parametrize("make", [cl.ConstrainedMuon, cl.ConstrainedSGD])
def test_coarse_weights_that_nobody_edited_are_not_checked(device, float32_iteration, make, constraint):
    weight = nn.Parameter(constraint.init_(torch.randn(6, 10)).bfloat16().to(device))
    weight.grad = torch.ones_like(weight)
    optimizer = make([{"params": [weight], "constraint": constraint}], 0.05, 0.9)
    for _ in range(2):
        optimizer.step()
    (mover,) = optimizer._plan.watching
    assert mover.trusted


def test_a_changed_iteration_is_followed(device, float32_iteration):
    (weight, optimizer), (other, fresh) = (single(device, cl.Free(), 6, 10) for _ in range(2))
    optimizer.step()
    fresh.step()
    optimizer.param_groups[0]["ns_steps"] = 2
    optimizer.step()
    group = {"params": [("w", other)], "constraint": cl.Free(), "ns_steps": 2}
    rebuilt = cl.ConstrainedMuon([group], 0.05)
    rebuilt.load_state_dict(fresh.state_dict() | {"param_groups": rebuilt.state_dict()["param_groups"]})
    rebuilt.step()
    torch.testing.assert_close(weight.detach(), other.detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 12, 20), (2, 20, 12), (3, 7, 7), (1, 1, 5)], ids=str)
@pytest.mark.parametrize("halved", [False, True])
def test_orthogonalised_stacks(monkeypatch, device, float32_iteration, shape, halved):
    monkeypatch.setattr(orthogonalise, "_WORTH_HALVING", 1 if halved else 1000)
    iteration = NewtonSchulz((3.4445, -4.775, 2.0315), 5, 1e-7)
    stack = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device)
    ours = orthogonalise.Orthogonaliser(iteration, shape, Uploads(device))(stack)
    assert ours.is_contiguous()
    torch.testing.assert_close(ours, iteration(stack), rtol=0, atol=2e-5)
    exact = iteration(stack.double().cpu())  # in float32 all the same: float64 is what it returns
    torch.testing.assert_close(ours.double().cpu(), exact, rtol=0, atol=2e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(4, 512, 512), (2, 384, 1000), (2, 1000, 384), (1, 2048, 1024)], ids=str)
def test_stacks_in_bfloat16_round_as_torch_does(shape):
    device = torch.device("cuda")
    iteration = NewtonSchulz((3.4445, -4.775, 2.0315), 5, 1e-7)
    stack = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, torch.bfloat16)
    ours = orthogonalise.Orthogonaliser(iteration, shape, Uploads(device))(stack).double()
    torchs, exact = iteration(stack).double(), iteration_in_float64(iteration, stack)
    error, torchs_error = (float((each - exact).norm() / exact.norm()) for each in (ours, torchs))
    assert error <= 1.5 * torchs_error <= 0.05


def iteration_in_float64(iteration: NewtonSchulz, stack: Tensor) -> Tensor:
    X = stack.double()
    X = X / torch.linalg.matrix_norm(X, keepdim=True)
    a, b, c = iteration.coefficients
    for _ in range(iteration.steps):
        gram = X @ X.mT
        X = a * X + (b * gram + c * gram @ gram) @ X
    return X


@pytest.mark.gpu
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_steps_never_wait_for_the_device_and_replay_from_a_graph(waiting_is_an_error, name):
    device = torch.device("cuda")
    results = []
    for captured in (False, True):
        weight, optimizer = single(device, CONSTRAINTS[name], 64, 96)
        optimizer.step()
        torch.cuda.synchronize()
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                optimizer.step()
            for _ in range(20):
                graph.replay()
        else:
            with waiting_is_an_error:
                for _ in range(20):
                    optimizer.step()
        torch.cuda.synchronize()
        results.append((weight.detach().clone(), int(optimizer.state[weight]["step"])))
    assert torch.equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1] == 21
